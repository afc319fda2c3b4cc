"""Request bodies to arrays: npy, npz, Arrow stream and JSON, checked before anything is allocated.

An ``.npy`` header names type and shape; both are compared with the length of the body, and the array is then a view of
the body: nothing is copied and nothing can claim more memory than was sent. No pickle is ever read.
"""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from caveat.serve.problems import Problem

__all__ = ["ARROW", "JSON", "MEDIA_TYPES", "NPY", "NPZ", "numbers", "read_arrays"]

NPY, NPZ = "application/x-npy", "application/x-npz"
ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
MEDIA_TYPES = (NPY, NPZ, ARROW, JSON)

Array = NDArray[Any]
_MAGIC = b"\x93NUMPY"
_HEADER = 16_384  # bytes; numpy writes headers of at most 10,000
_MEMBERS = 100  # arrays in one archive
_KINDS = "fiu"  # floats and integers


def read_arrays(body: bytes, media_type: str, *, field: str, most: int) -> dict[str, Array]:
    """Arrays of a request by name.

    Parameters
    ----------
    body
        The bytes as they came.
    media_type
        One of ``MEDIA_TYPES``; parameters after a semicolon are ignored.
    field
        Name of the array of an npy body, which has none.
    most
        Bytes that the unpacked arrays may take together.

    >>> read_arrays(b'{"logits": [[2, 0.5]]}', "application/json", field="logits", most=1000)
    {'logits': array([[2. , 0.5]])}
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind == NPY:
        return {field: _npy(body, "the body")}
    reader = _READERS.get(kind)
    if reader is None:
        raise Problem(415, f"the content type must be one of {', '.join(MEDIA_TYPES)}, got {kind[:100] or 'none'!r}.")
    return reader(body, most)


def _npy(body: bytes | memoryview, what: str) -> Array:
    """An ``.npy`` file as a view of its bytes."""
    view = memoryview(body)
    try:
        if bytes(view[:6]) != _MAGIC:
            raise ValueError("it does not start as one")
        major = view[6]
        if major not in (1, 2, 3):
            raise ValueError(f"version {major} is not known")
        wide = 2 if major == 1 else 4
        length = int.from_bytes(view[8 : 8 + wide], "little")
        start = 8 + wide + length
        if length > _HEADER or start > view.nbytes:
            raise ValueError("it ends too early")
        header = ast.literal_eval(bytes(view[8 + wide : start]).decode("utf-8" if major == 3 else "latin-1"))
        shape, dtype = header["shape"], np.dtype(header["descr"])
        if not isinstance(shape, tuple) or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError("its shape is not a tuple of sizes")
        order: Literal["F", "C"] = "F" if header["fortran_order"] else "C"
    except (ValueError, TypeError, KeyError, IndexError, SyntaxError, RecursionError, MemoryError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Problem(400, f"{what} is not a .npy file ({reason}). Write it with numpy.save.") from None
    if dtype.hasobject:
        raise Problem(422, f"{what} holds pickled objects, which can run code and are never read. Send numbers.")
    if dtype.kind not in _KINDS:
        raise Problem(422, f"{what} must hold numbers, got {dtype}.")
    promised = dtype.itemsize
    for size in shape:
        promised *= size
    if promised != view.nbytes - start:
        raise Problem(400, f"{what} must have {promised} bytes after its header, for shape {shape} of {dtype}, got "
                      f"{view.nbytes - start}. It was cut, or its header is wrong.")  # fmt: skip
    array: Array = np.frombuffer(view, dtype=dtype, offset=start).reshape(shape, order=order)
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _npz(body: bytes, most: int) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            if len(members) > _MEMBERS:
                raise Problem(422, f"the archive must hold at most {_MEMBERS} arrays, got {len(members)}.")
            if sum(member.file_size for member in members) > most:
                raise Problem(413, f"the unpacked archive must have at most {most} bytes. Send fewer rows at a time.")
            # zipfile reads no more than the size that the archive declares, so that the check above binds
            return {name: _npy(archive.read(member), f"the array {name[:100]!r}")
                    for member in members for name in [member.filename.removesuffix(".npy")]}  # fmt: skip
    except Problem:
        raise
    except Exception as error:  # damage makes zipfile and zlib raise errors of a dozen kinds
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Problem(400, f"the body is not an .npz archive ({reason}). Write it with numpy.savez.") from None


def _arrow(body: bytes, most: int) -> dict[str, Array]:
    from caveat.serve.arrow import arrow_arrays

    return arrow_arrays(body, most)


def _json(body: bytes, most: int) -> dict[str, Array]:
    content = json_object(body)
    return {name: numbers(value, name) for name, value in content.items()}


def json_object(body: bytes) -> dict[str, Any]:
    """The object of a JSON body. NaN and Infinity are not JSON."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        status = 422 if _not_a_number(body, error.pos) else 400
        raise Problem(status, f"the body is not JSON ({str(error)[:200]}).") from None
    if not isinstance(content, dict):
        raise Problem(422, 'the body must be a JSON object such as {"features": [[0.1, 0.2]]}, got '
                      f"{type(content).__name__}.")  # fmt: skip
    return content


def _not_a_number(body: bytes, place: int) -> bool:
    near = body.decode("utf-8", "replace")[max(0, place - 10) : place + 10]
    return any(word in near for word in ("NaN", "Inf", "nan", "inf"))


def numbers(value: Any, name: str) -> Array:
    """A nested list of numbers as an array of float64."""
    array = None
    if isinstance(value, list):
        try:
            array = np.array(value)
        except ValueError:  # lists of different lengths
            array = None
    if array is None or array.dtype.kind not in _KINDS:
        raise Problem(422, f"{name[:100]!r} must be a list of rows of numbers, all of the same length.")
    return array.astype(np.float64)


_READERS: Mapping[str, Callable[[bytes, int], dict[str, Array]]] = {NPZ: _npz, ARROW: _arrow, JSON: _json}
