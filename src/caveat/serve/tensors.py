"""Tensors of the Open Inference Protocol: a request from JSON with binary data behind it, and an answer of that form.

The protocol is that of KServe and Triton (github.com/kserve/open-inference-protocol, inference_rest.md) with Triton's
binary tensor data extension: little-endian numbers in row-major order, texts with their length in four bytes before.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import orjson
from numpy.typing import NDArray

from caveat.serve.bodies import AXES, MEMBERS, has_booleans, json_object, numbers, settled
from caveat.serve.problems import Problem

__all__ = ["DATATYPES", "InferenceRequest", "Tensor", "as_datatype", "packed_answer", "read_request"]

Array = NDArray[Any]
DATATYPES = {"FP16": "f2", "FP32": "f4", "FP64": "f8"}  # name in the protocol -> type of numpy
DATATYPES |= {
    f"{sign}INT{8 * size}": f"{kind}{size}" for sign, kind in (("", "i"), ("U", "u")) for size in (1, 2, 4, 8)
}


@final
@dataclass(frozen=True)
class Tensor:
    """An array that a client sends or gets.

    Parameters
    ----------
    name
        Its name.
    datatype
        Type as the protocol names it: ``FP32``, ``INT64``, ``BYTES``, ...
    shape
        Sizes of its axes; -1 stands for any.

    Examples
    --------
    >>> Tensor("logits", "FP32", (-1, 3)).to_dict()
    {'name': 'logits', 'datatype': 'FP32', 'shape': [-1, 3]}
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    @property
    def width(self) -> int | None:
        """Columns, where rows are vectors of a fixed length."""
        return self.shape[1] if len(self.shape) == 2 and self.shape[1] > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """The tensor as plain values."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@final
@dataclass(frozen=True)
class InferenceRequest:
    """What a client sent and wants back.

    Parameters
    ----------
    id
        Name that the client gave to the request; the answer repeats it.
    arrays
        Inputs by name.
    outputs
        Wanted outputs in their order, and whether each comes as binary data.
    """

    id: str | None
    arrays: dict[str, Array]
    outputs: dict[str, bool]


# -- requests ---------------------------------------------------------------------------------------------------------


def read_request(
    body: bytes, json_length: str | None, *, reads: Callable[[str], bool], outputs: Sequence[str], most: int
) -> InferenceRequest:
    """A request of the protocol.

    Parameters
    ----------
    body
        The bytes as they came: a JSON object, and the binary data of its inputs behind it.
    json_length
        The header ``Inference-Header-Content-Length``; None: all of the body is JSON.
    reads
        Whether an input of this name is used.
    outputs
        Names of all outputs, in the order in which they come unless the client names some.
    most
        Bytes that the arrays may take together.

    Examples
    --------
    >>> body = b'{"id": "7", "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}'
    >>> read_request(body, None, reads=lambda name: name == "x", outputs=["kind"], most=1000)
    InferenceRequest(id='7', arrays={'x': array([[1., 2.]], dtype=float32)}, outputs={'kind': False})
    """
    end = _json_end(json_length, len(body))
    text, data = bytes(memoryview(body)[:end]), memoryview(body)[end:]
    content, booleans = json_object(text, most), has_booleans(text)
    key = content.get("id")
    if key is not None and not isinstance(key, str):
        raise Problem(422, "id must be a text.")
    arrays: dict[str, Array] = {}
    start = 0
    for item in _objects(content, "inputs"):
        name, size = item["name"], _parameters(item).get("binary_data_size")
        if name in arrays or not reads(name):
            raise Problem(422, f"the inputs must be those of the model, each once, got {name[:100]!r}. Ask for its "
                          "metadata.")  # fmt: skip
        if size is None:
            arrays[name] = _from_json(item, booleans)
        else:
            arrays[name] = _from_bytes(item, size, data[start:])
            start += size
    if start != len(data):
        raise Problem(400, f"the inputs must name all binary data, {len(data)} bytes after the JSON, got {start}.")
    if not arrays:
        raise Problem(422, "inputs must be a list with at least one tensor.")
    return InferenceRequest(key, arrays, _wanted(content, outputs))


def _json_end(json_length: str | None, length: int) -> int:
    if json_length is None:
        return length
    if not (json_length.isascii() and json_length.isdigit() and len(json_length) < 18) or int(json_length) > length:
        raise Problem(400, f"Inference-Header-Content-Length must be the length of the JSON, at most {length}, got "
                      f"{json_length[:50]!r}.")  # fmt: skip
    return int(json_length)


def _objects(content: Mapping[str, Any], what: str) -> list[dict[str, Any]]:
    """A list of objects that have a name."""
    items = content.get(what, [])
    if not isinstance(items, list) or len(items) > MEMBERS:
        raise Problem(422, f"{what} must be a list of at most {MEMBERS} tensors.")
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise Problem(422, f"each of {what} must be an object with a name.")
    return items


def _parameters(item: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = item.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Problem(422, "parameters must be an object.")
    for name in ("shared_memory_region", "classification"):  # to leave them out would be another answer
        if name in parameters:
            raise Problem(422, f"the parameter {name} is not supported.")
    return parameters


def _head(item: Mapping[str, Any]) -> tuple[str, str, tuple[int, ...]]:
    """Name, datatype and shape of an input."""
    name, datatype, shape = item["name"], item.get("datatype"), item.get("shape")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise Problem(422, f"the datatype of {name} must be one of {', '.join(DATATYPES)}, got {str(datatype)[:50]}.")
    if (
        not isinstance(shape, list) or not 0 < len(shape) <= AXES
        or not all(type(size) is int and 0 < size < 2**48 for size in shape)
    ):  # fmt: skip
        raise Problem(422, f"the shape of {name} must be a list of 1 to {AXES} sizes above 0.")
    return name, datatype, tuple(shape)


def _from_json(item: Mapping[str, Any], booleans: bool) -> Array:
    name, datatype, shape = _head(item)
    array = numbers(item.get("data"), name, booleans=booleans)
    if array.size != math.prod(shape) or (array.ndim > 1 and array.shape != shape):
        raise Problem(422, f"the data of {name} must be {math.prod(shape)} numbers, flat or of shape {shape}, got "
                      f"shape {array.shape}.")  # fmt: skip
    return as_datatype(array, datatype, name).reshape(shape)


def _from_bytes(item: Mapping[str, Any], size: Any, data: memoryview) -> Array:
    name, datatype, shape = _head(item)
    dtype = np.dtype("<" + DATATYPES[datatype])
    promised = dtype.itemsize * math.prod(shape)
    if type(size) is not int or size != promised or "data" in item:
        raise Problem(400, f"binary_data_size of {name} must be {promised}, for shape {shape} of {datatype}, without "
                      f"data in JSON, got {str(size)[:50]}.")  # fmt: skip
    if size > len(data):
        raise Problem(400, f"the binary data of {name} must have {size} bytes, got {len(data)}. It was cut.")
    return settled(np.frombuffer(data[:size], dtype=dtype).reshape(shape))


def _wanted(content: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, bool]:
    """Wanted outputs, and whether each comes as binary data."""
    every = _flag(_parameters(content).get("binary_data_output", False))
    wanted: dict[str, bool] = {}
    for item in _objects(content, "outputs"):
        name = item["name"]
        if name not in outputs or name in wanted:
            raise Problem(422, f"the outputs must be some of {', '.join(outputs)}, each once, got {name[:100]!r}.")
        wanted[name] = _flag(_parameters(item).get("binary_data", every))
    return wanted or dict.fromkeys(outputs, every)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Problem(422, "binary_data and binary_data_output must be true or false.")
    return value


def as_datatype(array: Array, datatype: str, name: str) -> Array:
    """The same numbers in a type of the protocol. Floats may lose digits; whole numbers must fit, and stay whole."""
    dtype = np.dtype(DATATYPES[datatype])
    if dtype.kind != "f" and array.dtype.kind == "f":
        raise Problem(422, f"{name} must hold whole numbers ({datatype}), got {array.dtype}.")
    with np.errstate(over="ignore"):  # infinities are named later, with their row
        changed = array.astype(dtype)
    if dtype.kind != "f" and (wrong := changed != array).any():
        place = np.unravel_index(int(wrong.argmax()), array.shape)
        raise Problem(422, f"{name} must fit into {datatype}, got {array[place]} at row {int(place[0])}.")
    return changed


# -- answers ----------------------------------------------------------------------------------------------------------


def packed_answer(
    head: Mapping[str, Any], request: InferenceRequest, columns: Mapping[str, tuple[str, Sequence[Any] | Array]]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON where binary data follow it.

    Parameters
    ----------
    head
        Entries of the answer before its outputs.
    request
        What the client wants.
    columns
        Name -> datatype and values of each wanted output.
    """
    outputs, data = [], []
    for name, binary in request.outputs.items():
        datatype, values = columns[name]
        output: dict[str, Any] = {"name": name, "datatype": datatype, "shape": [len(values)]}
        if binary:
            data.append(_bytes_of(datatype, values))
            output["parameters"] = {"binary_data_size": len(data[-1])}
        else:
            output["data"] = values.tolist() if isinstance(values, np.ndarray) else list(values)
        outputs.append(output)
    key = {} if request.id is None else {"id": request.id}
    text = orjson.dumps({**head, **key, "outputs": outputs})
    return b"".join([text, *data]), len(text) if data else None


def _bytes_of(datatype: str, values: Sequence[Any] | Array) -> bytes:
    if datatype != "BYTES":
        return np.asarray(values, dtype="<" + DATATYPES[datatype]).tobytes()
    texts = [str(value).encode() for value in values]
    return b"".join(part for text in texts for part in (struct.pack("<I", len(text)), text))
