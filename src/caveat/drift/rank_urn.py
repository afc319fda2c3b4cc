r"""Rank urn: streaming p-values that stay independent and uniform for ever, whatever the size of the calibration set.

Sort the n calibration scores. They leave n + 1 gaps; $m_j$ counts the stream so far in gap j, $t = \sum_j m_j$. A new
score that falls into gap j gets

$$ p = \frac{\sum_{i > j} (1 + m_i) + U (1 + m_j)}{n + 1 + t}, \qquad U \sim U(0, 1), $$

and then $m_j$ grows by one. If calibration rows and stream are exchangeable, the p-values are independent and uniform:
the ranks of uniform spacings follow a Polya urn. P-values against a fixed calibration set are not: they depend on each
other through that set, and a martingale on them raises false alarms.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_comparable, as_count, as_vector, check_shape
from caveat._internal.streams import stream

__all__ = ["RankUrn"]

_FINE = 1024  # gaps whose weights are summed into one: a single point costs two short sums instead of one over n
_FEW = 16  # points; fewer are cheaper one by one
_TAGS = 2**32  # random tags are whole numbers, so that place + tag stays exact in a float


@final
class RankUrn:
    """P-values of a stream against calibration scores and all earlier points, in memory of the calibration set.

    Equal scores are ordered by random tags. The random numbers of point t depend on ``seed`` and t alone, so a replay
    gives the same p-values, in batches of any size.

    Parameters
    ----------
    calibration
        Calibration scores, shape (n,); larger is stranger. Rows that neither trained nor chose the score.
    seed
        Seed of the tags and of U.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> urn = RankUrn(rng.normal(size=100), seed=1)
    >>> p = urn.update(rng.normal(size=5000))
    >>> round(float(p.mean()), 1), round(float(p.var()), 3)
    (0.5, 0.083)
    >>> bool(urn.update([9.0])[0] < 0.05)
    True
    """

    def __init__(self, calibration: ArrayLike, *, seed: int = 0) -> None:
        self.calibration = np.sort(as_vector(calibration, "calibration", allow_infinite=True).astype(np.float64))
        self.seed = as_count(seed, "seed", least=0)
        self._values, place = np.unique(self.calibration, return_inverse=True)
        tags = stream(self.seed, "tags of calibration scores").integers(_TAGS, size=place.size)
        self._places = np.sort(place + tags / _TAGS)
        self._starts = np.searchsorted(self._places, np.arange(self._values.size + 1))  # gap before each value
        self._key = int.from_bytes(hashlib.sha256(f"rank urn {self.seed}".encode()).digest()[:16], "little")
        self.row = 0  # points so far, over all restarts: the counter of the random numbers
        self.restart()

    def restart(self) -> None:
        """Forget the stream so far, but not which random numbers were used."""
        n = self.calibration.size
        self._weights = np.zeros(-(-(n + 1) // _FINE) * _FINE, dtype=np.int64)
        self._weights[: n + 1] = 1
        self._coarse = self._weights.reshape(-1, _FINE).sum(axis=1)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Points of the stream since the last restart in each of the n + 1 gaps; the first gap is below all scores."""
        return self._weights[: self.calibration.size + 1] - 1

    @property
    def t(self) -> int:
        """Points since the last restart."""
        return int(self._coarse.sum()) - self.calibration.size - 1

    def update(self, scores: ArrayLike) -> NDArray[np.float64]:
        """P-values (m,) of the next m scores; small means stranger than before.

        Parameters
        ----------
        scores
            Next scores of the stream, shape (m,).

        Returns
        -------
        array of shape (m,)
            The p-values.
        """
        values = np.atleast_1d(as_comparable(scores, "scores"))
        check_shape(values, "scores", 1, "vector")
        gaps, uniform = self._draw(values)
        if values.size <= _FEW:
            return np.array([self._one(int(gap), u) for gap, u in zip(gaps, uniform, strict=True)])
        p_values = np.empty(values.size)
        # balances the sum over gaps and the pairs in a block
        size = min(max(256, int(2 * np.sqrt(self._weights.size))), np.iinfo(np.int16).max)
        for start in range(0, values.size, size):
            block = slice(start, start + size)
            p_values[block] = self._many(gaps[block], uniform[block])
        return p_values

    def _draw(self, values: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Gap and U of each of the next points."""
        generator = np.random.Philox(key=self._key, counter=self.row)
        draws = generator.random_raw(4 * values.size).reshape(-1, 4)  # four numbers a counter
        self.row += values.size
        uniform = ((draws[:, 0] >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # never 0; 1 after rounding
        place = _places(self._values, values)
        gaps = self._starts[place]  # a new value stands before the next larger one; an equal value among its equals
        tied = np.flatnonzero(self._values[np.minimum(place, self._values.size - 1)] == values)
        if tied.size:
            tags = (draws[tied, 1] >> np.uint64(32)) / _TAGS
            gaps[tied] = _places(self._places, place[tied] + tags)
        return gaps, uniform

    def _one(self, gap: int, uniform: float) -> float:
        coarse = gap // _FINE
        above = self._coarse[coarse + 1 :].sum() + self._weights[gap + 1 : (coarse + 1) * _FINE].sum()
        p_value = (above + uniform * self._weights[gap]) / self._coarse.sum()
        self._weights[gap] += 1
        self._coarse[coarse] += 1
        return float(p_value)

    def _many(self, gaps: NDArray[np.intp], uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        total = int(self._coarse.sum())
        above = total - np.cumsum(self._weights)[gaps]
        here = self._weights[gaps]
        earlier_above, earlier_here = _earlier(gaps)
        above += earlier_above
        here += earlier_here
        np.add.at(self._weights, gaps, 1)
        np.add.at(self._coarse, gaps // _FINE, 1)
        return np.asarray((above + uniform * here) / (total + np.arange(gaps.size)))

    def state(self) -> dict[str, Any]:
        """What changes as points arrive: ``row`` and ``counts``."""
        return {"row": self.row, "counts": self.counts}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state.

        Parameters
        ----------
        state
            What ``state`` returned.
        """
        self.restart()
        self.row = as_count(state["row"], "row", least=0)
        self._weights[: self.calibration.size + 1] += np.asarray(state["counts"], dtype=np.int64)
        self._coarse = self._weights.reshape(-1, _FINE).sum(axis=1)


def _places(ordered: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.intp]:
    """``np.searchsorted`` for values in any order; in their own order they are found twice as fast."""
    order = np.argsort(values)
    places = np.empty(values.size, dtype=np.intp)
    places[order] = np.searchsorted(ordered, values[order])
    return places


def _earlier(gaps: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How many earlier points of a block lie in a higher gap than each, and how many in the same.

    >>> [counts.tolist() for counts in _earlier(np.array([5, 2, 5, 2, 1]))]
    [[0, 1, 0, 2, 4], [0, 0, 1, 1, 0]]
    """
    places, order = np.arange(gaps.size), np.argsort(gaps, kind="stable")
    rank = np.empty(gaps.size, dtype=np.int16)  # short numbers are compared faster; a block has few hundred points
    rank[order] = places
    above = np.greater(rank[:, None], rank)
    above &= _triangle(gaps.size)
    ordered = gaps[order]
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    here = np.empty(gaps.size, dtype=np.intp)
    here[order] = places - np.maximum.accumulate(np.where(starts, places, 0))
    # One point has at most as many above it as came before it; the shortest numbers are added fastest.
    kind = np.uint8 if gaps.size <= 256 else np.int16
    return above.view(np.uint8).sum(axis=0, dtype=kind), here


@lru_cache(maxsize=4)
def _triangle(size: int) -> NDArray[np.bool_]:
    """Which of two points came first."""
    return np.ascontiguousarray(np.tri(size, k=-1, dtype=bool).T)
