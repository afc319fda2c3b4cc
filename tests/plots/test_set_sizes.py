from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, plots
from caveat.plots.set_sizes import size_groups
from caveat.results import PredictionSets


def sets_of(*sizes, classes=None):
    member = np.arange(classes or max(sizes)) < np.array(sizes)[:, None]
    return PredictionSets(member, alpha=0.1, level=0.9)


def heights(bars):
    return [bar.get_height() for bar in bars]


def test_bars_by_hand(legend):
    ax = plots.set_sizes(sets_of(0, 1, 1, 3))
    assert heights(ax.containers[0]) == [0.25, 0.5, 0, 0.25]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1", "2", "3"]
    assert legend(ax) == ["mean size 1.25, coverage promised 90.0 %"]


def test_methods_stand_side_by_side_and_differ_without_color(legend):
    ax = plots.set_sizes({"lac": sets_of(1, 1, 2), "aps": sets_of(1, 2, 2)})
    first, second = ax.containers
    assert first[1].get_x() + first[1].get_width() <= second[1].get_x()
    assert first[0].get_hatch() != second[0].get_hatch()
    assert [text.split(":")[0] for text in legend(ax)] == ["lac", "aps"]


@pytest.mark.parametrize("largest", [0, 1, 12, 13, 64, 65, 1000])
def test_groups_hold_every_size_once(largest):
    groups = size_groups(largest)
    assert [size for first, last in groups for size in range(first, last + 1)] == list(range(largest + 1))
    assert len(groups) <= 13


def test_shares_of_large_sets_add_up_to_one():
    rng = np.random.default_rng(0)
    ax = plots.set_sizes(sets_of(*rng.integers(0, 300, size=100), classes=300))
    assert sum(heights(ax.containers[0])) == pytest.approx(1)


@pytest.mark.parametrize("sets", [{}, {"a": None}, PredictionSets(np.zeros((0, 3), dtype=bool), alpha=0.1, level=0.9)])
def test_what_are_no_sets_is_refused(sets):
    with pytest.raises(InputError, match="non-empty PredictionSets"):
        plots.set_sizes(sets)
