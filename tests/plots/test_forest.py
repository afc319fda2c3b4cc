from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, plots
from caveat.results import Estimate


def estimate(value, width=0.02, method="DeLong"):
    return Estimate(value, value - width, value + width, level=0.95, n=100, method=method)


ESTIMATES = {"low": estimate(0.6), "high": estimate(0.9), "middle": estimate(0.7)}


def rows(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_the_best_is_on_top():
    ax = plots.forest(ESTIMATES)
    assert rows(ax) == ["high", "middle", "low"]
    assert ax.transData.transform([[0, 0]])[0, 1] > ax.transData.transform([[0, 2]])[0, 1]
    assert rows(plots.forest(ESTIMATES, lower_is_better=True)) == ["low", "middle", "high"]


def test_intervals_are_thick_and_guaranteed_ones_thin(legend):
    ax = plots.forest(ESTIMATES, guaranteed={"middle": estimate(0.7, 0.1, "exact band")})
    thick = {tuple(line.get_ydata()): line.get_xdata() for line in ax.lines if line.get_linewidth() > 4}
    np.testing.assert_allclose([thick[0, 0], thick[1, 1], thick[2, 2]], [[0.88, 0.92], [0.68, 0.72], [0.58, 0.62]])
    (thin,) = [line for line in ax.lines if line.get_marker() == "|"]
    np.testing.assert_allclose(thin.get_xydata(), [[0.6, 1], [0.8, 1]])
    assert thin.get_linewidth() < 2
    assert legend(ax) == ["interval (95 % DeLong)", "guaranteed (95 % exact band)"]


def test_letters_stand_in_their_rows_at_the_right_edge():
    ax = plots.forest(ESTIMATES, letters={"high": "a", "middle": "ab"}, reference=0.5)
    ax.figure.draw_without_rendering()
    letters = {text.get_text(): text for text in ax.texts if text.get_text()}
    assert {name: text.get_position()[1] for name, text in letters.items()} == {"a": 0, "ab": 1}
    assert all(text.get_window_extent().x0 >= ax.bbox.x1 for text in letters.values())


def test_intervals_of_several_kinds_have_no_common_name(legend):
    assert legend(plots.forest({"a": estimate(0.5), "b": estimate(0.6, method="bootstrap")})) == ["interval"]


def test_names_must_be_those_of_estimates():
    with pytest.raises(InputError, match="letters must have names of estimates, got 'other'"):
        plots.forest(ESTIMATES, letters={"other": "a"})
    with pytest.raises(InputError, match="at least one entry"):
        plots.forest({})
