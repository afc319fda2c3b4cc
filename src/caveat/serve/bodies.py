"""Request bodies to arrays: npy, npz, Arrow stream and JSON, checked before anything is allocated.

An ``.npy`` header names type and shape; both are compared with the length of the body, and the array is then a view of
the body: nothing can claim more memory than was sent. Headers are matched against patterns, never evaluated, and no
pickle is ever read. Members of an archive are unpacked up to the size that the archive declares and no further.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from caveat.serve.problems import Problem

__all__ = ["ARROW", "JSON", "MEDIA_TYPES", "NPY", "NPZ", "json_object", "numbers", "read_arrays", "reason", "settled"]

NPY, NPZ = "application/x-npy", "application/x-npz"
ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
MEDIA_TYPES = (NPY, NPZ, ARROW, JSON)

Array = NDArray[Any]
EXACT = 2**53  # larger whole numbers are not exact as float64
MEMBERS = 100  # arrays in one archive, columns in one stream
AXES = 8  # of one array
_MAGIC = b"\x93NUMPY"
_HEADER = 16_384  # bytes; numpy writes headers of at most 10,000
# Entries of a header without its spaces. ast.literal_eval is slower, and 16 KB can make it print 4,000 warnings.
_DESCR, _SHAPE = re.compile(r"'descr':('[^']{1,40}'|\[)"), re.compile(r"'shape':\(([0-9,]*)\)")
_ORDER = re.compile(r"'fortran_order':(True|False)")
_NUMBERS = re.compile(r"[<>|=]?(f[248]|[iu][1248])")  # floats of 16, 32 and 64 bits, and integers
_CENTRAL = b"PK\x01\x02"  # begins each entry of the directory of an archive
_LETTERS = 100  # of a text that are looked at one by one
_LIST, _NUMBER, _SIGN = 100, 32, 50  # bytes of Python for a list, a number in it, and for each sign of JSON at most
_MOST = 32 * 2**20  # bytes of the arrays in a body, where the caller does not say
_JSON_ROOM = 4  # times the limit for arrays: what a JSON body may take while it is read


def read_arrays(body: bytes, media_type: str, *, field: str, most: int) -> dict[str, Array]:
    """Arrays of a request by name: floats of 16, 32 or 64 bits or integers, aligned, in C order.

    Parameters
    ----------
    body
        The bytes as they came.
    media_type
        One of ``MEDIA_TYPES``; parameters after a semicolon are ignored.
    field
        Name of the array of an npy body, which has none; empty where the service needs several arrays.
    most
        Bytes that the unpacked arrays may take together.

    Examples
    --------
    >>> read_arrays(b'{"logits": [[2, 0.5]]}', "application/json", field="logits", most=1000)
    {'logits': array([[2. , 0.5]])}
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind == NPY:
        if not field:
            raise Problem(422, "an npy body holds one array, and this service needs several. Send them as npz.")
        return {field: _npy(body, "the body")}
    reader = _READERS.get(kind)
    if reader is None:
        raise Problem(415, f"the content type must be one of {', '.join(MEDIA_TYPES)}, got {kind[:100] or 'none'!r}.")
    return reader(body, most)


def reason(error: Exception) -> str:
    """One short line about an error of another package."""
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def settled(array: Array) -> Array:
    """The array in native byte order, aligned and in C order, so that a row gets one verdict however it was sent."""
    native = array.dtype.newbyteorder("=")
    return np.require(array, dtype=native, requirements=["ALIGNED", "C_CONTIGUOUS"])


# -- npy and npz ------------------------------------------------------------------------------------------------------


def _npy(body: bytes, what: str) -> Array:
    """An ``.npy`` file as a view of its bytes."""
    view = memoryview(body)
    shape, dtype, order, start = _npy_header(view, what)
    promised = dtype.itemsize * math.prod(shape)
    if promised != view.nbytes - start:
        raise Problem(400, f"{what} must have {promised} bytes after its header, for shape {shape} of {dtype}, got "
                      f"{view.nbytes - start}. It was cut, or its header is wrong.")  # fmt: skip
    return settled(np.frombuffer(view, dtype=dtype, offset=start).reshape(shape, order=order))


