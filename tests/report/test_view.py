from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caveat.evaluation.records import Scores
from caveat.metrics import conformal_auroc
from caveat.report.view import View


def sides(view, place, method="knn"):
    return {
        "inlier": view.scores[place._replace(outlier=""), "inlier", method],
        "outlier": view.scores[place, "outlier", method],
    }


def test_the_guaranteed_interval_of_one_set_is_the_measured_one(findings):
    view = View(findings)
    place = view.places[0]
    expected = conformal_auroc(**sides(view, place), delta=0.05, method="betting", two_sided=True)
    assert view.guaranteed([place], "knn") == expected == view.number(place, "knn", "auroc_guaranteed")


def test_the_guaranteed_interval_of_a_mean_is_one_betting_bound(findings):
    # Two sets of equal size: the mean AUROC is that of both sets together, and so is its bound.
    view = View(findings)
    parts = [sides(view, place) for place in view.places]
    both = {"inlier": parts[0]["inlier"], "outlier": np.concatenate([part["outlier"] for part in parts])}
    expected = conformal_auroc(**both, delta=0.05, method="betting", two_sided=True)
    found = view.guaranteed(view.places, "knn")
    assert (found.value, found.level, found.n) == (pytest.approx(expected.value), 0.95, 100)
    assert found.upper - found.lower == pytest.approx(expected.upper - expected.lower, rel=0.3)  # another random order
    assert found.lower < found.value < found.upper


def test_models_and_seeds_share_the_allowed_failure(study):
    view = View(study)
    found = view.guaranteed(view.places, "knn")
    assert found.level == pytest.approx(1 - 4 * 0.05)  # two models, two seeds
    parts = [view.guaranteed([place for place in view.places if place[:2] == unit], "knn") for unit in view.units]
    assert found.lower == pytest.approx(np.mean([part.lower for part in parts]))
    assert View(replace(study, delta=0.2)).guaranteed(view.places, "knn") is None


def test_without_scores_nothing_is_guaranteed(findings):
    bare = replace(findings, records=[r for r in findings.records if not isinstance(r, Scores)])
    assert View(bare).guaranteed(View(findings).places, "knn") is None
    assert View(findings).guaranteed([], "knn") is None
