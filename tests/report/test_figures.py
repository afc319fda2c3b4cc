"""The pictures draw what was measured, stay small, and survive odd data and odd names."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat.metrics import auroc, coverage_verdict, roc_curve
from caveat.metrics.selective import risk_curve
from caveat.report import figures, svg
from caveat.results import Estimate
from caveat.study import SetFacts

AREA = Estimate(0.9, 0.8, 0.95, level=0.95, n=100, method="DeLong")


def points(panel: svg.Panel, hover: str) -> np.ndarray:
    """Vertices of the path under the given hover text, in pixels."""
    tree = ET.fromstring(panel.svg)
    group = next(g for g in tree.iter("g") if g.find("title") is not None and g.find("title").text.startswith(hover))
    x = y = 0.0
    found = []
    for command, rest in re.findall(r"([MLHV])([^MLHVz]*)", group.find("path").get("d")):
        numbers = [float(part) for part in rest.split()]
        x = numbers[0] if command in "MLH" else x
        y = numbers[-1] if command in "MLV" else y
        found.append((x, y))
    return np.array(found)


def roc(inlier, outlier, **options) -> svg.Panel:
    return figures.roc_panel({"knn": (inlier, outlier)}, {"knn": AREA}, key="k", outlier="far", tpr=0.95, **options)


def test_the_drawn_roc_has_the_area_that_was_measured():
    rng = np.random.default_rng(0)
    inlier, outlier = rng.normal(size=30_000), rng.normal(1.5, size=20_000)
    drawn = points(roc(inlier, outlier), "knn")
    assert len(drawn) <= figures.MOST_POINTS
    across, up = drawn[:, 0] - drawn[0, 0], drawn[0, 1] - drawn[:, 1]
    area = np.trapezoid(up / up.max(), across / across.max())
    # A pixel is 1/266 of the axis and coordinates are written to a tenth of it; 250 chords of a smooth curve miss less.
    assert area == pytest.approx(auroc(inlier=inlier, outlier=outlier), abs=0.002)


def test_a_perfect_score_has_a_square_corner():
    drawn = points(roc(np.arange(1000.0), np.arange(2000.0, 4000.0)), "knn")
    assert len(drawn) == 3
    assert drawn[0, 0] == drawn[1, 0]
    assert drawn[1, 1] == drawn[2, 1]


def test_a_constant_score_is_a_diagonal():
    drawn = points(roc(np.zeros(10), np.zeros(5)), "knn")
    assert len(drawn) == 2


@given(values=st.lists(st.integers(0, 6), min_size=2, max_size=40), points=st.integers(2, 10))
def test_evenly_keeps_both_ends_and_the_limit(values, points):
    parameter = np.sort(np.array(values, dtype=float))
    rows = figures.evenly(parameter, points)
    assert rows[0] == 0
    assert rows[-1] == parameter.size - 1
    assert rows.size <= max(points, 2)
    assert (np.diff(rows) > 0).all()


@given(
    inlier=st.lists(st.integers(0, 8), min_size=1, max_size=30),
    outlier=st.lists(st.integers(0, 8), min_size=1, max_size=30),
)
def test_corners_keep_the_area(inlier, outlier):
    fpr, tpr = roc_curve(inlier=inlier, outlier=outlier)
    rows = figures.corners(fpr, tpr)
    assert np.trapezoid(tpr[rows], fpr[rows]) == pytest.approx(auroc(inlier=inlier, outlier=outlier), abs=1e-12)


@pytest.mark.parametrize(
    "values",
    [np.zeros(5), np.full(5, 1e17), np.array([1e17, 1e17 + 16]), np.array([-1e200, 1e200]), np.array([5e-324, 0.0])],
    ids=["zero", "large", "too fine for floats", "far apart", "subnormal"],
)
def test_histograms_of_odd_scores_are_drawn(values):
    panel = figures.histogram_panel(values, {"far": values}, {"far": AREA}, key="k", score="odd")
    assert np.isfinite(points(panel, "far")).all()
    assert "nan" not in panel.svg.lower()


def test_a_histogram_holds_every_sample():
    rng = np.random.default_rng(1)
    values = rng.standard_cauchy(1000)  # tails far beyond the drawn range
    low, high = np.quantile(values, [0.005, 0.995])
    shares = figures._shares_per_bin(values, low, high)
    assert shares.sum() == pytest.approx(1)
    expected, _ = np.histogram(values.clip(low, high), bins=figures.BINS, range=(low, high))
    assert np.abs(shares * 1000 - expected).max() <= 1  # a value on an edge may fall on either side


def test_far_outliers_do_not_squeeze_the_inliers_into_one_bar():
    rng = np.random.default_rng(0)
    inlier, outlier = rng.normal(10, 1, 500), rng.lognormal(12, 1, 300)
    assert figures._compression(inlier, [outlier])[1] > 0
    assert figures._compression(inlier, [inlier + 3]) == (pytest.approx(np.median(inlier)), 0.0)
    crowded = figures.histogram_panel(inlier, {"far": outlier}, {"far": AREA}, key="k", score="s")
    assert "compressed scale" in crowded.svg
    assert (
        "compressed scale"
        not in figures.histogram_panel(inlier, {"far": inlier}, {"far": AREA}, key="k", score="s").svg
    )


def test_names_are_text_and_nothing_else():
    name = "<script>alert('x')</script> $\\frac{1$ & @0@ 分布外"
    panel = figures.histogram_panel(np.arange(9.0), {name: np.arange(5.0)}, {name: AREA}, key="k", score=name)
    tree = ET.fromstring(panel.svg)
    assert tree.find("title").text == name
    assert not list(tree.iter("script"))
    shown = [element.text for element in tree.iter("text")]
    assert any(text.startswith("<script>alert(") for text in shown)


def test_risk_curves_end_at_the_error_rate():
    score, correct = np.arange(8.0), np.array([1, 1, 1, 1, 1, 1, 0, 0])
    curves = {"msp": risk_curve(score=score, correct=correct)}
    for selective in (False, True):
        drawn = points(figures.risk_panel(curves, {"msp": AREA}, key="k", selective=selective), "msp")
        # both risks are zero until the two errors, the strangest, are accepted: flat to 6/8 of the way, then up
        bottom = drawn[:, 1].max()
        flat = drawn[drawn[:, 1] == bottom]
        share = (flat[-1, 0] - drawn[0, 0]) / (drawn[-1, 0] - drawn[0, 0])
        assert share == pytest.approx(6 / 8, abs=0.005)
        assert drawn[-1, 1] < bottom


def test_a_model_without_errors_has_a_risk_curve_too():
    curves = {"msp": risk_curve(score=np.arange(5.0), correct=np.ones(5))}
    assert "nan" not in figures.risk_panel(curves, {"msp": AREA}, key="k", selective=True).svg


@pytest.mark.parametrize("n_classes", [1, 2, 12, 13, 20, 21, 99, 100, 101, 1000, 21_841])
def test_size_groups_cover_every_size_once(n_classes):
    groups = figures.size_groups(n_classes)
    assert [size for first, last in groups for size in range(first, last + 1)] == list(range(n_classes + 1))
    assert len(groups) <= 20


def test_set_sizes_are_described_in_words():
    panel = figures.set_size_panel(np.array([1, 6, 3]), key="k", name="far")
    assert panel.title == "far: mean size 1.20"  # (6 * 1 + 3 * 2) / 10
    assert "0: 10.0\xa0%; 1: 60.0\xa0%; 2: 30.0\xa0%" in panel.description


def test_coverage_is_drawn_where_it_is():
    seen = Estimate(0.95, 0.93, 0.97, level=0.95, n=100, method="Clopper-Pearson")
    verdict = coverage_verdict(95, 100, n_calibration=200, alpha=0.1)
    sets = SetFacts("lac", 0.1, 0.9, seen, verdict, 1.1, np.array([0, 90, 10]), {}, 200, "")
    panel = figures.coverage_panel(sets, key="k")
    assert "observed 95.0\xa0% [93.0\xa0%, 97.0\xa0%], promised 90\xa0%" in panel.description


def test_importing_the_report_loads_neither_matplotlib_nor_jinja():
    code = "import sys, caveat.report; print({'matplotlib', 'jinja2'} & {m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
