from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat._internal.ranges import Tree, default_rows, merge_in_tree, row_ranges


@given(n=st.integers(1, 500), step=st.integers(1, 600))
def test_ranges_cover_every_row_once_in_order(n, step):
    ranges = row_ranges(n, step)
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(n))


@given(n=st.integers(1, 10**12), row_bytes=st.integers(1, 10**6))
def test_there_are_at_most_1024_ranges_by_default(n, row_bytes):
    assert -(-n // default_rows(n, row_bytes)) <= 1024


def by_levels(values):
    """Literal reference: merge neighbors, level by level; one without a partner moves up."""
    while len(values) > 1:
        values = [f"({a}{b})" for a, b in zip(values[::2], values[1::2], strict=False)] + values[len(values) // 2 * 2 :]
    return values[0]


@given(st.integers(1, 200))
def test_the_tree_is_that_of_merging_level_by_level(n):
    values = [str(i) for i in range(n)]
    assert merge_in_tree(values, lambda one, other: f"({one}{other})") == by_levels(values)


@given(st.integers(1, 300))
def test_the_tree_holds_one_value_per_level(n):
    tree = Tree(max)
    for value in range(n):
        tree.add(value)
        assert len(tree._subtrees) <= (value + 1).bit_length()
    assert tree.root() == n - 1


def test_no_rows_per_task_is_refused():
    with pytest.raises(InputError, match="rows_per_task must be a whole number"):
        row_ranges(5, 0)
