"""From a plan to cells: each cell once, and skipped ones are listed."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import catalogue, projections_of
from caveat_lab.experiments import Plan
from caveat_lab.experiments.expansion import expand


def plan_of(folder, old="", new=""):
    text = (folder / "plan.toml").read_text()
    assert old in text
    return Plan.parse(text.replace(old, new), folder=folder)


def labels(plan):
    return [cell.label for cell in expand(plan)[0]]


def test_scores_parameters_and_projections(score_study):
    plan = Plan.read(score_study / "plan.toml")
    assert [cell.label for cell in expand(plan)[0]] == [
        "net model", "net collapse", "net proximity", "net msp", "net msp global", "net energy", "net energy global",
        "net knn(k=5)", "net knn(k=10)",
    ]  # fmt: skip
    assert expand(plan)[1] == ("No global projection exists of knn.",)
    assert {cell.seed for cell in expand(plan)[0]} == {3}


def test_by_default_every_score_that_the_files_allow(score_study):
    plan = plan_of(score_study, 'scores = ["msp", "energy", {name = "knn", k = [5, 10]}]\n')
    found, notes = expand(plan)
    able = [e for e in catalogue() if not {"mc_logits", "layers", "confidence"} & {*e.needs, *e.fits_on}]
    expected = len(able) + sum("global" in projections_of(e.name) for e in able)
    assert sum(cell.task == "score" for cell in found) == expected
    assert any("left out (needs mc_logits)" in note for note in notes)


def test_a_named_score_that_the_files_do_not_allow_is_an_error(score_study):
    with pytest.raises(InputError, match=r"score 'mc_msp' needs mc_logits in source net"):
        labels(plan_of(score_study, '"msp"', '"mc_msp"'))
    with pytest.raises(InputError, match=r"score 'knn\(k=999\)' needs at least k = 999 training rows, got 240"):
        labels(plan_of(score_study, "k = [5, 10]", "k = [999]"))


def test_rows_of_a_file_count(score_study):
    with pytest.raises(InputError, match="training rows, got 4 in source net"):
        labels(plan_of(score_study, 'train = "train.npz"', 'train = {path = "train.npz", rows = "0:4"}'))


def test_without_training_outputs_there_is_no_geometry(score_study):
    plan = plan_of(score_study, 'train = "train.npz"\n')
    plan = Plan.parse(plan.text.replace(', {name = "knn", k = [5, 10]}', "").replace('"none", "global"', '"none"'),
                      folder=score_study)  # fmt: skip
    assert labels(plan) == ["net model", "net msp", "net energy"]
    assert any("neural collapse needs" in note for note in expand(plan)[1])


def test_files_that_are_the_same_for_every_seed_are_measured_once(score_study):
    plan = plan_of(score_study, "seeds = [3]", "seeds = [3, 4]")
    cells, notes = expand(plan)
    assert {cell.seed for cell in cells} == {3}
    assert any("is the same for every seed and is measured once, with seed 3" in note for note in notes)


def test_a_seed_in_a_path_gives_cells_for_each_seed(score_study):
    (score_study / "test.npz").rename(score_study / "test3.npz")
    (score_study / "test4.npz").write_bytes((score_study / "test3.npz").read_bytes())
    plan = plan_of(score_study, "seeds = [3]", "seeds = [3, 4]")
    plan = Plan.parse(plan.text.replace('"test.npz"', '"test{seed}.npz"'), folder=score_study)
    assert sorted({cell.label for cell in expand(plan)[0] if cell.params.get("score") == "msp"}) == [
        "net seed 3 msp", "net seed 3 msp global", "net seed 4 msp", "net seed 4 msp global",
    ]  # fmt: skip


def test_moved_data_keep_their_keys_and_changed_data_do_not(score_study, tmp_path):
    before = {cell.label: cell.key for cell in expand(Plan.read(score_study / "plan.toml"))[0]}
    moved = score_study.rename(tmp_path / "moved")
    assert {cell.label: cell.key for cell in expand(Plan.read(moved / "plan.toml"))[0]} == before
    outputs = Outputs.load(moved / "held.npz")
    Outputs(logits=outputs.logits + 1, labels=outputs.labels).save(moved / "held.npz")
    after = {cell.label: cell.key for cell in expand(Plan.read(moved / "plan.toml"))[0]}
    # Calibration rows set every threshold; geometry does not read them.
    assert {label for label in before if before[label] == after[label]} == {"net collapse", "net proximity"}


def test_the_regime_and_the_title_are_not_part_of_the_key(score_study):
    before = [cell.key for cell in expand(Plan.read(score_study / "plan.toml"))[0]]
    other = plan_of(score_study, 'regime = "near"', 'regime = "mid"')
    assert [cell.key for cell in expand(other)[0]] == before


def test_regimes_by_proximity_need_three_sets(score_study):
    with pytest.raises(InputError, match="regimes by proximity need at least 3 outlier sets, got 2"):
        labels(plan_of(score_study, "[sources.net]", '[regimes]\nby = "proximity"\n[sources.net]'))


def test_what_a_file_lacks_is_named(score_study):
    with pytest.raises(InputError, match=r"gone\.npz does not exist"):
        labels(plan_of(score_study, "train.npz", "gone.npz"))
    with pytest.raises(InputError, match="has no array 'feat'. It has features, head_bias, head_weight"):
        labels(plan_of(score_study, '"train.npz"', '{path = "train.npz", keys = {features = "feat"}}'))
    with pytest.raises(InputError, match="unknown field in keys of net train 'feature'. Did you mean 'features'"):
        labels(plan_of(score_study, '"train.npz"', '{path = "train.npz", keys = {feature = "features"}}'))
    np.savez(score_study / "train.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="holds none of the keys logits"):
        labels(Plan.read(score_study / "plan.toml"))
    (score_study / "train.npz").write_bytes(b"not a zip")
    with pytest.raises(InputError, match=r"train\.npz is damaged or not an \.npz file"):
        labels(Plan.read(score_study / "plan.toml"))


@pytest.mark.parametrize(("classes", "width", "said"), [
    (5, 12, "got 4 classes in train and 5 in outlier:far"),
    (4, 7, "got 12 columns of features in train and 7 in outlier:far"),
])  # fmt: skip
def test_sets_of_different_models_are_refused(score_study, classes, width, said):
    rng = np.random.default_rng(0)
    strange = Outputs(logits=rng.normal(size=(30, classes)), features=rng.normal(size=(30, width)))
    strange.save(score_study / "far.npz")
    with pytest.raises(InputError, match=f"source net: all parts must come from one model, {said}"):
        expand(plan_of(score_study, '["msp", "energy", {name = "knn", k = [5, 10]}]', '["energy"]'))


def test_rows_that_keep_nothing_are_an_error(score_study):
    with pytest.raises(InputError, match="rows '90:' of .*near.npz keep none of its 90 samples"):
        expand(plan_of(score_study, '"near.npz", ', '"near.npz", rows = "90:", '))


def test_a_grid_of_a_task(task_study):
    plan = Plan.read(task_study())
    assert [cell.params for cell in expand(plan)[0]] == [{"a": a, "b": b} for a in (1, 2, 3) for b in (0, 5)]
    assert expand(plan)[0][1].label == "a=1, b=5"


def test_a_grid_from_a_function(task_study):
    path = task_study("def one(**k): return []\ndef grid(): return [{'seed': 4, 'k': 2}, {'k': 3}]",
                      '[task]\nrun = "run.py:one"\ngrid = "run.py:grid"')  # fmt: skip
    assert [(cell.params, cell.seed) for cell in expand(Plan.read(path))[0]] == [
        ({"seed": 4, "k": 2}, 4),
        ({"k": 3}, 0),
    ]


@pytest.mark.parametrize(
    ("grid", "said"),
    [("[1]", "must give dicts of parameters"), ("3", "must be a list"), ("[]", "with at least one"),
     ("[{'a': object()}]", "must be plain values"), ("[{'a': 1}, {'a': 1}]", "has the cell 'a=1' twice")],
)  # fmt: skip
def test_a_wrong_grid_function(task_study, grid, said):
    path = task_study(f"def one(**k): return []\ndef grid(): return {grid}",
                      '[task]\nrun = "run.py:one"\ngrid = "run.py:grid"')  # fmt: skip
    with pytest.raises(InputError, match=said):
        expand(Plan.read(path))[0]


def test_editing_the_task_or_its_data_changes_the_keys(task_study, tmp_path):
    path = task_study(plan='[task]\nrun = "run.py:one"\ndata = ["d.csv"]\n[grid]\na = 1\nb = 2')
    (path.parent / "d.csv").write_text("1")
    keys = [expand(Plan.read(path))[0][0].key]
    (path.parent / "d.csv").write_text("2")
    keys.append(expand(Plan.read(path))[0][0].key)
    (path.parent / "run.py").write_text("def one(a, b): return []")
    keys.append(expand(Plan.read(path))[0][0].key)
    assert len(set(keys)) == 3


def test_a_file_with_two_roles_is_an_error_before_the_first_cell(score_study):
    plan = plan_of(score_study, '"held.npz"', '"test.npz"')
    with pytest.raises(InputError, match="source net: calibration and inlier are the same file, .*test.npz"):
        expand(plan)
