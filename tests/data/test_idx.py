from __future__ import annotations

import gzip

import numpy as np
import pytest

from caveat import InputError
from caveat_lab import data


def idx(array, code):
    """The bytes of an IDX file, by its description."""
    header = bytes([0, 0, code, array.ndim]) + b"".join(int(side).to_bytes(4, "big") for side in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


CODES = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_type_is_read_back(tmp_path, kind, pack):
    array = np.arange(24).reshape(2, 3, 4).astype(kind)
    (tmp_path / "file").write_bytes(pack(idx(array, CODES[kind])))
    read = data.read_idx(tmp_path / "file")
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an IDX file"),
        (b"PK\x03\x04rest", "is not an IDX file"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8]), "its header promises 11 bytes, it has 10"),
        (bytes([0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]), "is damaged"),
        (bytes([0, 0, 8, 2, 0, 0]), "is damaged"),
        (b"\x1f\x8b\x08\x00broken", "cannot be read"),
    ],
)
def test_a_damaged_file_gets_one_sentence(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=message):
        data.read_idx(tmp_path / "file")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        data.read_idx(tmp_path / "nothing")


@pytest.mark.parametrize("sides", [33, 255])
def test_more_sides_than_an_array_can_have_are_no_idx_file(tmp_path, sides):
    (tmp_path / "many").write_bytes(bytes([0, 0, 8, sides]) + bytes([0, 0, 0, 1]) * sides + b"x")
    with pytest.raises(InputError, match="many is not an IDX file"):
        data.read_idx(tmp_path / "many")