def _npy_header(view: memoryview, what: str) -> tuple[tuple[int, ...], np.dtype[Any], Any, int]:
    """Shape, type and order of an array, and where its numbers begin."""

    def malformed(why: str) -> Problem:
        return Problem(400, f"{what} is not a .npy file ({why}). Write it with numpy.save.")

    if bytes(view[:6]) != _MAGIC:
        raise malformed("it does not start as one")
    version = bytes(view[6:8])
    if version not in (b"\1\0", b"\2\0", b"\3\0"):
        raise malformed("its version is not known")
    wide = 2 if version == b"\1\0" else 4
    length = int.from_bytes(view[8 : 8 + wide], "little")
    start = 8 + wide + length
    if length > _HEADER or start > view.nbytes:
        raise malformed("it ends too early")
    text = "".join(bytes(view[8 + wide : start]).decode("latin-1").split()).replace('"', "'")
    descr, order, sizes = _DESCR.search(text), _ORDER.search(text), _SHAPE.search(text)
    if descr is None or order is None or sizes is None:
        raise malformed("its header does not name type, order and shape")
    if "O" in descr[1]:
        raise Problem(422, f"{what} holds pickled objects, which can run code and are never read. Send numbers.")
    if not _NUMBERS.fullmatch(descr[1], 1, len(descr[1]) - 1):
        raise Problem(422, f"{what} must hold integers or floats of 16, 32 or 64 bits, got {descr[1][:50]}.")
    parts = [part for part in sizes[1].split(",") if part]
    if len(parts) > AXES or any(len(part) > 18 for part in parts):
        raise Problem(422, f"{what} must have at most {AXES} axes of reasonable size.")
    shape = tuple(map(int, parts))
    if 0 in shape:
        raise Problem(422, f"{what} must hold at least one row and one column, got shape {shape}.")
    return shape, np.dtype(descr[1][1:-1]), "F" if order[1] == "True" else "C", start


def _npz(body: bytes, most: int) -> dict[str, Array]:
    try:
        if body.count(_CENTRAL) > 2 * MEMBERS:  # zipfile would make an object for each
            raise Problem(422, f"the archive must hold at most {MEMBERS} arrays.")
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            _check_members(members, most)
            return {name: _npy(_unpacked(archive, member), f"the array {name[:100]!r}")
                    for member in members for name in [member.filename.removesuffix(".npy")]}  # fmt: skip
    except Problem:
        raise
    except Exception as error:  # damage makes zipfile and zlib raise errors of a dozen kinds
        raise Problem(400, f"the body is not an .npz archive ({reason(error)}). Write it with numpy.savez.") from None


