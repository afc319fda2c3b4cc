"""The page on studies: its plans are read, its score study runs, its Python lines read the results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from caveat import Outputs
from caveat.evaluation.records import Proximity, Tuning
from caveat_lab.experiments import Plan, run
from caveat_lab.experiments.expansion import expand

pytest.importorskip("pyarrow")
PAGE = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
SCORES, OTHER_NAMES, EMBEDDINGS, MADE, MATRIX, TASK = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the page speaks of, small, in the current folder."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 6))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path))
    for name, shift in {"train": 0, "val": 0, "test": 0, "dtd": 3, "svhn": 1, "svhn2": 1}.items():
        features = rng.normal(size=(150, 6)) + shift
        labels = np.argmax(features @ weight.T, axis=1) if shift == 0 else None
        Outputs(features=features, logits=features @ weight.T, labels=labels).save(f"{name}.npz")
    np.savez("head.npz", head_weight=weight, head_bias=np.zeros(3))
    return tmp_path


def test_the_score_study_runs_and_is_read(folder):
    plan = SCORES.replace("resamples = 1000", "resamples = 20").replace("k = [10, 50]", "k = [5, 10]")
    found = run(Plan.parse(plan, folder=folder), store=folder / "runs" / "x")
    assert found.missing == ()
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "docs/studies.md", "exec"), names)
    assert names["results"].failures == ()
    assert "auroc" in (folder / "metrics.csv").read_text(encoding="utf-8")


def test_regimes_by_proximity_need_three_sets(folder):
    plan = SCORES.replace("[sources.resnet20]", '[regimes]\nby = "proximity"\n\n[sources.resnet20]')
    with pytest.raises(ValueError, match="at least 3 outlier sets, got 2"):
        expand(Plan.parse(plan, folder=folder))
    more = plan.replace('svhn = "svhn.npz"', 'svhn = "svhn.npz"\nval = "val.npz"')
    assert Plan.parse(more, folder=folder).by_proximity


def test_regimes_from_files_of_embeddings(folder):
    (folder / "clip").mkdir()
    rng = np.random.default_rng(0)
    for i, name in enumerate(("train", "dtd", "svhn", "val")):
        np.save(f"clip/{name}.npy", rng.normal(size=(150, 5)) + i)
    np.save("clip/classes.npy", rng.normal(size=(3, 7, 5)))
    files = EMBEDDINGS.replace("text =", 'val = "clip/val.npy"\ntext =')
    with pytest.raises(ValueError, match="at least 3 outlier sets, got 2"):
        expand(Plan.parse(SCORES + EMBEDDINGS, folder=folder))
    plan = (SCORES + files).replace('svhn = "svhn.npz"', 'svhn = "svhn.npz"\nval = "svhn2.npz"')
    plan = plan.replace('places = "svhn2.npz"', "").replace("resamples = 1000", "resamples = 20")
    plan = plan.replace('scores = ["msp", "energy", {name = "knn", k = [10, 50]}]', 'scores = ["gen", "msp"]')
    found = run(Plan.parse(plan.replace("tune = false", "tune = true"), folder=folder), store="runs/x")
    assert (found.missing, found.failures) == ((), ())
    near = list(found.records(Proximity))
    assert {record.block.regime for record in near} == {"near", "mid", "far"}
    assert all(np.isfinite(record.text) for record in near)
    assert {record.method.score for record in found.records(Tuning)} == {"gen", "msp"}


def test_the_matrix_is_read_and_its_lists_are_expanded(folder):
    plan = Plan.parse(MATRIX, folder=folder)
    # 2 sets x 3 backbones x 4 paradigms x (no dropout, dropout, dropout with passes)
    assert len(plan.sources) == 2 * 3 * 4 * 3
    assert plan.seeds == (0, 1, 2)
    assert len(set(plan.groups.values())) == 2 * 3
    one = plan.sources["cifar10/small_vit width 64/deep_gamblers reward 6.0/dropout 0.2/50 passes"].network
    assert one.training["training"] == {
        "epochs": 10, "schedule": "cosine", "device": "cuda", "augment": {"flip": True, "crop": 4},
    }  # fmt: skip
    assert one.training["model"] == {"name": "small_vit", "width": 64, "dropout": 0.2}
    assert one.training["data"]["normalize"]


def test_files_with_other_names(folder):
    with np.load("test.npz") as given:
        np.savez("all.npz", feat_test=given["features"], logits_test=given["logits"], y_test=given["labels"])
    plan = re.sub(r'inlier = "test.npz".*\n', OTHER_NAMES.replace("5000:", "100:"), SCORES)
    assert expand(Plan.parse(plan, folder=folder))


def test_outputs_that_a_task_makes(folder):
    (folder / "make.py").write_text(
        "from caveat import Outputs\n"
        "def outputs(seed, depth):\n"
        "    assert (seed, depth) == (0, 3)\n"
        "    train, held, inlier, noise = (Outputs.load(f'{name}.npz') for name in ('train', 'val', 'test', 'dtd'))\n"
        "    return {'train': train, 'calibration': held, 'inlier': inlier, 'outliers': {'noise': noise}}\n",
        encoding="utf-8",
    )
    plan = Plan.parse('title = "Made"\nscores = ["msp"]\nmetrics = ["auroc"]\n' + MADE, folder=folder)
    found = run(plan, store="runs/made")
    assert (found.missing, found.failures) == ((), ())
    assert set(found.table("auroc")["regime"]) == {"far"}


def test_a_study_of_a_task(folder):
    (folder / "run.py").write_text("def one(set, K, seed): return [{'value': K}]\n", encoding="utf-8")
    (folder / "protocol.py").touch()
    (folder / "usps.npz").touch()
    assert len(expand(Plan.parse(TASK, folder=folder))[0]) == 9  # 1 set x 3 K x 3 seeds


def test_the_store_is_as_listed(folder):
    (folder / "run.py").write_text("def one(K): return [{'value': K}]\n", encoding="utf-8")
    run(Plan.parse('title = "x"\n[task]\nrun = "run.py:one"\n[grid]\nK = [1, 2]', folder=folder), store="runs/x")
    listed = set(re.findall(r"^    runs/x/(\w+(?:\.\w+)?)", PAGE, re.MULTILINE))
    assert {path.name for path in Path("runs/x").iterdir()} <= listed
