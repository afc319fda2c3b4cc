from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from caveat import InputError, NotFittedError, Outputs
from caveat._internal.folders import plain_files
from caveat.scores import ASH, KNN, Energy, Mahalanobis, NNGuide, Projected, Score, load
from caveat.scores._persistence import Reader, encode


@pytest.fixture
def saved(train, tmp_path):
    Mahalanobis(ridge=1e-4).fit(train).save(tmp_path / "score")
    return tmp_path / "score"


def change(folder, **new):
    path = folder / "score.json"
    page = json.loads(path.read_text())
    path.write_text(json.dumps(page | new))
    return page


@pytest.mark.parametrize("value", [
    None, True, 3, -7, "text", 0.1, 1e-320, -0.0, float("inf"), float("-inf"), float("nan"), np.float32(0.1),
    np.float64(np.pi), np.int64(2**40), np.bool_(True),
    np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(3, dtype=np.intp),
    np.array(2.5), np.empty((0, 4), dtype=np.float32), np.array([True, False]), np.array(["conv", "pool"]),
    np.arange(12.0)[::3],
], ids=lambda value: f"{type(value).__name__}")  # fmt: skip
def test_values_come_back_bit_for_bit(value, tmp_path):
    def same(a, b):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            assert a.tobytes() == b.tobytes()
        elif isinstance(a, (float, np.generic)):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        else:
            assert a == b

    page = json.loads(json.dumps(encode(value, "value", tmp_path, "value")))
    same(value, Reader(tmp_path / "score.json", plain_files(tmp_path), check=True).decode(page))


def test_parameters_and_learned_values_come_back(train, inlier, saved):
    found = load(saved)
    assert isinstance(found, Mahalanobis)
    assert found.ridge == 1e-4
    assert found.n_features_ == 12
    np.testing.assert_array_equal(found.score(inlier), Mahalanobis(ridge=1e-4).fit(train).score(inlier))


def test_a_score_without_learned_values_too(inlier, tmp_path):
    Energy(temperature=2.5).save(tmp_path / "e")
    np.testing.assert_array_equal(load(tmp_path / "e").score(inlier), Energy(temperature=2.5).score(inlier))


def test_a_score_inside_a_score_too(train, inlier, tmp_path):
    score = Projected(NNGuide(k=3), "class_pred", variance=0.7).fit(train)
    score.save(tmp_path / "p")
    found = load(tmp_path / "p")
    assert repr(found) == repr(score)
    np.testing.assert_array_equal(found.score(inlier), score.score(inlier))


def test_a_memory_mapped_bank_too(train, inlier, tmp_path):
    np.save(tmp_path / "bank.npy", train.features)
    bank = np.load(tmp_path / "bank.npy", mmap_mode="r")
    score = KNN(k=3).fit(Outputs(features=bank))
    score.save(tmp_path / "knn")
    np.testing.assert_array_equal(load(tmp_path / "knn").score(inlier), score.score(inlier))


def test_large_arrays_stay_in_their_file(train, inlier, tmp_path, monkeypatch):
    score = KNN(k=3).fit(train)
    score.save(tmp_path / "knn")
    assert not isinstance(load(tmp_path / "knn").bank_, np.memmap)
    monkeypatch.setattr("caveat.scores._persistence._SMALL", 100)
    found = load(tmp_path / "knn", check=False)
    assert isinstance(found.bank_, np.memmap)
    np.testing.assert_array_equal(found.score(inlier), score.score(inlier))


def test_saving_again_replaces_the_folder_and_its_files(saved):
    assert len(list(saved.iterdir())) > 1
    Energy().save(saved)
    assert [path.name for path in saved.iterdir()] == ["score.json"]
    assert isinstance(load(saved), Energy)


def test_a_folder_of_somebody_else_is_left_alone(train, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and was not written by Caveat"):
        KNN(k=3).fit(train).save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ['{"goals": 3}', "{", "[1]"])
def test_a_page_of_the_same_name_by_somebody_else_too(content, tmp_path):
    (tmp_path / "score.json").write_text(content)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"was not written by Caveat .*score\.json.* left alone"):
        Energy().save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "score.json").read_text() == content


def test_nothing_half_written_is_left(train, tmp_path):
    score = Mahalanobis().fit(train)
    score.means_ = object()
    with pytest.raises(InputError, match=r"Mahalanobis\.means_ is a object, which cannot be saved without pickle"):
        score.save(tmp_path / "score")
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_score_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError, match=r"Mahalanobis has not seen training data\. Call fit\(train\) before save"):
        Mahalanobis().save(tmp_path / "score")


