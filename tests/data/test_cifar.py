from __future__ import annotations

import pickle

import numpy as np
import pytest

from caveat import InputError
from caveat_lab import data


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, size=(5, 3072), dtype=np.uint8), rng.integers(0, 10, size=5)


def python2(rows, labels):
    """A CIFAR batch byte for byte as Python 2 pickled it: short strings, and the array by its reconstruction."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    shape = b"K" + bytes([rows.shape[0]]) + b"M" + rows.shape[1].to_bytes(2, "little") + b"\x86"
    raw = rows.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + text(b"b") + b"tR(K\x01" + shape
        + b"cnumpy\ndtype\n(" + text(b"u1") + b"K\x00K\x01tR(K\x03" + text(b"|")
        + b"NNN" + 2 * b"J\xff\xff\xff\xff" + b"K\x00tb"
        + b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    )  # fmt: skip
    numbers = b"](" + b"".join(b"K" + bytes([int(label)]) for label in labels) + b"e"
    return (
        b"\x80\x02}(" + text(b"batch_label") + text(b"one") + text(b"labels") + numbers + text(b"data") + array + b"u."
    )


def test_the_python_2_file_of_this_test_is_a_true_one(batch):
    np.testing.assert_array_equal(pickle.loads(python2(*batch), encoding="bytes")[b"data"], batch[0])


def test_the_three_layouts_give_the_same_images(tmp_path, batch):
    rows, labels = batch
    (tmp_path / "python2").write_bytes(python2(rows, labels))
    (tmp_path / "python3").write_bytes(pickle.dumps({"data": rows, "fine_labels": labels.tolist()}))
    np.hstack([labels[:, None].astype(np.uint8), rows]).tofile(tmp_path / "ten.bin")
    np.hstack([np.zeros((5, 1), np.uint8), labels[:, None].astype(np.uint8), rows]).tofile(tmp_path / "hundred.bin")
    found = [
        data.read_cifar_python([tmp_path / "python2"]),
        data.read_cifar_python([tmp_path / "python3"]),
        data.read_cifar_binary([tmp_path / "ten.bin"]),
        data.read_cifar_binary([tmp_path / "hundred.bin"], label_bytes=2),
    ]
    for images in found:
        np.testing.assert_array_equal(images.labels, labels)
        assert images.pixels.shape == (5, 32, 32, 3)
        # The first 1,024 bytes of a row are red, line by line.
        assert images.pixels[3, 1, 2, 0] == rows[3, 32 + 2]
        assert images.pixels[3, 1, 2, 2] == rows[3, 2048 + 32 + 2]


def test_batches_follow_each_other(tmp_path, batch):
    rows, labels = batch
    for name, part in {"a": slice(0, 2), "b": slice(2, 5)}.items():
        np.hstack([labels[part, None].astype(np.uint8), rows[part]]).tofile(tmp_path / f"{name}.bin")
    images = data.read_cifar_binary([tmp_path / "a.bin", tmp_path / "b.bin"])
    np.testing.assert_array_equal(images.labels, labels)


def test_wrong_files_are_explained(tmp_path):
    (tmp_path / "cut.bin").write_bytes(b"\x00" * 3000)
    with pytest.raises(InputError, match=r"records of 1 \+ 3072 bytes, has 3000 bytes"):
        data.read_cifar_binary([tmp_path / "cut.bin"])
    with pytest.raises(InputError, match="does not exist"):
        data.read_cifar_binary([tmp_path / "nothing.bin"])
    (tmp_path / "meta").write_bytes(pickle.dumps({"label_names": ["a"]}, protocol=2))
    with pytest.raises(InputError, match=r"must hold data \(n, 3072\) of bytes and labels.*found label_names"):
        data.read_cifar_python([tmp_path / "meta"])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            {"data": np.zeros((2, 3072), np.uint8), "labels": ["a", "b"]},
            "labels must be whole class numbers, got dtype",
        ),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, -5]}, "got -5 at row 1"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": 3}, "one per row"),
        ({"data": np.full((2, 3072), 300), "labels": [0, 1]}, "must hold data .*of bytes"),  # would wrap to 44
    ],
)
def test_batches_with_wrong_values_are_explained(tmp_path, batch, message):
    (tmp_path / "batch").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(InputError, match=f"batch.*{message}"):
        data.read_cifar_python([tmp_path / "batch"])


def test_no_files_are_no_images():
    for read in (data.read_cifar_python, data.read_cifar_binary):
        with pytest.raises(InputError, match="paths must be .*at least one"):
            read([])


def test_labels_that_are_lists_of_the_same_list_are_not_written_out(tmp_path):
    labels = [1]
    for _ in range(30):
        labels = [labels] * 10  # 10^30 numbers
    pixels = np.zeros((1, 3072), dtype=np.uint8)
    for truth in (labels, [pixels] * 1500):
        (tmp_path / "batch").write_bytes(pickle.dumps({"data": pixels, "labels": truth}, protocol=2))
        with pytest.raises(InputError, match="labels"):
            data.read_cifar_python([tmp_path / "batch"])
