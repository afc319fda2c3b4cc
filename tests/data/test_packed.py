from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from caveat import InputError
from caveat_lab import data

Image = pytest.importorskip("PIL.Image")


def jpegs(pixels):
    """The streams one after the other, and where each starts."""
    parts = []
    for image in pixels:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, format="JPEG", quality=95)
        parts.append(stream.getvalue())
    return np.frombuffer(b"".join(parts), dtype=np.uint8), np.cumsum([0, *map(len, parts)]).astype(np.uint32)


def test_splits_and_plain_keys(tmp_path):
    x, y = np.arange(48, dtype=np.uint8).reshape(3, 4, 4), np.array([1, 2, 3], dtype=np.uint8)
    np.savez(tmp_path / "set.npz", x_test=x, y_test=y, x_train=x[:1], y_train=y[:1])
    read = data.read_packed(tmp_path / "set.npz", "test", first_label=1)
    np.testing.assert_array_equal(read.pixels, x)
    assert read.labels.tolist() == [0, 1, 2]
    np.savez(tmp_path / "plain.npz", x=x)
    assert data.read_packed(tmp_path / "plain.npz", "test").labels.tolist() == [0, 0, 0]


def test_wide_integers_need_the_value_of_full_ink(tmp_path):
    np.savez(tmp_path / "wide.npz", x=np.array([[[0, 1000, 2000]]], dtype=np.uint16))
    assert data.read_packed(tmp_path / "wide.npz", full=2000.0).pixels.tolist() == [[[0.0, 0.5, 1.0]]]
    with pytest.raises(InputError, match="got dtype uint16. Pass full="):
        data.read_packed(tmp_path / "wide.npz")


def test_jpeg_streams_are_decoded_in_order(tmp_path):
    pixels = np.repeat(np.array([10, 120, 240], dtype=np.uint8), 8 * 8 * 3).reshape(3, 8, 8, 3)
    jpeg, offsets = jpegs(pixels)
    np.savez(tmp_path / "set.npz", jpeg=jpeg, offsets=offsets, y=np.array([2, 0, 1]))
    read = data.read_packed(tmp_path / "set.npz")
    assert read.labels.tolist() == [2, 0, 1]
    assert np.abs(read.pixels.astype(int) - pixels).max() <= 2  # flat images survive JPEG


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 5, 3])}, "offsets must increase and stay inside jpeg"),
        ({"offsets": np.array([0, 10**9])}, "offsets must increase and stay inside jpeg"),
        ({"offsets": np.array([0, 4])}, "image 0 is not a readable JPEG"),
        ({"y": np.array([0.5, 0.5])}, "y must be one whole class number per image, got float64"),
        ({"y": np.array([1])}, "for 2 images"),
    ],
)
def test_damaged_streams_are_named(tmp_path, change, message):
    jpeg, offsets = jpegs(np.zeros((2, 8, 8, 3), dtype=np.uint8))
    np.savez(tmp_path / "set.npz", **({"jpeg": jpeg, "offsets": offsets, "y": np.array([0, 1])} | change))
    with pytest.raises(InputError, match=message):
        data.read_packed(tmp_path / "set.npz")


def test_other_keys_are_listed(tmp_path):
    np.savez(tmp_path / "set.npz", images=np.zeros((1, 2, 2)), truth=[0])
    with pytest.raises(InputError, match=r"must hold x, x_<split>, or jpeg with offsets; found images, truth"):
        data.read_packed(tmp_path / "set.npz")


def test_an_image_that_would_fill_the_memory_is_named(tmp_path):
    stream = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(stream, "JPEG")
    content = bytearray(stream.getvalue())
    start = content.find(b"\xff\xc0")  # the frame: marker, length, precision, then height and width
    content[start + 5 : start + 9] = struct.pack(">HH", 65_000, 65_000)
    np.savez(tmp_path / "a.npz", jpeg=np.frombuffer(bytes(content), np.uint8), offsets=[0, len(content)])
    with pytest.raises(InputError, match="image 0 is not a readable JPEG"):
        data.read_packed(tmp_path / "a.npz")
