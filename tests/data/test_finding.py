from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
from scipy.io import savemat

from caveat import InputError
from caveat_lab import data
from caveat_lab.data import finding


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(int(side).to_bytes(4, "big") for side in array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    monkeypatch.setattr(finding, "_DEBIAN", tmp_path / "debian")
    return tmp_path


def put_idx(folder, part="t10k", prefix="", n=3, value=1):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{prefix}{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(np.full((n, 4, 5), value))))
    (folder / f"{prefix}{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.full(n, value))))


def test_nothing_is_found_in_an_empty_folder(folder):
    for name in data.KNOWN:
        assert data.find(name) == {}


def test_idx_files_are_found_and_read(folder):
    put_idx(folder / "MNIST" / "raw")
    assert list(data.find("mnist")) == ["test"]
    images = data.load("mnist", "test")
    assert images.pixels.shape == (3, 4, 5)
    with pytest.raises(InputError, match=r"mnist \(train\) is not here. Get it from http.* and put mnist/train-images"):
        data.load("mnist", "train")


def test_the_debian_package_is_found_without_the_variable(folder, monkeypatch):
    monkeypatch.delenv("CAVEAT_DATA")
    assert data.find("fashion_mnist") == {}
    put_idx(folder / "debian" / "fashion-mnist", "train")
    assert data.find("fashion_mnist")["train"].parent == folder / "debian" / "fashion-mnist"
    with pytest.raises(InputError, match="folder in the environment variable CAVEAT_DATA"):
        data.load("fashion_mnist", "test")


def test_the_first_folder_and_the_fuller_form_win(folder, monkeypatch, tmp_path_factory):
    second = tmp_path_factory.mktemp("second")
    monkeypatch.setenv("CAVEAT_DATA", f"{folder}{os.pathsep}{second}")
    put_idx(second / "mnist", value=2)
    assert data.load("mnist", "test").labels.tolist() == [2, 2, 2]
    np.savez(folder / "mnist.npz", x_test=np.zeros((1, 4, 5), np.uint8), y_test=np.array([7]))
    assert data.load("mnist", "test").labels.tolist() == [7]
    put_idx(folder / "mnist", value=1)
    assert data.load("mnist", "test").labels.tolist() == [1, 1, 1]


def test_emnist_letters_are_turned_upright_and_numbered_from_zero(folder):
    put_idx(folder / "emnist", "test", "emnist-letters-", value=1)
    images = data.load("emnist_letters", "test")
    assert images.pixels.shape == (3, 5, 4)
    assert images.labels.tolist() == [0, 0, 0]


def test_cifar_and_svhn_are_found(folder):
    for part in ("cifar-10-batches-bin", "cifar-100-binary"):
        (folder / part).mkdir()
    for i in range(1, 6):
        (folder / "cifar-10-batches-bin" / f"data_batch_{i}.bin").write_bytes(bytes([i]) + bytes(3072))
    (folder / "cifar-100-binary" / "test.bin").write_bytes(bytes([0, 42]) + bytes(3072))
    savemat(folder / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[10], [4]])})
    assert data.load("cifar10", "train").labels.tolist() == [1, 2, 3, 4, 5]
    assert data.load("cifar100", "test").labels.tolist() == [42]
    assert data.load("svhn", "test").labels.tolist() == [0, 4]
    assert list(data.find("cifar10")) == ["train"]


def test_arrays_and_tables_are_not_images(folder):
    np.savez(folder / "cifar10h.npz", counts=[1])
    assert data.find("cifar10h") == {"all": folder / "cifar10h.npz"}
    with pytest.raises(InputError, match=r"holds arrays. Use numpy.load\(data.find\('cifar10h'\)\['all'\]\)"):
        data.load("cifar10h")
    with pytest.raises(InputError, match=r"holds a table. Use data.table\('wine'\)"):
        data.load("wine")


def test_wrong_names_get_a_hint(folder):
    with pytest.raises(InputError, match="unknown data set 'cifar_10'. Did you mean 'cifar10'"):
        data.load("cifar_10", "test")
    with pytest.raises(InputError, match="split must be given for mnist, which has train, test"):
        data.load("mnist")


def test_a_path_is_read_by_what_it_is(folder):
    put_idx(folder)
    assert data.read(folder / "t10k-images-idx3-ubyte.gz").labels.tolist() == [1, 1, 1]
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    assert data.read(folder / "t10k-images-idx3-ubyte.gz").labels.tolist() == [0, 0, 0]
    np.savez(folder / "own.npz", x=np.zeros((2, 4, 4)), y=[0, 1])
    assert len(data.read(folder / "own.npz")) == 2
    (folder / "own.bin").write_bytes(bytes(3073))
    assert data.read(folder / "own.bin").pixels.shape == (1, 32, 32, 3)
    with pytest.raises(InputError, match=r"must be a folder of images or a file that ends in"):
        data.read(folder / "own.csv")


def test_every_known_set_says_where_a_person_gets_it():
    for known in data.KNOWN.values():
        assert "http" in known.home or "package" in known.home
        assert known.forms or known.inside or known.kind == "table"
        assert all(set(form.files) <= set(known.sizes) for form in known.forms if known.kind == "images")


@pytest.mark.slow
@pytest.mark.skipif("CAVEAT_DATA" not in os.environ, reason="needs CAVEAT_DATA")
def test_the_real_copies_have_the_official_sizes():
    partial = {("fashion_mnist", "train"), ("dtd", "all")}
    for known in data.KNOWN.values():
        if known.kind == "images":
            for split in data.find(known.name):
                images = data.load(known.name, split)
                assert len(images) == known.sizes[split] or (known.name, split) in partial
                assert " x ".join(map(str, images.pixels.shape[1:])) == known.shape
