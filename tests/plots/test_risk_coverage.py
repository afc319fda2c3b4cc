from __future__ import annotations

import numpy as np
import pytest

from caveat import plots


@pytest.mark.parametrize(
    ("generalized", "risk", "area"),
    [(False, [0, 0, 0, 1 / 3, 1 / 4], "AURC 0.115"), (True, [0, 0, 0, 1 / 4, 1 / 4], "AUGRC 0.0938")],
)
def test_curve_by_hand(generalized, risk, area, legend):
    # the third of four samples is wrong: 1 of 3 accepted, or 1 of all 4
    ax = plots.risk_coverage(score=[1, 2, 3, 4], correct=[1, 1, 0, 1], generalized=generalized)
    np.testing.assert_allclose(ax.lines[0].get_xydata().T, [[0, 0.25, 0.5, 0.75, 1], risk])
    assert legend(ax) == [area]


def test_the_first_few_samples_do_not_set_the_height():
    correct = np.ones(1000, dtype=bool)
    correct[[0, 500]] = False  # the least strange is wrong: risk 1 at coverage 1/1000
    ax = plots.risk_coverage(score=np.arange(1000), correct=correct)
    assert ax.lines[0].get_ydata().max() == 1
    assert ax.get_ylim()[1] < 0.1


def test_the_axes_hold_all_curves(legend):
    ax = plots.risk_coverage(score=[1, 2, 3, 4], correct=[0, 0, 1, 1], label="bad")
    ax = plots.risk_coverage(score=[1, 2, 3, 4], correct=[1, 1, 1, 0], label="good", ax=ax)
    assert ax.get_ylim()[1] > 1
    # selective risk 1, 1, 2/3, 1/2, held at 1 before the first: (1 + 1 + 5/6 + 7/12) / 4
    assert legend(ax) == ["bad: AURC 0.854", "good: AURC 0.0312"]


def test_without_errors_the_axes_have_a_height():
    assert plots.risk_coverage(score=[1, 2], correct=[1, 1]).get_ylim() == (0, 1)
