from __future__ import annotations

import numpy as np
import pytest

from caveat import plots
from caveat.stats import compare

NAMES = [f"method {i}" for i in range(21)]


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(1)
    return compare(rng.normal(size=21) * 0.8 + rng.normal(size=(30, 21)), methods=NAMES)


@pytest.mark.parametrize("draw", [plots.critical_difference, plots.clique_map])
def test_labels_of_21_methods_do_not_overlap_and_stay_inside(comparison, draw):
    ax = draw(comparison)
    ax.figure.draw_without_rendering()
    page = ax.figure.bbox
    labels = {
        name: text.get_window_extent()
        for text in [*ax.texts, *ax.get_yticklabels()]
        for name in NAMES
        if name in text.get_text().split("  ")
    }
    assert set(labels) == set(NAMES)
    for box in labels.values():
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1
    listed = list(labels.values())
    assert not any(a.overlaps(b) for i, a in enumerate(listed) for b in listed[:i])


def test_every_tied_group_has_a_bar_at_its_ranks(comparison):
    bars = [line for line in plots.critical_difference(comparison).lines if line.get_linewidth() > 3]
    groups = [c for c in comparison.cliques if len(c) > 1]
    assert len(bars) == len(groups)
    drawn = sorted(tuple(line.get_xdata()) for line in bars)
    ranks = comparison.average_ranks
    expected = sorted((ranks[c[0]], ranks[c[-1]]) for c in groups)
    np.testing.assert_allclose(drawn, expected, atol=0.1)  # drawn a little wider, so that ends are seen


def test_equal_ranks_can_be_drawn():
    tied = compare([[1, 2], [2, 1]] * 3, methods=["a", "b"])
    assert set(tied.average_ranks.values()) == {1.5}
    plots.critical_difference(tied).figure.draw_without_rendering()
