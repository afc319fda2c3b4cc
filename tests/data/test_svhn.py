from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from caveat import InputError
from caveat_lab import data


def test_the_last_axis_counts_images_and_ten_is_zero(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, size=(32, 32, 3, 4), dtype=np.uint8)
    savemat(tmp_path / "test_32x32.mat", {"X": x, "y": np.array([[10], [1], [9], [10]], dtype=np.uint8)})
    images = data.read_svhn(tmp_path / "test_32x32.mat")
    assert images.labels.tolist() == [0, 1, 9, 0]
    assert images.pixels.shape == (4, 32, 32, 3)
    assert images.pixels[2, 5, 6, 1] == x[5, 6, 1, 2]


def test_wrong_files_are_explained(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        data.read_svhn(tmp_path / "nothing.mat")
    savemat(tmp_path / "other.mat", {"Z": np.zeros(3)})
    with pytest.raises(InputError, match=r"must hold X .* and y"):
        data.read_svhn(tmp_path / "other.mat")
    (tmp_path / "broken.mat").write_bytes(b"not matlab at all" * 20)
    with pytest.raises(InputError, match="damaged or not a MATLAB file"):
        data.read_svhn(tmp_path / "broken.mat")


def test_damage_anywhere_in_a_packed_file_gets_one_sentence(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (32, 32, 3, 2)).astype(np.uint8)
    savemat(tmp_path / "a.mat", {"X": pixels, "y": np.array([[10], [1]])}, do_compression=True)
    whole = (tmp_path / "a.mat").read_bytes()
    for stop in (0, 20, 100, 130, 140, 1000, len(whole) - 60):
        (tmp_path / "b.mat").write_bytes(whole[:stop])
        with pytest.raises(InputError, match=r"b\.mat"):
            data.read_svhn(tmp_path / "b.mat")
    for place in (136, 138, 140, 144, 1000, 3000):  # the packed stream, which has a checksum
        changed = bytearray(whole)
        changed[place] ^= 0x5A
        (tmp_path / "b.mat").write_bytes(changed)
        with pytest.raises(InputError, match=r"b\.mat is damaged or not a MATLAB file"):
            data.read_svhn(tmp_path / "b.mat")
