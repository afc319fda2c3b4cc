"""Row ranges, the unit of work, and the fixed binary tree in which their results are merged.

Both depend on the data and on ``rows_per_task`` alone. So the same numbers are added in the same order whatever the
number of workers, and a range that is computed again after a worker died changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, final

from caveat._internal.checks import as_count

__all__ = ["Range", "Tree", "default_rows", "merge_in_tree", "row_ranges"]

T = TypeVar("T")
Range = tuple[int, int]  # first row, and the row after the last

_TASK_BYTES = 64 * 2**20  # a range takes long enough that sending it costs nothing
_MOST_TASKS = 1024  # and its statistics, often a matrix, are small beside its rows


def default_rows(n: int, row_bytes: int) -> int:
    """Rows of a range where nobody says: 64 MiB, more where that would make over 1,024 ranges.

    >>> default_rows(10**6, row_bytes=2**10), default_rows(10**9, row_bytes=3072)
    (65536, 976563)
    """
    return max(1, _TASK_BYTES // max(1, row_bytes), -(-n // _MOST_TASKS))


def row_ranges(n: int, rows_per_task: int) -> list[Range]:
    """Ranges that cover n rows.

    >>> row_ranges(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    step = as_count(rows_per_task, "rows_per_task")
    return [(start, min(start + step, n)) for start in range(0, n, step)]


@final
class Tree(Generic[T]):
    """Merges values in a fixed binary tree while they come in, in order; holds one value per level.

    Pairs are merged, then pairs of pairs, and so on; a value without a partner moves up as it is.

    Examples
    --------
    >>> tree = Tree(lambda one, other: f"({one}{other})")
    >>> for letter in "abcde":
    ...     tree.add(letter)
    >>> tree.root()
    '(((ab)(cd))e)'
    """

    def __init__(self, merge: Callable[[T, T], T]) -> None:
        self._merge = merge
        self._subtrees: list[tuple[int, T]] = []  # (level, value), the level falls from left to right

    def add(self, value: T) -> None:
        """Take in the next value."""
        level = 0
        while self._subtrees and self._subtrees[-1][0] == level:
            value = self._merge(self._subtrees.pop()[1], value)
            level += 1
        self._subtrees.append((level, value))

    def root(self) -> T:
        """The merged value of all, at least one."""
        *rest, (_, value) = self._subtrees
        for _, left in reversed(rest):
            value = self._merge(left, value)
        return value


def merge_in_tree(values: list[T], merge: Callable[[T, T], T]) -> T:
    """The root of a tree over values that are all there: what a backend of one's own can call with its futures.

    Parameters
    ----------
    values
        At least one value, in the order of the ranges.
    merge
        Merges two neighbors into one.

    Returns
    -------
    object
        The merged value.

    Examples
    --------
    >>> merge_in_tree(list("abcde"), lambda one, other: f"({one}{other})")
    '(((ab)(cd))e)'
    """
    tree = Tree(merge)
    for value in values:
        tree.add(value)
    return tree.root()
