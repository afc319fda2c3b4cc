from __future__ import annotations

import numpy as np
import pytest

from caveat._rank_figures import clique_map, critical_difference_diagram, stack_bars
from caveat.stats import compare

NAMES = [f"method {i}" for i in range(21)]


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(1)
    return compare(rng.normal(size=21) * 0.8 + rng.normal(size=(30, 21)), methods=NAMES)


def boxes(figure):
    """Extents of all labels as they are drawn."""
    figure.draw_without_rendering()
    axes = figure.axes[0]
    texts = [text for text in [*axes.texts, *axes.get_yticklabels()] if text.get_text()]
    return {text.get_text(): text.get_window_extent() for text in texts}


@pytest.mark.parametrize("draw", ["plot_cd", "plot_cliques"])
def test_labels_of_21_methods_do_not_overlap_and_stay_inside(comparison, draw):
    figure = getattr(comparison, draw)()
    found = boxes(figure)
    page = figure.bbox
    labels = {name: box for text, box in found.items() for name in NAMES if name in text.split("  ")}
    assert set(labels) == set(NAMES)
    for box in labels.values():
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1
    listed = list(labels.values())
    assert not any(a.overlaps(b) for i, a in enumerate(listed) for b in listed[:i])


def test_every_tied_group_has_a_bar_at_its_ranks(comparison):
    figure = comparison.plot_cd()
    bars = [line for line in figure.axes[0].lines if line.get_linewidth() > 3]
    groups = [c for c in comparison.cliques if len(c) > 1]
    assert len(bars) == len(groups)
    drawn = sorted(tuple(line.get_xdata()) for line in bars)
    ranks = comparison.average_ranks
    expected = sorted((ranks[c[0]], ranks[c[-1]]) for c in groups)
    np.testing.assert_allclose(drawn, expected, atol=0.1)  # drawn a little wider, so that ends are seen


def test_clique_map_puts_dots_where_members_are():
    figure = clique_map(["a", "b", "c"], {"near": ["a", "c"], "far": ["b"]})
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [(line.get_xdata()[0], sorted(line.get_ydata())) for line in dots] == [(0, [0, 2]), (1, [1])]


def test_regimes_may_have_methods_of_their_own(comparison):
    few = compare([[1, 2]] * 6, methods=["method 3", "stranger"])
    figure = comparison.plot_cliques({"near": comparison, "far": few})
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["near", "far"]
    assert "stranger" not in [text.get_text() for text in figure.axes[0].get_yticklabels()]  # not in a top layer
    assert "methods in none of these groups are not shown" in figure.get_suptitle()


def test_equal_ranks_can_be_drawn():
    critical_difference_diagram({"a": 1.5, "b": 1.5}, [("a", "b")]).draw_without_rendering()


def test_bars_that_touch_arestack_barsed():
    # 1-3 and 2-4 touch, 5-6 fits beside the first
    assert stack_bars([(1, 3), (2, 4), (5, 6)]) == [0, 1, 0]