def _check_members(members: list[zipfile.ZipInfo], most: int) -> None:
    """What the directory of an archive says, before anything is unpacked."""
    if len(members) > MEMBERS:
        raise Problem(422, f"the archive must hold at most {MEMBERS} arrays, got {len(members)}.")
    if sum(member.file_size for member in members) > most:
        raise Problem(413, f"the unpacked archive must have at most {most} bytes. Send fewer rows at a time.")
    names = [member.filename for member in members]
    if len(set(names)) < len(names) or any("/" in name for name in names):
        raise Problem(422, "the arrays of the archive must have different names and lie in no folder.")
    for member in members:
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Problem(415, f"the array {member.filename[:100]!r} must be neither encrypted nor compressed by "
                          "another method than deflate. Write it with numpy.savez.")  # fmt: skip


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member. Without a size ``read`` unpacks first and then cuts to the size that was declared."""
    with archive.open(member) as stream:
        content = stream.read(member.file_size)
    if len(content) < member.file_size:
        raise ValueError("it ends too early")
    return content


def _arrow(body: bytes, most: int) -> dict[str, Array]:
    from caveat.serve.arrow import arrow_arrays

    return arrow_arrays(body, most)


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json(body: bytes, most: int) -> dict[str, Array]:
    content = json_object(body, most)
    booleans = has_booleans(body)
    arrays = {name: numbers(value, name, booleans=booleans) for name, value in content.items()}
    # Values have no quotes, and the parser keeps the last of equal names. To look from the end is faster.
    if body.count(b'"', 0, body.rfind(b'"') + 1) != 2 * len(content):
        raise Problem(422, "each name must come once in the body, and have no quotes in it.")
    return arrays


def json_object(body: bytes, most: int = _MOST) -> dict[str, Any]:
    """The object of a JSON body that takes at most four times ``most`` bytes while it is read. NaN is not JSON."""
    if len(body) * _SIGN > _JSON_ROOM * most:
        lists = body.count(b"[") + body.count(b"{")
        if _LIST * lists + _NUMBER * (body.count(b",") + body.count(b'"')) > _JSON_ROOM * most:
            raise Problem(413, "the body has too many numbers for JSON. Send fewer rows at a time, or npy.")
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        status = 422 if _not_a_number(error) else 400
        raise Problem(status, f"the body is not JSON ({reason(error)}).") from None
    if not isinstance(content, dict):
        raise Problem(422, 'the body must be a JSON object such as {"features": [[0.1, 0.2]]}, got '
                      f"{type(content).__name__}.")  # fmt: skip
    return content


def _not_a_number(error: orjson.JSONDecodeError) -> bool:
    """Whether the text is JSON but for NaN, Infinity or 1e400."""
    near = error.doc[max(0, error.pos - 10) : error.pos + 10].lower()
    return "infinity" in str(error) or "nan" in near or "inf" in near


def has_booleans(text: bytes) -> bool:
    """Whether JSON may hold true or false, which numpy takes for 1 and 0 among numbers."""
    return _has_word(text, b"true", 2) or _has_word(text, b"false", 2)


def _has_word(text: bytes, word: bytes, place: int) -> bool:
    """Whether a word is in a text, by one of its letters that numbers do not have: found much faster than a word."""
    letter, i = word[place : place + 1], -1
    for _ in range(_LETTERS):
        i = text.find(letter, i + 1)
        if i < 0 or text[max(0, i - place) : i - place + len(word)] == word:
            return i >= 0
    return text.find(word, i) >= 0


def numbers(value: Any, name: str, *, booleans: bool = True) -> Array:
    """A nested list of numbers as an array: int64 where all are whole numbers, else float64.

    Parameters
    ----------
    value
        What JSON gave.
    name
        Its name in a refusal.
    booleans
        Whether some of the values may be true or false, so that each has to be looked at.

    Examples
    --------
    >>> numbers([[1, 2.5], [3, 4]], "logits")
    array([[1. , 2.5],
           [3. , 4. ]])
    """
    if not booleans and type(value) is list:
        array = _matrix(value)
        if (
            array.size and array.ndim <= AXES and array.dtype in (np.float64, np.int64)
            and array.min() > -EXACT and array.max() < EXACT
        ):  # fmt: skip
            return array
    return _checked_one_by_one(value, name)


def _matrix(value: list[Any]) -> Array:
    """Numbers as numpy makes them an array, rows of floats on a shorter way; empty where they are none."""
    try:
        if type(value[0]) is list and type(value[0][0]) is float:
            (width,) = set(map(len, value))
            size = width * len(value)
            return np.frombuffer(struct.pack(f"{size}d", *chain.from_iterable(value))).reshape(-1, width)
    except (IndexError, TypeError, ValueError, OverflowError, struct.error):
        pass
    try:
        return np.array(value)
    except ValueError:  # rows of different lengths
        return np.empty(0)


def _checked_one_by_one(value: Any, name: str) -> Array:
    """The same, with a look at the type of each number."""
    shape: list[int] = []
    level = [value]
    while level and type(level[0]) is list:
        lengths = set(map(len, level)) if set(map(type, level)) == {list} else set()
        if len(lengths) != 1 or len(shape) == AXES:
            level = []
        else:
            shape.append(lengths.pop())
            level = list(chain.from_iterable(level))
    types = set(map(type, level))
    if not shape or not types or not types <= {int, float}:  # booleans are of a type of their own
        raise Problem(422, f"{name[:100]!r} must be a list of rows of numbers, all of the same length.")
    flat = np.array(level, dtype=np.float64)
    if int in types and np.abs(flat).max() >= EXACT:
        for i, number in enumerate(level):
            if type(number) is int and abs(number) > EXACT:
                raise too_large(name, i // math.prod(shape[1:]), number)
    return (flat if float in types else flat.astype(np.int64)).reshape(shape)


def too_large(name: str, row: int, number: int) -> Problem:
    """A whole number that float64 would change."""
    return Problem(422, f"{name[:100]} must hold whole numbers from -2**53 to 2**53, got {number} at row {row}.")


_READERS: Mapping[str, Callable[[bytes, int], dict[str, Array]]] = {NPZ: _npz, ARROW: _arrow, JSON: _json}
