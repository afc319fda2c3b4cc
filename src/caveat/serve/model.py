"""Model: the user's network in front of the guard, an ONNX file run by onnxruntime: raw inputs in, fields out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_finite, check_same
from caveat._internal.files import read_bytes
from caveat.errors import InputError, MissingExtraError
from caveat.guard import Guard
from caveat.guard.onnx_compose import parent_of, parse_model, sources_in, with_outputs
from caveat.outputs import Head
from caveat.serve.bodies import reason
from caveat.serve.fields import Fields
from caveat.serve.problems import Problem
from caveat.serve.tensors import DATATYPES, Tensor, as_datatype

__all__ = ["Model"]

Array = NDArray[Any]
_ROWS = 64  # that the network sees at once, so that a large body does not need large activations
_LARGEST = 2**31  # bytes of a message of protobuf
_FIELDS = ("logits", "probs", "features", "embeddings")  # a matrix each
_TYPES = {"float16": "FP16", "float": "FP32", "double": "FP64"} | {
    name.lower(): name for name in DATATYPES if "INT" in name
}


@final
class Model:
    """A network in an ONNX file; made by ``Model.load``. Any number of threads may call it.

    Parameters
    ----------
    session
        An onnxruntime session whose outputs are tensors of the network.
    sources
        Field of ``Outputs`` -> name of the tensor that gives it.
    inputs
        What the network reads; rows are the first axis of each.
    batch
        Rows that the network takes at once; None: any number.
    facts
        Where it came from: file name and SHA-256.
    """

    def __init__(
        self, session: Any, sources: Mapping[str, str], inputs: tuple[Tensor, ...], batch: int | None,
        facts: dict[str, Any],
    ) -> None:  # fmt: skip
        self._session, self._sources, self._batch = session, dict(sources), batch
        self.inputs, self.facts = inputs, facts

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], guard: Guard, *, outputs: Mapping[str, str] | None = None,
        head: Head | None = None,
    ) -> Model:  # fmt: skip
        """The model in an ONNX file that gives what a guard reads (extra ``onnx``).

        Parameters
        ----------
        path
            The file; its external tensors must lie in its folder.
        guard
            A calibrated guard.
        outputs
            Field of ``Outputs`` -> name of the tensor, where they differ; inner tensors count too. ``probs`` may stand
            for ``logits`` where the guard reads probabilities.
        head
            Last linear layer: the model then gives features, and logits are computed from them.

        Returns
        -------
        Model
            Call it with the arrays of a request.
        """
        try:
            import onnx  # noqa: F401
            import onnxruntime  # noqa: F401
        except ImportError:
            raise MissingExtraError("a model in front of the guard", extra="onnx") from None
        content, names, fields = read_bytes(Path(path)), dict(outputs or {}), Fields(guard, head)
        parent = parent_of(parse_model(content, path))
        sources = sources_in(parent, _wanted(fields, names), names, option="--model-output {field}=...")
        session = _session(with_outputs(parent, sources.values()), path)
        inputs, batch = _inputs(session, path)
        facts: dict[str, Any] = {"file": Path(path).name, "sha256": hashlib.sha256(content).hexdigest()}
        if external := _external(content):
            facts["external"] = {name: _digest(_inside(Path(path), name)) for name in external}
        model = cls(session, {field: source.name for field, source in sources.items()}, inputs, batch, facts)
        model._try(fields, path)
        return model

    def __call__(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The fields of ``Outputs`` for the inputs of a request; inputs that are not what it reads are a Problem.

        Parameters
        ----------
        arrays
            Name of the input -> array with n rows.

        Returns
        -------
        dict
            Field of ``Outputs`` -> array with n rows.
        """
        fed = self._fed(arrays)
        n = len(next(iter(fed.values())))
        step = self._batch or _ROWS
        parts = [self._run({name: array[start : start + step] for name, array in fed.items()})
                 for start in range(0, n, step)]  # fmt: skip
        return {field: np.concatenate([part[i] for part in parts]) for i, field in enumerate(self._sources)}

    def _fed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        missing = [tensor.name for tensor in self.inputs if tensor.name not in arrays]
        if missing:
            listed = ", ".join(str(name)[:50] for name in list(arrays)[:10])
            raise Problem(422, f"the model needs {', '.join(t.name for t in self.inputs)}, got {listed or 'nothing'}.")
        try:
            fed = {tensor.name: _as_input(arrays[tensor.name], tensor) for tensor in self.inputs}
            check_same("number of rows", **{name: len(array) for name, array in fed.items()})
        except InputError as error:
            raise Problem(422, str(error)) from None
        return fed

    def _run(self, rows: Mapping[str, Array]) -> list[Array]:
        """The wanted tensors for some rows; a network with a fixed batch gets the last row as often as it takes."""
        n = len(next(iter(rows.values())))
        if self._batch is not None and n < self._batch:
            rows = {name: np.concatenate([array, np.repeat(array[-1:], self._batch - n, axis=0)])
                    for name, array in rows.items()}  # fmt: skip
        try:
            results = self._session.run(list(self._sources.values()), dict(rows))
        except Exception as error:  # onnxruntime has no common base class for its errors
            shapes = ", ".join(f"{name} {array.shape}" for name, array in rows.items())
            raise Problem(422, f"the model cannot run {shapes} ({reason(error)}).") from None
        for field, result in zip(self._sources, results, strict=True):
            if result.ndim != 2 or len(result) != (self._batch or n):
                raise Problem(422, f"the model must give a row of {field} per input, got shape {result.shape} for {n}.")
        return [result[:n] for result in results]

    def _try(self, fields: Fields, path: str | os.PathLike[str]) -> None:
        """Run two rows of zeros where the inputs have a fixed shape, so that what cannot work fails at the start."""
        if any(-1 in tensor.shape[1:] for tensor in self.inputs):
            return
        zeros = {t.name: np.zeros((2, *t.shape[1:]), dtype=DATATYPES[t.datatype]) for t in self.inputs}
        try:
            results = self(zeros)
        except Problem as problem:
            raise InputError(f"{path} cannot be used: {problem}") from None
        for field, result in results.items():
            width = fields.widths.get(field)
            if width is not None and result.shape[1] != width:
                raise InputError(f"{path} gives {result.shape[1]} columns of {field}, and the guard reads {width}.")