def test_a_score_that_could_not_be_read_back_is_not_saved(tmp_path):
    @dataclass(eq=False)
    class Own(Score):
        name: ClassVar[str] = "own"
        needs: ClassVar[tuple[str, ...]] = ("logits",)

        def _score(self, block: Outputs) -> Any:
            return block.logits[:, 0]

    with pytest.raises(InputError, match="Own is not in the catalogue"):
        Own().save(tmp_path / "score")


def test_a_newer_version_is_an_error(saved):
    change(saved, version=3)
    with pytest.raises(InputError, match=r"has version 3; this Caveat reads up to 2\. Upgrade Caveat"):
        load(saved)


@pytest.mark.parametrize(("new", "message"), [
    ({"format": "caveat-outputs"}, r"does not describe a saved score \(format 'caveat-outputs'\)"),
    ({"version": "one"}, "is damaged"),
    ({"score": "mahalanobos"}, r"unknown score 'mahalanobos'\. Did you mean 'mahalanobis'"),
    ({"score": 7}, "is damaged"),
    ({"parameters": {"rigde": 1.0}}, "Mahalanobis has no 'rigde'"),
    ({"parameters": {"ridge": -1.0}}, "ridge must be a positive number, got -1.0"),
    ({"score": "projected", "parameters": {}}, "is damaged"),
    ({"learned": {"score": 1}}, "Mahalanobis has no 'score'"),
    ({"learned": {"means_": {"is": "surprise"}}}, "unknown kind 'surprise'"),
    ({"learned": {"means_": {"is": "array", "file": "means_.npy"}}}, "is damaged"),
    ({"learned": {"means_": ["plain list"]}}, "is damaged"),
    ({"learned": {"means_": {"is": "array", "file": "../means_.npy", "shape": [1], "dtype": "<f8", "crc32": 0}}},
     "not in its folder"),
])  # fmt: skip
def test_a_damaged_page_is_an_error(new, message, saved):
    change(saved, **new)
    with pytest.raises(InputError, match=message):
        load(saved)


def test_a_number_of_the_page_that_changed_is_noticed(saved):
    path = saved / "score.json"
    path.write_text(path.read_text().replace("0.0001", "0.0007"))
    with pytest.raises(InputError, match=r"score\.json is damaged \(its checksum is not that of its content\)"):
        load(saved)


@pytest.mark.parametrize("gone", ["means_", "n_features_", "fitted_"])
def test_a_learned_value_that_is_gone_is_noticed(gone, saved):
    learned = json.loads((saved / "score.json").read_text())["learned"]
    change(saved, learned={key: value for key, value in learned.items() if key != gone})
    with pytest.raises(InputError, match=r"score\.json is damaged"):
        load(saved)


def test_another_layout_of_the_page_and_pages_without_a_checksum_are_read(saved, inlier):
    expected = load(saved).score(inlier)
    page = change(saved)  # in one line now
    np.testing.assert_array_equal(load(saved).score(inlier), expected)
    del page["crc32"]
    (saved / "score.json").write_text(json.dumps(page))
    np.testing.assert_array_equal(load(saved).score(inlier), expected)


def test_text_that_came_from_an_array_is_text(tmp_path):
    ASH(np.array(["p", "b"])[1]).save(tmp_path / "ash")
    assert load(tmp_path / "ash").variant == "b"


def test_damaged_files_are_errors(saved, tmp_path):
    def copy(name):
        return shutil.copytree(saved, tmp_path / name)

    (copy("a") / "score.json").write_text("{")
    with pytest.raises(InputError, match=r"score\.json is damaged"):
        load(tmp_path / "a")
    (copy("b") / "means_.npy").unlink()
    with pytest.raises(InputError, match=r"means_\.npy does not exist"):
        load(tmp_path / "b")
    path = copy("c") / "means_.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"means_\.npy is damaged"):
        load(tmp_path / "c")
    path = copy("d") / "means_.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1  # one bit of one number
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"means_\.npy is damaged \(its checksum"):
        load(tmp_path / "d")
    np.save(copy("e") / "means_.npy", np.ones((4, 11)))
    with pytest.raises(
        InputError, match=r"must hold an array of shape \(4, 12\) and type <f8 .* got \(4, 11\) and <f8"
    ):
        load(tmp_path / "e")
    np.save(copy("f") / "means_.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(InputError, match="pickled objects, which can run code and are never read"):
        load(tmp_path / "f")
    with (copy("h") / "means_.npy").open("wb") as stream:
        np.savez(stream, means=np.ones(3))
    with pytest.raises(InputError, match="is an archive of arrays, not one array"):
        load(tmp_path / "h")
    (copy("g") / "score.json").unlink()
    with pytest.raises(InputError, match=r"score\.json does not exist"):
        load(tmp_path / "g")
    with pytest.raises(InputError, match="is not a folder with a saved score"):
        load(tmp_path / "nowhere")
