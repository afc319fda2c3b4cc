"""What holds for every plot: whose axes it draws on, how it prints names, what it leaves alone."""

from __future__ import annotations

import io
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from caveat import InputError, MissingExtraError, plots
from caveat.conformal import FPRBand
from caveat.results import Estimate, PredictionSets
from caveat.stats import compare

NAME = "_a $x$ and $y_2$"
SETS = PredictionSets(np.eye(4, dtype=bool), alpha=0.1, level=0.9)
CALLS = {
    "roc": lambda **at: plots.roc(inlier=[0, 1, 2], outlier=[2, 3], delta=0.05, label=NAME, **at),
    "risk_coverage": lambda **at: plots.risk_coverage(score=[1, 2, 3], correct=[1, 0, 0], label=NAME, **at),
    "fpr_band": lambda **at: plots.fpr_band(FPRBand([0.0, 1, 2, 3]), **at),
    "reliability": lambda **at: plots.reliability([[0.9, 0.1], [0.3, 0.7]], [0, 0], **at),
    "histogram": lambda **at: plots.histogram(inlier=[0.0, 1, 2], outliers={NAME: [2, 3]}, threshold=2, **at),
    "set_sizes": lambda **at: plots.set_sizes(SETS, label=NAME, **at),
    "forest": lambda **at: plots.forest({NAME: Estimate(0.9, 0.8, 1.0, 0.95, 10, "DeLong")}, **at),
    "critical_difference": lambda **at: plots.critical_difference(compare([[1, 2]] * 6, methods=[NAME, "b"]), **at),
    "clique_map": lambda **at: plots.clique_map(compare([[1, 2]] * 6, methods=[NAME, "b"]), **at),
}


def drawn_text(ax):
    """The picture as SVG whose text is text."""
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        ax.figure.savefig(file, format="svg")
    return file.getvalue()


def test_every_plot_is_tested_here():
    assert {*CALLS, "save"} == set(plots.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_the_axes_of_the_caller_are_drawn_on_and_returned(name):
    figure = mpl.figure.Figure()
    left, right = figure.subplots(1, 2)
    assert CALLS[name](ax=right) is right
    assert right.has_data()
    assert not left.has_data()
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", CALLS)
def test_without_axes_there_is_one_new_figure_and_no_setting_changes(name):
    before = dict(mpl.rcParams)
    ax = CALLS[name]()
    assert isinstance(ax, mpl.axes.Axes)
    assert plt.get_fignums() == [1]
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"fpr_band", "reliability"}))
def test_names_are_printed_as_they_are(name):
    assert NAME in drawn_text(CALLS[name]())


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"critical_difference", "clique_map"}))
def test_both_axes_are_labeled(name):
    ax = CALLS[name]()
    assert ax.get_xlabel()
    assert ax.get_ylabel() or name == "forest"  # its rows have names


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_matplotlib_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(MissingExtraError, match=rf"plots\.{name} needs the extra 'plots'"):
        CALLS[name]()


def test_a_grid_of_axes_is_refused():
    _, grid = plt.subplots(1, 2)
    with pytest.raises(InputError, match="ax must be a matplotlib Axes, got a ndarray"):
        CALLS["roc"](ax=grid)


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_a_saved_plot_has_the_same_bytes_and_is_closed(tmp_path, ending):
    for file in ("first", "second"):
        plots.save(CALLS["roc"](), tmp_path / f"{file}.{ending}")
    assert (tmp_path / f"first.{ending}").read_bytes() == (tmp_path / f"second.{ending}").read_bytes()
    assert plt.get_fignums() == []


def test_a_plot_in_a_subfigure_is_saved_with_its_figure(tmp_path):
    figure = plt.figure()
    plots.save(CALLS["roc"](ax=figure.subfigures(1, 2)[0].subplots()), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 0
    assert plt.get_fignums() == []
