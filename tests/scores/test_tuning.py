from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs
from caveat.metrics import augrc, auroc
from caveat.scores import GEN, KNN, Mahalanobis, Score, catalogue, detector, make, tune


@pytest.fixture
def validation(make_outputs):
    return make_outputs(seed=2, n=150)


def test_the_smallest_augrc_wins(validation):
    grid = {"gamma": [0.01, 0.3, 0.9], "top": [1, 2, 4]}
    tuned = tune("gen", grid, validation=validation)
    expected = [
        augrc(score=GEN(gamma=gamma, top=top).score(validation), correct=validation.correct)
        for gamma in grid["gamma"]
        for top in grid["top"]
    ]
    assert [trial.value for trial in tuned.table] == pytest.approx(expected)
    assert tuned.value == min(expected)
    assert tuned.metric == "augrc"
    assert tuned.n == 150
    assert tuned.caveat == ""
    assert (tuned.score.gamma, tuned.score.top) == (tuned.params["gamma"], tuned.params["top"])


def test_learners_come_back_fitted_from_one_walk(train, validation, monkeypatch):
    walks = []
    blocks = Outputs.blocks
    monkeypatch.setattr(
        Outputs, "blocks", lambda self, fields=None, **room: walks.append(self is train) or blocks(self, fields, **room)
    )
    tuned = tune("mahalanobis", {"ridge": [1e-6, 1e-2, 1.0]}, train=train, validation=validation)
    assert sum(walks) == 1
    again = Mahalanobis(ridge=tuned.params["ridge"]).fit(train)
    np.testing.assert_array_equal(tuned.score.score(validation), again.score(validation))


def test_outliers_decide_only_when_they_are_passed(train, validation, outlier):
    grid = {"k": [1, 5, 50]}
    silent = tune(KNN, grid, train=train, validation=validation)
    told = tune(KNN, grid, train=train, validation=validation, outlier=outlier)
    values = []
    for k in grid["k"]:
        score = KNN(k=k).fit(train)
        values.append(auroc(inlier=score.score(validation), outlier=score.score(outlier)))
    assert [trial.value for trial in told.table] == pytest.approx(values)
    assert told.value == max(values)
    assert told.metric == "auroc"
    assert "not a test any more" in told.caveat
    assert silent.metric == "augrc"


def test_with_outliers_no_labels_are_needed(validation, outlier):
    unlabeled = Outputs(logits=validation.logits)
    assert tune("gen", validation=unlabeled, outlier=outlier).metric == "auroc"


def test_on_a_tie_the_defaults_stay(validation):
    # four classes: every top of four or more is the same score
    tuned = tune("gen", {"top": [4, 50, 100, 500]}, validation=validation)
    assert tuned.params == {"top": 100}
    assert tune("gen", {"top": [50, 4]}, validation=validation).params == {"top": 50}


def test_points_that_cannot_be_computed_are_named_and_skipped(train, validation):
    tuned = tune("knn", {"k": [10_000, 5]}, train=train, validation=validation)
    assert tuned.params == {"k": 5}
    assert math.isnan(tuned.table[0].value)
    assert "needs at least k = 10000 training rows" in tuned.table[0].skipped


def test_a_score_keeps_its_other_parameters(train, validation):
    tuned = tune(Mahalanobis(normalize=True), {"ridge": [1e-4]}, train=train, validation=validation)
    assert tuned.score.normalize is True


@pytest.mark.parametrize("entry", [entry for entry in catalogue() if entry.grid], ids=lambda entry: entry.name)
def test_default_grids_hold_the_default_and_run(entry, train, validation):
    assert set(entry.grid) <= set(entry.params)
    for key, values in entry.grid.items():
        assert entry.params[key] in values
        assert len(set(values)) == len(values)
    tuned = tune(entry.name, train=train, validation=validation)
    default = make(entry.name).fit(train).score(validation)
    assert tuned.value <= augrc(score=default, correct=validation.correct) + 1e-12


def test_a_detector_that_needs_the_whole_batch_gets_it(train, validation):
    pytest.importorskip("pyod")
    noise = np.random.default_rng(0).normal(size=(60, 12)) * 3
    outlier = Outputs(features=validation.features[:60] + noise)  # scattered around the inliers
    tuned = tune(detector("cof"), {"params": [{"n_neighbors": 5}, {"n_neighbors": 20}]}, train=train,
                 validation=validation, outlier=outlier)  # fmt: skip
    score = detector("cof", **tuned.params["params"]).fit(train)
    inlier, strange = score.score_together(validation, outlier)
    assert tuned.value == auroc(inlier=inlier, outlier=strange)
    assert tuned.value > 0.9
    with pytest.warns(CaveatWarning, match="score_together"):  # two calls, two worlds
        assert tuned.value != auroc(inlier=score.score(validation), outlier=score.score(outlier))


def test_nan_is_never_ranked(validation):
    @dataclass(eq=False)
    class Broken(Score):
        a: float = 1.0
        name: ClassVar[str] = "broken"
        needs: ClassVar[tuple[str, ...]] = ("logits",)

        def _score(self, block):
            return np.full(block.n, np.nan)

    with pytest.raises(InputError, match="score broken is NaN, first at row 0"):
        tune(Broken, {"a": [1.0]}, validation=validation)


def test_messages(train, validation):
    with pytest.raises(InputError, match=r"score 'msp' has no default grid. Pass grid="):
        tune("msp", validation=validation)
    with pytest.raises(InputError, match=r"unknown parameter of score 'gen' 'gama'. Did you mean 'gamma'"):
        tune("gen", {"gama": [1]}, validation=validation)
    with pytest.raises(InputError, match=r"grid\['gamma'\] must be a list with at least one entry"):
        tune("gen", {"gamma": []}, validation=validation)
    with pytest.raises(InputError, match="needs validation.correct"):
        tune("gen", validation=Outputs(logits=validation.logits))
    with pytest.raises(InputError, match=r"all 2 are right\. Use more held-out data"):
        tune("gen", validation=Outputs(logits=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1]))
    with pytest.raises(InputError, match="score 'knn' cannot be tuned on these outputs: it needs training outputs"):
        tune("knn", {"k": [1]}, validation=validation)
    with pytest.raises(InputError, match="gamma must be strictly between 0 and 1, got 3"):
        tune("gen", {"gamma": [3]}, validation=validation)


def test_rows_in_two_roles_are_refused(train, validation):
    with pytest.raises(InputError, match="train and validation are the same"):
        tune("knn", {"k": [5]}, train=validation, validation=validation)
    with pytest.raises(InputError, match="validation and outlier are the same"):
        tune("knn", {"k": [5]}, train=train, validation=validation, outlier=validation)
