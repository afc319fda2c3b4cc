"""Label queue: labels that come in any order are counted in the order of the answers.

Errors are often found sooner than right answers, or only doubtful answers are looked at. Whatever is counted in the
order in which labels come then shows too many errors at first. Here answers wait in a queue, in the order in which they
were given, and leave it from its front in windows: when all labels of the window are there, or when so many answers
have followed that the window is closed without those that are missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count

__all__ = ["LabelQueue"]


@final
class LabelQueue:
    """Answers that wait for their labels.

    Parameters
    ----------
    window
        Answers that leave the queue together; 1 is row by row.
    wait
        Answers after which a window is closed although labels are missing; None: it waits for all of them.

    Examples
    --------
    >>> queue = LabelQueue(wait=3)
    >>> queue.answered([10, 11, 12, 13])
    >>> queue.labeled({12: True, 11: False})
    >>> wrong, has_label = queue.release()  # three answers follow row 10: it leaves without a label
    >>> wrong.tolist(), has_label.tolist()
    ([False, False, True], [False, True, True])
    """

    def __init__(self, *, window: int = 1, wait: int | None = None) -> None:
        self.window, self.wait = as_count(window, "window"), None if wait is None else as_count(wait, "wait", least=0)
        self._rows: deque[int] = deque()
        self._labels: dict[int, bool] = {}

    def answered(self, rows: Iterable[int]) -> None:
        """The next answers, by number, in the order in which they were given.

        Parameters
        ----------
        rows
            Their numbers, each larger than the one before.
        """
        self._rows.extend(rows)

    def labeled(self, wrong: Mapping[int, bool]) -> None:
        """Labels of answers; those that come after their window was closed change nothing.

        Parameters
        ----------
        wrong
            Number of the answer -> whether it was wrong.
        """
        self._labels |= {row: bool(label) for row, label in wrong.items() if self._rows and row >= self._rows[0]}

    def release(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The answers that leave the queue now: whether each was wrong, and whether it has a label.

        Returns
        -------
        two arrays
            For ``RiskMonitor.update(wrong, has_label)``; an answer without a label is not wrong.
        """
        rows: list[int] = []
        while len(self._rows) >= self.window:
            closed = self.wait is not None and len(self._rows) - self.window >= self.wait
            if not closed and not all(row in self._labels for row in islice(self._rows, self.window)):
                break
            rows += [self._rows.popleft() for _ in range(self.window)]
        has_label = np.array([row in self._labels for row in rows], dtype=np.bool_)
        return np.array([self._labels.pop(row, False) for row in rows], dtype=np.bool_), has_label

    def state(self) -> dict[str, Any]:
        """What changes as answers and labels arrive, as plain values."""
        return {"rows": list(self._rows), "labels": [[row, wrong] for row, wrong in sorted(self._labels.items())]}

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Go on from a ``state``.

        Parameters
        ----------
        state
            What ``state`` returned.
        """
        self._rows = deque(map(int, state["rows"]))
        self._labels = {int(row): bool(wrong) for row, wrong in state["labels"]}
        return self
