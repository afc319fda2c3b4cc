"""Outputs of a source: renamed keys, row ranges, a head from a separate file, and outputs of a task."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat_lab.experiments import Plan, SourceOutputs, Store, sources
from caveat_lab.experiments.expansion import expand
from caveat_lab.experiments.sources import load_source, save_source, stand_in


@pytest.fixture(autouse=True)
def _nothing_kept():
    sources._kept.update(source=None, files={}, apart=set())


def test_a_stand_in_has_the_shapes_and_takes_no_room(tmp_path, inlier):
    inlier.save(tmp_path / "a.npz")
    found = stand_in(tmp_path / "a.npz", {})
    assert found.stored().keys() == inlier.stored().keys()
    assert {k: s for k, (s, _) in found.stored().items()} == {k: s for k, (s, _) in inlier.stored().items()}
    assert found.logits.strides == (0, 0)
    inlier.save(tmp_path / "folder")
    assert stand_in(tmp_path / "folder", {}, "::2").n == 75


def test_renamed_keys_rows_and_a_head_in_another_file(tmp_path, inlier):
    np.savez(tmp_path / "all.npz", feat_test=inlier.features, y=inlier.labels.astype(np.uint8), other=np.zeros(2))
    np.savez(tmp_path / "head.npz", head_weight=inlier.head.weight, head_bias=inlier.head.bias)
    plan = Plan.parse(
        """
        scores = ["msp"]
        [sources.net]
        inlier = {path = "all.npz", keys = {features = "feat_test", labels = "y"}, rows = "10:40"}
        head = "head.npz"
        """,
        folder=tmp_path,
    )
    cell = expand(plan)[0][-1]
    found = load_source(cell, Store(tmp_path / "runs")).held_out
    np.testing.assert_array_equal(found.features, inlier.features[10:40])
    np.testing.assert_array_equal(found.labels, inlier.labels[10:40])
    np.testing.assert_allclose(found.logits, inlier.logits[10:40])
    assert load_source(cell, Store(tmp_path / "runs")).train is None


def test_a_folder_with_renamed_keys_stays_memory_mapped(tmp_path, inlier):
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "d" / "z.npy", inlier.logits)
    plan = Plan.parse('scores = ["msp"]\n[sources.net]\ninlier = {path = "d", keys = {logits = "z"}}', folder=tmp_path)
    found = load_source(expand(plan)[0][-1], Store(tmp_path / "runs")).held_out
    assert isinstance(found.logits.base, np.memmap)


def test_files_of_one_source_are_read_once(score_study, monkeypatch):
    plan, store = Plan.read(score_study / "plan.toml"), Store(score_study / "runs")
    read = []
    monkeypatch.setattr(sources, "_read_set", lambda path, *rest: read.append(path.name) or Outputs.load(path))
    for cell in expand(plan)[0]:
        load_source(cell, store)
    assert sorted(read) == ["far.npz", "held.npz", "near.npz", "test.npz", "train.npz"]


def test_a_head_that_does_not_fit_is_named(tmp_path, inlier):
    np.savez(tmp_path / "a.npz", features=inlier.features)
    np.savez(tmp_path / "head.npz", head_weight=np.ones((4, 3)))
    plan = Plan.parse('scores = ["msp"]\n[sources.n]\ninlier = "a.npz"\nhead = "head.npz"', folder=tmp_path)
    with pytest.raises(
        InputError, match=r"a\.npz: features and head.weight must have the same number of columns, got 12 and 3"
    ):
        expand(plan)[0]
    np.savez(tmp_path / "head.npz", weight=np.ones((4, 3)))
    with pytest.raises(InputError, match="no array 'head_weight'"):
        expand(plan)[0]


def test_what_a_task_makes_is_kept_and_read_back(tmp_path, train, inlier, outlier):
    made = SourceOutputs(inlier=inlier, outliers={"far: shifted/1": outlier}, train=train)
    save_source(made, tmp_path / "s")
    found = sources._read_made(tmp_path / "s", {})
    assert list(found) == ["train", "inlier", "outlier:far: shifted/1"]
    np.testing.assert_array_equal(found["outlier:far: shifted/1"].logits, outlier.logits)
    assert all(Path(p).parent == tmp_path / "s" for p in (tmp_path / "s").iterdir())


def test_what_another_run_has_made_is_left_alone(tmp_path, inlier, outlier):
    save_source(SourceOutputs(inlier=inlier, outliers={}), tmp_path / "s")
    before = {path: path.stat().st_ino for path in (tmp_path / "s").rglob("*")}
    save_source(SourceOutputs(inlier=outlier, outliers={}), tmp_path / "s")
    assert {path: path.stat().st_ino for path in (tmp_path / "s").rglob("*")} == before


def test_a_run_that_was_quicker_keeps_its_files(tmp_path, inlier, outlier, monkeypatch):
    made, folder = SourceOutputs(inlier=inlier, outliers={"far": outlier}), tmp_path / "outputs" / "key"
    write, quicker = sources.write_json, []

    def meanwhile(path, content):
        if not quicker:
            quicker.append(None)
            save_source(made, folder)
            quicker.append((folder / "caveat.json").stat().st_ino)
        write(path, content)

    monkeypatch.setattr(sources, "write_json", meanwhile)
    save_source(made, folder)
    assert (folder / "caveat.json").stat().st_ino == quicker[1]
    assert [path.name for path in folder.parent.iterdir()] == ["key"]


def test_a_task_may_give_a_dict(tmp_path, inlier):
    assert save_source({"inlier": inlier, "outliers": {}}, tmp_path / "s").train is None
    with pytest.raises(InputError, match="must return SourceOutputs with outliers"):
        save_source({"inlier": inlier}, tmp_path / "t")
    with pytest.raises(InputError, match="inlier of a task .*must be of type Outputs"):
        save_source({"inlier": np.zeros(3), "outliers": {}}, tmp_path / "t")
    with pytest.raises(InputError, match="outliers of a source must be a dict of Outputs"):
        save_source({"inlier": inlier, "outliers": [inlier]}, tmp_path / "t")


def test_a_task_that_mixes_models_is_refused(tmp_path, inlier):
    other = Outputs(logits=np.zeros((3, inlier.n_classes + 1)))
    with pytest.raises(InputError, match="must come from one model, .* classes in inlier and .* in outlier:far"):
        save_source({"inlier": inlier, "outliers": {"far": other}}, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_the_same_rows_in_two_roles_are_refused_by_every_cell(score_study):
    text = (score_study / "plan.toml").read_text(encoding="utf-8").replace("far.npz", "copy.npz")
    shutil.copy(score_study / "test.npz", score_study / "copy.npz")  # the file itself is refused before any cell
    (score_study / "plan.toml").write_text(text, encoding="utf-8")
    for cell in expand(Plan.read(score_study / "plan.toml"))[0]:
        if cell.task in ("score", "sets"):
            with pytest.raises(InputError, match="inlier and outlier set 'far' are the same 150 rows"):
                load_source(cell, Store(score_study / "runs"))


def test_a_task_that_gives_rows_two_roles_is_refused(tmp_path, inlier, outlier):
    with pytest.raises(InputError, match="calibration and inlier share 100 of 100 rows"):
        save_source({"inlier": inlier, "calibration": inlier[:100], "outliers": {"far": outlier}}, tmp_path / "made")
    assert not (tmp_path / "made").exists()
