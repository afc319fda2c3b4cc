from __future__ import annotations

import pytest

from caveat import InputError, plots
from caveat.stats import compare


@pytest.fixture(scope="module")
def comparison():
    return compare([[1, 2, 3], [2, 1, 3]] * 6, methods=["knn", "msp", "energy"])


def test_dots_are_where_members_are(comparison):
    assert comparison.cliques == (("knn", "msp"), ("energy",))
    ax = plots.clique_map(comparison)
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [(line.get_xdata()[0], list(line.get_ydata())) for line in dots] == [(0, [0, 1]), (1, [2])]
    assert not ax.patches  # rows are shaded for regimes only


def test_regimes_may_have_methods_of_their_own(comparison):
    other = compare([[1, 2]] * 6, methods=["new", "energy"])
    ax = plots.clique_map(comparison, {"near": comparison, "far": other})
    assert [text.get_text() for text in ax.get_xticklabels()] == ["near", "far"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["knn", "msp", "new"]  # energy leads nowhere
    assert "1 method in no top layer" in ax.get_title()
    assert len(ax.patches) == 3  # each row is in half of the two columns


def test_no_regimes_are_refused(comparison):
    with pytest.raises(InputError, match="at least one comparison"):
        plots.clique_map(comparison, {})