def _wanted(fields: Fields, names: Mapping[str, str]) -> dict[str, int | None]:
    """Fields that the model must give, with their columns."""
    wanted = dict(fields.widths)
    if "probs" in names and "logits" not in names and fields.reads("probs"):
        wanted = {"probs" if field == "logits" else field: width for field, width in wanted.items()}
    if not_given := [field for field in wanted if field not in _FIELDS]:
        raise InputError(f"the guard reads {', '.join(not_given)}, which a model of the service cannot give. Serve the "
                         "guard without a model, and send what it reads.")  # fmt: skip
    return wanted


def _session(proto: Any, path: str | os.PathLike[str]) -> Any:
    import onnxruntime

    if proto.ByteSize() >= _LARGEST:
        raise InputError(f"{path} must have less than 2 GiB with its weights. Run it elsewhere, and send its outputs.")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the pool of the service has threads enough
    options.use_deterministic_compute = True
    try:
        return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise InputError(f"onnxruntime cannot run {path} ({reason(error)}).") from None


def _inputs(session: Any, path: str | os.PathLike[str]) -> tuple[tuple[Tensor, ...], int | None]:
    """What the network reads, and how many rows at once where that is fixed."""
    tensors, batches = [], set()
    for value in session.get_inputs():
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        if kind not in _TYPES or not value.shape:
            raise InputError(f"the input {value.name} of {path} must be numbers with rows as its first axis, got "
                             f"{value.type} of shape {value.shape}.")  # fmt: skip
        sizes = [size if isinstance(size, int) and size > 0 else -1 for size in value.shape]
        batches.add(sizes[0])
        tensors.append(Tensor(value.name, _TYPES[kind], (-1, *sizes[1:])))
    if not tensors or len(batches - {-1}) > 1:
        raise InputError(f"the inputs of {path} must have the same number of rows, got {sorted(batches)}.")
    return tuple(tensors), next(iter(batches - {-1}), None)


def _as_input(array: Array, tensor: Tensor) -> Array:
    """The array in the type of an input of the network, with the same numbers; floats may lose digits."""
    if array.ndim != len(tensor.shape) or not array.size or any(
        wanted not in (-1, size) for wanted, size in zip(tensor.shape, array.shape, strict=True)
    ):  # fmt: skip
        shape = ", ".join("n" if i == 0 else "any" if size < 0 else str(size) for i, size in enumerate(tensor.shape))
        raise InputError(f"{tensor.name} must have shape ({shape}), got {array.shape}.")
    check_finite(array, tensor.name)
    changed = as_datatype(array, tensor.datatype, tensor.name)
    check_finite(changed, f"{tensor.name} as {tensor.datatype}")
    return changed


def _external(content: bytes) -> list[str]:
    """Names of the files that hold weights outside of the ONNX file."""
    import onnx

    if b"location" not in content:  # the key of such a name; a large file is not parsed again for nothing
        return []
    weights = onnx.load_model_from_string(content).graph.initializer
    return sorted({entry.value for tensor in weights for entry in tensor.external_data if entry.key == "location"})


def _inside(path: Path, name: str) -> Path:
    """The file of weights, which must lie in the folder of the ONNX file, also if it is a link."""
    weights, folder = (path.parent / name).resolve(), path.parent.resolve()
    if not weights.is_relative_to(folder):
        raise InputError(f"{path} reads weights outside of its folder ({name}). Put them beside it.")
    return weights


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()
