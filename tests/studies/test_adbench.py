"""The committed runs of ADBench say what the README says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

FOLDER = Path(__file__).resolve().parents[2] / "studies" / "adbench"
QUICK = ("IForest", "OCSVM", "CBLOF", "COPOD", "ECOD", "HBOS", "KNN", "LOF", "PCA")


@pytest.fixture(scope="module")
def tables():
    sys.path.insert(0, str(FOLDER))  # the script imports its neighbour
    try:
        spec = importlib.util.spec_from_file_location("adbench_tables", FOLDER / "tables.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


def test_nine_detectors_ran_on_every_set_and_seed(tables):
    runs = {(row["set"], row["detector"], row["seed"]) for row in tables.kept()}
    sets = {name for name, _, _ in runs}
    assert len(sets) == 51
    assert {(s, d, seed) for s in sets for d in QUICK for seed in (1, 2, 3)} <= runs


def test_published_aurocs_come_out(tables):
    ours, known = tables.means(tables.kept(), "auroc"), tables.published()
    gaps = [abs(ours[key] - known[key][0]) for key in ours if key in known and key[1] in QUICK]
    assert len(gaps) == 324
    assert sum(gap <= tables.CLOSE + 0.005 for gap in gaps) == 304


def test_our_correction_follows_the_number_of_inliers_and_the_published_one_does_not(tables):
    table = [row for row in tables.kept() if row["detector"] in QUICK and not row["failure"]]
    n = {row["set"]: row["n"] for row in table}
    gap, known = {}, tables.published()
    for row in table:
        gap.setdefault(row["set"], []).append(row["auroc"] - row["lower"])
    sets = sorted(gap)
    ours = spearmanr([np.mean(gap[s]) for s in sets], [n[s] for s in sets]).statistic
    paper = {s: np.mean([a - b for (name, d), (a, b) in known.items() if name == s and d in QUICK]) for s in sets
             if any(name == s for name, _ in known)}  # fmt: skip
    theirs = spearmanr(list(paper.values()), [n[s] for s in paper]).statistic
    assert ours < -0.85
    assert theirs > -0.5


def test_an_interrupted_study_counts_what_is_in_the_store_once(tables, tmp_path):
    before = tables.kept()
    row = before[0]
    np.savez(
        tmp_path / f"1_{row['set']}__{row['detector']}__{row['seed']}.npz",
        scores=np.array([0.0, 1.0, 2.0]), anomaly=np.array([False, False, True]), seconds=1.0, failure="",
        resampled=False,
    )  # fmt: skip
    after = tables.together(tmp_path)
    assert len(after) == len(before)
    (changed,) = [r for r in after if all(r[k] == row[k] for k in ("set", "detector", "seed"))]
    assert changed["auroc"] == 1.0
