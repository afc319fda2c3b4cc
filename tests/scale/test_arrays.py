from __future__ import annotations

import importlib.util
import pickle
import sys

import numpy as np
import pytest

from caveat import InputError, MissingExtraError, Outputs
from caveat.scale import open_source
from caveat.scale.arrays import NpyFile


def save_zarr(outputs, path, version):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    for key, array in outputs.arrays().items():
        made = group.create_array(
            key, shape=array.shape, dtype=array.dtype, chunks=tuple(min(50, s) for s in array.shape)
        )
        made[...] = array


@pytest.mark.parametrize("kind", ["npy", "zarr2", "zarr3"])
def test_any_range_is_that_of_the_outputs(tmp_path, train, kind):
    path = tmp_path / "train"
    train.save(path) if kind == "npy" else save_zarr(train, path, int(kind[-1]))
    source = pickle.loads(pickle.dumps(open_source(path)))  # as a worker gets it
    assert source.n == train.n
    for start, stop in ((0, 1), (3, 77), (0, train.n), (train.n - 1, train.n)):
        part, expected = source.read(start, stop), train[start:stop].arrays()
        assert part.stored() == train[start:stop].stored()
        for key, array in part.arrays().items():
            np.testing.assert_array_equal(array, expected[key])


def test_only_the_wanted_fields_are_read(folder):
    part = open_source(folder).read(0, 5, ["predictions"])
    assert set(part.stored()) == {"logits", "head_weight", "head_bias"}


def test_a_folder_made_by_hand_works_and_labels_may_be_small_integers(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([0, 2, 1], dtype=np.uint8))
    np.save(tmp_path / "features.npy", np.ones((3, 2), dtype=">f4"))
    part = open_source(tmp_path).read(1, 3)
    assert part.labels.tolist() == [2, 1]
    assert part.features.dtype == np.float32


def test_a_bad_value_is_reported_with_its_place(tmp_path):
    features = np.ones((100, 2))
    features[57, 1] = np.nan
    np.save(tmp_path / "features.npy", features)
    with pytest.raises(InputError, match="rows counted from 50: features has NaN, first at row 7"):
        open_source(tmp_path).read(50, 100)
    assert np.isnan(open_source(tmp_path).read(50, 100, check=False).features).any()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"features": np.asfortranarray(np.ones((3, 2)))}, "Fortran order"),
        ({"features": np.ones((3, 2)), "labels": np.zeros(4, dtype=int)}, "same number of rows"),
        ({"other": np.ones(3)}, "none of the arrays"),
        ({"features": np.ones((0, 2))}, "at least one sample"),
        ({"features": np.array(3.0)}, "at least one sample"),
        ({"features": np.ones((3, 2)), "head_bias": np.ones(2)}, "head_bias but no head_weight"),
    ],
)
def test_a_folder_that_cannot_be_a_source_is_said(tmp_path, content, words):
    for key, array in content.items():
        np.save(tmp_path / f"{key}.npy", array)
    with pytest.raises(InputError, match=words):
        open_source(tmp_path)


def test_a_file_that_is_cut_off_or_pickled_is_said(tmp_path):
    path = tmp_path / "features.npy"
    np.save(path, np.ones((30, 2)))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="cut off"):
        NpyFile.of(path)
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="pickled objects"):
        NpyFile.of(path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="damaged or not an .npy file"):
        NpyFile.of(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"labels": np.array([0.0] * 20 + [0.5])}, "whole class numbers"),
        ({"labels": np.array([0] * 20 + [7]), "logits": np.ones((21, 3))}, "between 0 and 2"),
        ({"probs": np.array([[0.5, 0.5]] * 20 + [[0.9, 0.9]])}, "sum to 1"),
        ({"mc_logits": np.array([[[1.0]] * 20 + [[np.nan]]] * 2)}, "mc_logits has NaN"),
        ({"layer.a": np.array([[1.0]] * 20 + [[np.inf]])}, "infinite value"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_check_of_outputs_is_made_on_later_ranges_too(tmp_path, content, words):
    for key, array in content.items():
        np.save(tmp_path / f"{key}.npy", array)
    assert open_source(tmp_path).read(0, 5).n == 5
    with pytest.raises(InputError, match=words):
        open_source(tmp_path).read(10, 21)


def test_several_passes_are_cut_along_their_second_axis(tmp_path):
    passes = np.random.default_rng(0).normal(size=(3, 20, 4))
    Outputs(mc_logits=passes).save(tmp_path / "mc")
    np.testing.assert_array_equal(open_source(tmp_path / "mc").read(5, 9).mc_logits, passes[:, 5:9])


def test_zarr_names_its_extra_where_it_is_not_installed(tmp_path, monkeypatch):
    (tmp_path / "rows.zarr").mkdir()
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingExtraError, match="extra 'scale'"):
        open_source(tmp_path / "rows.zarr")


@pytest.mark.skipif(importlib.util.find_spec("zarr") is None, reason="needs zarr")
def test_what_is_no_zarr_group_is_said(tmp_path):
    (tmp_path / "rows.zarr").mkdir()
    with pytest.raises(InputError, match="cannot be read as a Zarr group"):
        open_source(tmp_path / "rows.zarr")
