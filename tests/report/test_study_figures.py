"""Curves and histograms of a study: what the store holds, where the axes say."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from caveat.report import study_figures, study_model_figures
from caveat.report.study import read_study
from caveat.report.study_facts import Histogram
from caveat.study import StudyResults


@pytest.fixture(scope="module")
def facts(small_study):
    return read_study(StudyResults(small_study))


def points(path: str) -> np.ndarray:
    found = [int(n) for n in re.findall(r"-?\d+", path)]
    return np.cumsum(np.reshape(found, (-1, 2)), axis=0) / 10


def test_roc_curves_lie_where_the_store_says(facts):
    offered = [method.label for method in facts.methods]
    placed = study_figures.roc_panels(facts, offered)
    assert [(p.source, p.regime) for p in placed] == [(s, facts.regime(s, o)) for s, o in facts.sets]
    root = ElementTree.fromstring(placed[0].panel.svg)
    (left, right, _, _), (bottom, top, _, _) = ([float(n) for n in root.get(f"data-{axis}").split()] for axis in "xy")
    groups = {g.get("data-name"): g for g in root.iter("g") if g.get("data-series")}
    assert list(groups) == offered[::-1]  # the leader is drawn last, on top
    source, outlier = facts.sets[0]
    for name, group in groups.items():
        curve = facts.curves["roc", source, outlier, name]
        line = next(p for p in group.iter("path") if p.get("class") == "line")
        x, y = points(line.get("d")).T
        read = (bottom - np.interp(left + curve.x * (right - left), x, y)) / (bottom - top)
        # A vertex may be off by 0.05 pixels in both directions, which on a slope adds up.
        slope = np.abs(np.gradient(curve.value, curve.x)) * (bottom - top) / (right - left)
        assert (np.abs(read - curve.value) <= 0.06 * (1 + 2 * slope) / (bottom - top))[1:].all()
        slot = offered.index(name) + 1
        assert group.get("class") == (f"series slot-{slot}" if slot <= 6 else "series off")
        assert any(p.get("class") == "area" for p in group.iter("path"))


def test_risk_has_the_models_own_errors_first(facts):
    placed = study_figures.risk_panels(facts, [method.label for method in facts.methods])
    assert [p.panel.title for p in placed[:2]] == ["resnet20: the model's own errors", "vgg13: the model's own errors"]
    assert len(placed) == 2 + len(facts.sets)


def test_a_histogram_has_one_row_per_set_from_near_to_far():
    shares = {"": np.array([0.7, 0.3]), "b": np.array([0.1, 0.9]), "a": np.array([0.4, 0.6])}
    found = study_figures.histogram_panel(
        Histogram(np.array([0.0, 1.0, 3.0]), shares),
        {"a": "0.600", "b": "0.900"},
        {"a": "near", "b": "far"},
        key="h",
        title="knn",
    )
    root = ElementTree.fromstring(found.svg)
    labels = [t.text for t in root.iter("text") if "AUROC" in t.text]
    assert labels == ["a · near: AUROC 0.600", "b · far: AUROC 0.900"]
    assert [g.get("class") for g in root.iter("g") if (g.get("class") or "").startswith("outline")] == [
        "outline near",
        "outline far",
    ]
    assert "nan" not in found.svg


def test_pictures_of_the_models_say_their_values(facts):
    difficulty = study_model_figures.difficulty_panels(facts)
    assert [p.source for p in difficulty] == ["resnet20", "resnet20", "vgg13", "vgg13"]
    assert "lac, bin 0: 1.26" in difficulty[0].panel.svg
    assert "aps: 75.0\xa0% of the sets hold 1" in study_model_figures.size_panels(facts)[0].panel.svg
    certificates = study_model_figures.certificate_panels(facts)
    assert [p.panel.title for p in certificates] == ["uniform", "fashion"]
    assert "resnet20: GAUC 0.880" in certificates[0].panel.svg
    bounds = study_model_figures.upper_bound_panels(facts)
    assert len(bounds) == 4
    assert "mean 0.500" in bounds[0].panel.description
    assert len(study_model_figures.collapse_panels(facts)) == 4
