"""A user's ONNX model and the graph of a guard as one file: the model's input in, the verdict out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import as_kind, check_known
from caveat._internal.files import read_bytes
from caveat.errors import InputError
from caveat.guard.onnx_graph import FLOAT

_OLDEST, _CONVERTED = 13, 17  # opsets: the graph of a guard needs 13; an older model is converted
_FLOATS = {10: "float16", 1: "float32", 11: "float64"}  # TensorProto.DataType
_PREFIX = "model/"


@final
@dataclass(frozen=True, eq=False)
class Parent:
    """The user's model, with the types and shapes that can be inferred."""

    proto: Any
    values: dict[str, Any]

    @property
    def opset(self) -> int:
        return _opset(self.proto)


@final
@dataclass(frozen=True)
class Source:
    """A tensor of the model: its name and element type."""

    name: str
    kind: int


def read_model(path: str | os.PathLike[str]) -> Parent:
    """The model in a file, converted where its operators are older than those of the guard's graph."""
    from onnx import version_converter

    proto = parse_model(read_bytes(Path(path)), path)
    if _opset(proto) < _OLDEST:
        try:
            proto = version_converter.convert_version(proto, _CONVERTED)
        except Exception as error:  # the converter has no common base class for its errors
            raise InputError(f"{path} uses opset {_opset(proto)} and cannot be converted to {_CONVERTED} ({error}). "
                             f"Export it again with opset {_CONVERTED}.") from None  # fmt: skip
    return parent_of(proto)


def parse_model(content: bytes, path: str | os.PathLike[str]) -> Any:
    """The model in the bytes of a file, with its external tensors, which must lie in the folder of the file."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        proto = onnx.load_model_from_string(content)
        onnx.load_external_data_for_model(proto, str(Path(path).resolve().parent))
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        raise InputError(f"{path} is damaged or not an ONNX file ({error}). Export it again.") from None
    except OSError as error:
        raise InputError(f"{path} has weights in another file that cannot be read ({error}).") from None
    if not proto.graph.output:
        raise InputError(f"{path} is not an ONNX file with an output. Export it again.")
    return proto


def parent_of(proto: Any) -> Parent:
    """A model with the types and shapes that can be inferred."""
    from onnx import shape_inference

    graph = shape_inference.infer_shapes(proto).graph
    return Parent(proto, {value.name: value for value in (*graph.value_info, *graph.output)})


def with_outputs(parent: Parent, sources: Iterable[Source]) -> Any:
    """A copy of the model in which these tensors are outputs, also those inside."""
    from onnx import ModelProto
    from onnx.helper import make_tensor_value_info

    model = ModelProto()
    model.CopyFrom(parent.proto)
    for source in sources:
        if source.name not in [value.name for value in model.graph.output]:
            value = parent.values.get(source.name) or make_tensor_value_info(source.name, source.kind, None)
            model.graph.output.append(value)
    return model


def sources_in(
    parent: Parent,
    shapes: Mapping[str, int | None],
    outputs: Mapping[str, str] | None,
    *,
    option: str = "outputs={{'{field}': ...}}",
) -> dict[str, Source]:
    """Which tensor of the model is each field that the guard reads; ``option`` says how a caller names one."""
    names = {} if outputs is None else as_kind(outputs, Mapping, "outputs", what="a map from fields to tensor names")
    mapped = {field: field for field in shapes} | dict(names)
    for field in mapped:
        check_known(field, shapes, "field that this guard reads")
    made = {name for node in parent.proto.graph.node for name in node.output if name}
    sources = {}
    for field, name in mapped.items():
        if name not in made:
            listed = ", ".join(value.name for value in parent.proto.graph.output)
            raise InputError(f"the guard reads {field}, and the model has no tensor {name!r}. Name it with "
                             f"{option.format(field=field)}; outputs of the model: {listed}.")  # fmt: skip
        kind, shape = FLOAT, None
        if name in parent.values:
            tensor = parent.values[name].type.tensor_type
            kind = tensor.elem_type or FLOAT
            shape = [dim.dim_value for dim in tensor.shape.dim] if tensor.HasField("shape") else None
        if kind not in _FLOATS:
            raise InputError(f"{name} must hold {', '.join(_FLOATS.values())} to be {field}, got ONNX type {kind}.")
        width = shapes[field]
        if shape is not None and (len(shape) != 2 or (width and shape[1] and shape[1] != width)):
            raise InputError(f"{name} must have shape (n, {width or 'C'}) to be {field}, got {tuple(shape)} "
                             "(0 stands for any number).")  # fmt: skip
        sources[field] = Source(name, kind)
    return sources


def compose(parent: Parent, sources: Mapping[str, Source], part: Any) -> Any:
    """One model: that of the user, whose outputs stay, and the outputs of the guard."""
    import onnx
    from onnx.compose import add_prefix, merge_models

    model = with_outputs(parent, sources.values())
    kept = [value.name for value in parent.proto.graph.output]
    names = {field: source.name for field, source in sources.items()}
    ours = [value.name for value in part.graph.output]
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    if taken & set(ours):
        inputs = [value.name for value in model.graph.input]
        model = add_prefix(model, _PREFIX, rename_inputs=False)
        _restore_inputs(model.graph, inputs)
        kept, names = [_PREFIX + name for name in kept], {field: _PREFIX + name for field, name in names.items()}
    for entry in part.metadata_props:
        for own in [own for own in model.metadata_props if own.key == entry.key]:
            model.metadata_props.remove(own)  # of a guard that was composed before
    try:
        return merge_models(model, part, [(name, field) for field, name in names.items()], outputs=[*kept, *ours],
                            producer_name="caveat", producer_version=part.producer_version)  # fmt: skip
    except (ValueError, onnx.checker.ValidationError) as error:
        raise InputError(f"the model cannot be composed with the guard ({error}).") from None


def _restore_inputs(graph: Any, names: list[str]) -> None:
    """Give the inputs their names back: onnx before 1.17 renames them although it is told not to."""
    changed = {value.name: name for value, name in zip(graph.input, names, strict=True) if value.name != name}
    for value in graph.input:
        value.name = changed.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [changed.get(name, name) for name in node.input]


def _opset(proto: Any) -> int:
    return next((int(entry.version) for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 1)
