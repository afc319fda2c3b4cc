"""Outputs of a model in an ONNX file, through onnxruntime.

The file is read as a graph. From its output the search goes back over nodes that only rename or normalize (softmax,
reshape) to the last matrix product with stored weights: its input are the features, its output the logits, and its
weights the head. Where there is none (quantized weights, another last node), the logits are read alone.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_array, check_known
from caveat.errors import CaveatWarning, InputError, MissingExtraError
from caveat.nn._batches import split_labels
from caveat.nn._head_search import HeadSource, checked_parts, report_shortfall
from caveat.nn._heads import OTHER_LOGITS
from caveat.nn._rows import Rows, check_part, first_of, labels_of, numbers
from caveat.nn._walk import watched
from caveat.outputs import Head, Outputs

__all__ = ["extract_onnx"]

Array = NDArray[Any]

_GIBIBYTE = 2**30
# After the head: a new name or shape, or a normalization that keeps the order of the classes.
_BEHIND = {"Softmax", "LogSoftmax", "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Dropout"}


def extract_onnx(
    model: str | os.PathLike[str] | bytes,
    batches: Iterable[Any],
    *,
    head: str = "auto",
    labels: bool | str = True,
    keep: Sequence[Literal["logits", "features", "head"]] | None = None,
    dtype: Literal["float16", "float32"] | None = None,
    out: str | os.PathLike[str] | None = None,
    bound: float = _GIBIBYTE,
    progress: bool | None = None,
) -> Outputs:
    """Outputs of a classifier in an ONNX file on everything the batches hold.

    A softmax after the head is left out: the logits are those before it. A file exported for a fixed batch size is fed
    in pieces of that size.

    Parameters
    ----------
    model
        Path or content of an ``.onnx`` file. Its answer is the output ``logits``, or the first.
    batches
        Arrays (n, ...), mappings whose entries are the inputs of the file by name, or tuples of one of these and its
        labels, as for :func:`caveat.nn.extract`.
    head
        Name of the node (or of its output) that multiplies features by the last weights, a Gemm or a MatMul; ``"auto"``
        takes the last one before the output. Where there is none, a warning says so and logits are stored alone.
    labels, keep, dtype, out, bound, progress
        As for :func:`caveat.nn.extract`.

    Returns
    -------
    Outputs
        With ``logits``, and ``features``, ``head`` and ``labels`` where the file and the batches give them.

    Examples
    --------
    >>> from onnx import TensorProto, helper, numpy_helper
    >>> rows, answer = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    >>> weight = numpy_helper.from_array(np.eye(3, 2, dtype=np.float32), "weight")
    >>> node = helper.make_node("MatMul", ["x", "weight"], ["y"])
    >>> graph = helper.make_graph([node], "linear", [rows], [answer], [weight])
    >>> file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    >>> extract_onnx(file, [np.ones((4, 3), dtype=np.float32)])
    Outputs(n=4, logits 4x2 float32, features 4x3 float32, head_weight 2x3 float32, head_bias 2 float32)
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("nn.extract_onnx", extra="torch") from error
    if dtype is not None:
        check_known(dtype, ("float16", "float32"), "dtype")
    parts = checked_parts(keep)
    graph = _Graph.read(model)
    layer = graph.head(head, parts)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # the library never prints
    try:
        session = onnxruntime.InferenceSession(graph.exposing(layer), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise InputError(f"onnxruntime cannot run this file ({error}).") from None
    with Rows(bound=bound, out=None if out is None else Path(out)) as rows:
        with closing(watched(batches, progress)) as shown:  # type: ignore[type-var]
            for i, batch in enumerate(shown):
                inputs, truth = graph.inputs(batch, labels)
                if len(next(iter(inputs.values()))) == 0:
                    continue
                features, logits = graph.run(session, inputs, layer)
                part = {"logits": _wide(logits)}
                if features is not None and (parts is None or "features" in parts):
                    part["features"] = _wide(features) if dtype is None else features.astype(dtype)
                check_part(part, row=rows.n, batch=i, half=dtype == "float16")
                if labels and (classes := labels_of(truth, *logits.shape, batch=i)) is not None:
                    part["labels"] = classes
                rows.add(part)
        if rows.n == 0:
            raise InputError("batches must hold at least one batch, got none.")
        if layer.weight is None or not (parts is None or "head" in parts):
            return rows.finish(None)
        return rows.finish(Head(_wide(layer.weight), None if layer.bias is None else _wide(layer.bias)))


@final
@dataclass(frozen=True)
class _Layer:
    """The head of a graph: names of its output and input, and its weights (C, D) and biases (C,); or logits alone."""

    logits: str
    features: str | None = None
    weight: Array | None = None
    bias: Array | None = None


@final
class _Graph:
    """An ONNX graph, searched from its output."""

    def __init__(self, proto: Any) -> None:
        from onnx import numpy_helper

        self._proto = proto
        self._maker = {name: node for node in proto.graph.node for name in node.output}
        self._stored = {tensor.name: tensor for tensor in proto.graph.initializer}
        self._to_array = numpy_helper.to_array
        self._inputs = {value.name: value for value in proto.graph.input if value.name not in self._stored}
        if not self._inputs:
            raise InputError("the file must have an input, has none.")

    @classmethod
    def read(cls, model: str | os.PathLike[str] | bytes) -> _Graph:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

        where = "the content" if isinstance(model, bytes) else str(model)
        try:
            proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        except FileNotFoundError:
            raise InputError(f"{where} does not exist. Check the path.") from None
        except (DecodeError, ValueError, OSError, onnx.checker.ValidationError) as error:
            raise InputError(f"{where} is damaged or not an ONNX file ({error}). Export it again.") from None
        if not proto.graph.output:
            raise InputError(f"{where} is not an ONNX file with an output. Export it again.")
        return cls(proto)

    def head(self, name: str, keep: Sequence[str] | None) -> _Layer:
        """The linear layer of this name, or the one whose output is that of the graph, or logits alone."""
        layers = list(self._linear_layers())
        candidates = "candidates: " + (", ".join(repr(names[0]) for names, _ in layers) or "none")
        outputs = [value.name for value in self._proto.graph.output]
        answer = "logits" if "logits" in outputs else outputs[0]
        while (node := self._maker.get(answer)) is not None and node.op_type in _BEHIND:
            answer = node.input[0]
        if name != "auto":
            for names, layer in layers:
                if name in names:
                    if layer.logits != answer:
                        warnings.warn(f"the logits of head '{name}' are not what the file returns. {OTHER_LOGITS}",
                                      CaveatWarning, stacklevel=3)  # fmt: skip
                    return layer
            raise InputError(f"head '{name}' must name a Gemm or MatMul with stored weights; {candidates}.")
        for _, layer in layers:
            if layer.logits == answer:
                return layer
        maker = "its input" if node is None else f"{node.op_type} '{node.name}'"
        why = f"no matrix product with stored weights gives the output, which comes from {maker}"
        report_shortfall(HeadSource(None, linear=False, shortfall=why), keep, [names[0] for names, _ in layers])
        return _Layer(answer)

    def _linear_layers(self) -> Iterator[tuple[list[str], _Layer]]:
        """Every Gemm, and every MatMul with the Add of its bias, if their weights are stored; with all their names."""
        nodes = self._proto.graph.node
        for node in nodes:
            layer = self._gemm(node) if node.op_type == "Gemm" else None
            names = [node.name, *node.output]
            if node.op_type == "MatMul":
                weight = self._constant(node.input[1])
                if weight is not None and weight.ndim == 2:
                    layer = _Layer(node.output[0], node.input[0], weight.T)
                    for add in nodes:
                        if add.op_type == "Add" and node.output[0] in add.input:
                            other = [name for name in add.input if name != node.output[0]]
                            bias = self._constant(other[0]) if other else None
                            if bias is not None and (wide := _per_class(bias, weight.shape[1])) is not None:
                                layer = _Layer(add.output[0], node.input[0], weight.T, wide)
                                names += [add.name, *add.output]
            if layer is not None:
                yield [name for name in names if name], layer

    def _gemm(self, node: Any) -> _Layer | None:
        settings = {attribute.name: attribute.i or attribute.f for attribute in node.attribute}
        weight = self._constant(node.input[1])
        if weight is None or settings.get("transA"):
            return None
        weight = (weight if settings.get("transB") else weight.T) * weight.dtype.type(settings.get("alpha", 1.0))
        bias = None
        if len(node.input) > 2 and node.input[2]:
            stored = self._constant(node.input[2])
            if stored is None:
                return None  # a bias that is computed is not a bias of the head
            bias = _per_class(stored * stored.dtype.type(settings.get("beta", 1.0)), len(weight))
            if bias is None:
                return None
        return _Layer(node.output[0], node.input[0], weight, bias)

    def _constant(self, name: str) -> Array | None:
        """A stored tensor, also behind an Identity or a Transpose; None for one that is computed from the input."""
        if name in self._stored:
            return np.asarray(self._to_array(self._stored[name]))
        node = self._maker.get(name)
        if node is None:
            return None
        if node.op_type == "Constant":
            return next((np.asarray(self._to_array(a.t)) for a in node.attribute if a.name == "value"), None)
        if node.op_type in ("Identity", "Transpose"):
            inner = self._constant(node.input[0])
            order = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
            return inner if inner is None or node.op_type == "Identity" else np.transpose(inner, order)
        return None

    def exposing(self, layer: _Layer) -> bytes:
        """The file with features and logits among its outputs."""
        import onnx

        changed = onnx.ModelProto()
        changed.CopyFrom(self._proto)
        there = {value.name for value in changed.graph.output} | {*self._inputs}
        for name in dict.fromkeys((layer.features, layer.logits)):
            if name is not None and name not in there:
                changed.graph.output.append(onnx.ValueInfoProto(name=name))
        return bytes(changed.SerializeToString())

    def inputs(self, batch: Any, labels: bool | str) -> tuple[dict[str, Array], Any]:
        """The arrays of a batch by name of the input, and its labels."""
        first, truth = first_of(batch)
        names = list(self._inputs)
        if isinstance(first, Mapping):
            entries, truth = split_labels(first, truth, labels)
            arrays = {key: array for key, value in entries.items() if (array := numbers(value)) is not None}
            if len(names) == len(arrays) == 1:
                arrays = dict(zip(names, arrays.values(), strict=True))
        else:
            array = as_array(first, "a batch")
            if array.dtype.kind not in "fiub" or array.ndim == 0:
                raise InputError("a batch must be an array, a mapping of arrays, or a tuple that starts with one of "
                                 f"these, got {type(first).__name__}.")  # fmt: skip
            arrays = {names[0]: array}
        if set(arrays) != set(names):
            raise InputError(f"a batch must hold the inputs of the file ({', '.join(names)}) by name, got "
                             f"{', '.join(map(str, arrays)) or 'none'}.")  # fmt: skip
        return {name: arrays[name] for name in names}, truth

    def run(self, session: Any, inputs: Mapping[str, Array], layer: _Layer) -> tuple[Array | None, Array]:
        """Features, if any, and logits of a batch."""
        from onnx.helper import tensor_dtype_to_np_dtype

        kinds = {name: value.type.tensor_type for name, value in self._inputs.items()}
        inputs = {
            name: array.astype(tensor_dtype_to_np_dtype(kinds[name].elem_type), copy=False)
            for name, array in inputs.items()
        }
        main = next(iter(inputs))
        fixed = kinds[main].shape.dim[0].dim_value if len(kinds[main].shape.dim) else 0
        wanted = [name for name in (layer.features, layer.logits) if name is not None and name not in inputs]
        parts: list[dict[str, Array]] = []
        n = len(inputs[main])
        for start in range(0, n, fixed or n):
            piece = {name: array[start : start + (fixed or n)] for name, array in inputs.items()}
            rows = len(piece[main])
            fed = {
                name: np.concatenate([array, np.repeat(array[-1:], fixed - rows, axis=0)]) if rows < fixed else array
                for name, array in piece.items()
            }
            try:
                arrays = session.run(wanted, fed)
            except Exception as error:  # as above
                shapes = ", ".join(str(array.shape) for array in piece.values())
                raise InputError(f"onnxruntime cannot run inputs of shape {shapes} ({error}).") from None
            parts.append(piece | {k: v[:rows] for k, v in zip(wanted, arrays, strict=True)})
        logits = np.concatenate([part[layer.logits] for part in parts])
        if layer.features is None:
            if logits.ndim != 2 or len(logits) != n or logits.dtype.kind != "f":
                raise InputError(f"the file must give logits (n, C), got {logits.dtype} of shape {logits.shape} for "
                                 f"{n} samples.")  # fmt: skip
            return None, logits
        features = np.concatenate([part[layer.features] for part in parts])
        if features.ndim != 2 or len(features) != n:
            raise InputError(f"the head must see one feature vector per sample, got shape {features.shape} for {n} "
                             "samples.")  # fmt: skip
        return features, logits


def _wide(array: Array) -> Array:
    """Half precision as float32."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _per_class(bias: Array, classes: int) -> Array | None:
    """One bias for each class; None if it is added along the samples instead."""
    fits = bias.size == 1 or (bias.size == classes == bias.shape[-1])
    return np.broadcast_to(bias.ravel(), (classes,)) if fits else None
