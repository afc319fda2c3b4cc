"""Paths of a stream without end in bounded memory. What is kept depends on the rows alone, not on their batches."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat.drift.risk_monitor import confidence_sequence

__all__ = ["PeakPath", "SharePath"]

STRETCHES = 150  # of a stream of which a figure shows the lowest and the highest value
PLACES = 120  # along the labels at which the share is kept


@final
class PeakPath:
    """The lowest and the highest value of each stretch of a stream, so that a figure misses no peak.

    Stretches are 1, 2, 4, ... rows long. When there are more than ``STRETCHES``, each two neighbors become one.

    Examples
    --------
    >>> path = PeakPath()
    >>> path.add(0, np.sin(np.arange(1000)))
    >>> rows, values = path.points()
    >>> len(rows), rows[:3], rows[-1], round(max(values), 4)
    (252, [1, 3, 6], 1000, 1.0)
    """

    def __init__(self) -> None:
        self._length = 1  # rows of a stretch
        self._stretches: list[tuple[int, int, float, int, float]] = []  # number, row and value: lowest, highest
        self._ends: tuple[int, float, int, float] | None = None  # row and value: first, last

    def add(self, first: int, values: NDArray[np.float64]) -> None:
        """The next values; ``first`` is how many rows the stream had before them."""
        if not values.size:
            return
        last = first + values.size - 1
        start = self._ends[:2] if self._ends is not None else (first, float(values[0]))
        while last // self._length - start[0] // self._length >= STRETCHES:
            self._merge()
        self._ends = (*start, last, float(values[-1]))
        for number in range(first // self._length, last // self._length + 1):
            begin = max(number * self._length, first)
            part = values[begin - first : (number + 1) * self._length - first]
            low, high = (0, 0) if part.size == 1 else (int(part.argmin()), int(part.argmax()))
            self._append((number, begin + low, float(part[low]), begin + high, float(part[high])))

    def _append(self, stretch: tuple[int, int, float, int, float]) -> None:
        if not self._stretches or self._stretches[-1][0] != stretch[0]:
            self._stretches.append(stretch)
            return
        number, low_row, low, high_row, high = self._stretches[-1]  # of equal values the earlier one stays
        if stretch[2] < low:
            low_row, low = stretch[1:3]
        if stretch[4] > high:
            high_row, high = stretch[3:]
        self._stretches[-1] = (number, low_row, low, high_row, high)

    def _merge(self) -> None:
        self._length *= 2
        stretches, self._stretches = self._stretches, []
        for number, *extremes in stretches:
            self._append((number // 2, *extremes))  # type: ignore[arg-type]

    def points(self) -> tuple[list[int], list[float]]:
        """Rows, counted from 1, and their values: the extremes of each stretch, the first row and the last."""
        if self._ends is None:
            return [], []
        first_row, first, last_row, last = self._ends
        points = {first_row: first, last_row: last}
        for _, low_row, low, high_row, high in self._stretches:
            points[low_row], points[high_row] = low, high
        rows = sorted(points)
        return [row + 1 for row in rows], [points[row] for row in rows]

    def state(self) -> dict[str, Any]:
        """What changes as rows arrive, as plain values."""
        return {"length": self._length, "stretches": [list(stretch) for stretch in self._stretches],
                "ends": None if self._ends is None else list(self._ends)}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> Self:
        """Go on from a ``state``."""
        self._length = int(state["length"])
        self._stretches = [(int(n), int(i), float(low), int(j), float(high)) for n, i, low, j, high
                           in state["stretches"]]  # fmt: skip
        ends = state["ends"]
        self._ends = None if ends is None else (int(ends[0]), float(ends[1]), int(ends[2]), float(ends[3]))
        return self


@final
class SharePath:
    """How many labels so far were hits (errors, or sets that miss the true class), at ``PLACES`` places along the way.

    Parameters
    ----------
    alpha
        The interval of the share holds at all places at once with probability 1 - alpha.

    Examples
    --------
    >>> path = SharePath(alpha=0.05)
    >>> path.add(np.arange(300) % 10 == 0)
    >>> labels, hits, lower, upper = path.points()
    >>> labels[:2], labels[-1], hits[-1], round(lower[-1], 3), round(upper[-1], 3)
    ([4, 8], 300, 30, 0.048, 0.164)
    """

    def __init__(self, *, alpha: float) -> None:
        self.alpha = alpha
        self.n = self.hits = 0
        self._step = 1  # labels from one place to the next
        self._places: list[tuple[int, int]] = []  # labels, hits
        self._intervals: dict[int, tuple[float, float]] = {}  # of the places shown before: one takes a millisecond

    def add(self, hits: NDArray[np.bool_]) -> None:
        """The next labels: which of them are hits."""
        total = self.n + hits.size
        while total // self._step > PLACES:
            self._step *= 2
            self._places = [place for place in self._places if place[0] % self._step == 0]
        places = np.arange(self.n - self.n % self._step + self._step, total + 1, self._step)
        counts = self.hits + np.cumsum(hits)[places - self.n - 1] if places.size else places
        self._places += zip(places.tolist(), counts.tolist(), strict=True)
        self.n, self.hits = total, self.hits + int(hits.sum())

    def points(self) -> tuple[list[int], list[int], list[float], list[float]]:
        """Labels, hits among them, and the interval of their share at each place; the last place is now."""
        places = dict(self._places) | ({self.n: self.hits} if self.n else {})
        new = [n for n in places if n not in self._intervals]
        if new:
            ends = confidence_sequence([places[n] for n in new], new, alpha=self.alpha)
            self._intervals.update(zip(new, zip(*(end.tolist() for end in ends), strict=True), strict=True))
        self._intervals = {n: self._intervals[n] for n in places}
        lower, upper = ([interval[end] for interval in self._intervals.values()] for end in (0, 1))
        return list(places), list(places.values()), lower, upper

    def state(self) -> dict[str, Any]:
        """What changes as labels arrive, as plain values."""
        return {"n": self.n, "hits": self.hits, "step": self._step, "places": [list(place) for place in self._places]}

    def restore(self, state: dict[str, Any]) -> Self:
        """Go on from a ``state``."""
        self.n, self.hits, self._step = int(state["n"]), int(state["hits"]), int(state["step"])
        self._places = [(int(n), int(hits)) for n, hits in state["places"]]
        self._intervals = {}
        return self
