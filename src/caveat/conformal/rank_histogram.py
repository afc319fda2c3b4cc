r"""Benjamini-Hochberg and Storey over any number of rows, from a histogram of ranks that parts add up to.

Against n calibration scores a conformal p-value is a function of one rank, the number k of calibration scores at or
above the test score, so it takes n + 1 values:

$$ p = \frac{k + 1}{n + 1}, \qquad k = 0, \dots, n $$

The counts of the ranks are all that the selection needs: with $C_k$ rows of rank k or less among m, the largest k with
$(k + 1) / (n + 1) \le q\,C_k / (\hat\pi_0 m)$ is the same cut as from all p-values together. Histograms of parts, on
many machines for instance, are added with ``+``; calibration-conditional p-values are a function of the rank as well.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_comparable, as_kind, as_level, as_vector, check_each, check_known
from caveat.conformal.boundary import boundary
from caveat.conformal.selection import inliers_among, last_passing
from caveat.errors import InputError

__all__ = ["RankHistogram"]


@final
@dataclass(frozen=True, eq=False)
class RankHistogram:
    """How many test scores have 0, 1, ..., n calibration scores at or above them. Histograms of parts are added.

    Parameters
    ----------
    counts
        Shape (n + 1,), whole numbers.
    calibration
        Fingerprint of the calibration scores; only histograms of the same ones can be added.

    Examples
    --------
    >>> calibration, parts = np.arange(99), ([5, 300, 400], [50, 500])
    >>> whole = sum((RankHistogram.of(calibration=calibration, test=part) for part in parts), start=None)
    >>> whole.n, whole.m, whole.largest_p(q=0.1)
    (99, 5, 0.01)

    Each part then selects its rows by itself: those with a p-value up to that one.

    >>> from caveat.conformal import p_values
    >>> [(p_values(calibration=calibration, test=part) <= 0.01).tolist() for part in parts]
    [[False, True, True], [False, True]]
    """

    counts: NDArray[np.int64]
    calibration: str

    def __post_init__(self) -> None:
        counts = np.asarray(as_vector(self.counts, "counts"))
        check_each(counts, (counts >= 0) & (counts % 1 == 0), "counts", "be whole numbers from 0 on")
        if counts.size < 2:
            raise InputError(f"counts must have an entry more than there are calibration scores, got {counts.size}.")
        object.__setattr__(self, "counts", np.asarray(self.counts).astype(np.int64))
        as_kind(self.calibration, str, "calibration", what="the fingerprint that RankHistogram.of gives")

    @classmethod
    def of(cls, *, calibration: ArrayLike, test: ArrayLike) -> RankHistogram:
        """The histogram of test scores (m,), possibly none, against calibration scores (n,); larger is stranger.

        Parameters
        ----------
        calibration
            Calibration scores, shape (n,); larger is stranger.
        test
            Test scores, shape (m,), possibly none.

        Returns
        -------
        RankHistogram
            The counts of the n + 1 ranks.
        """
        ordered = np.sort(as_vector(calibration, "calibration", allow_infinite=True))
        scores = as_comparable(test, "test")
        if scores.ndim != 1:
            raise InputError(f"test must be a vector, got shape {scores.shape}.")
        ranks = ordered.size - np.searchsorted(ordered, scores, side="left")
        fingerprint = hashlib.sha256((ordered + 0.0).tobytes()).hexdigest()[:16]  # -0.0 and 0.0 are one score
        return cls(np.bincount(ranks, minlength=ordered.size + 1).astype(np.int64), fingerprint)

    @property
    def n(self) -> int:
        """How many calibration scores there are."""
        return self.counts.size - 1

    @property
    def m(self) -> int:
        """How many test scores were counted."""
        return int(self.counts.sum())

    def __add__(self, other: RankHistogram | None) -> RankHistogram:
        if other is None:
            return self
        if not isinstance(other, RankHistogram):
            return NotImplemented
        if (self.n, self.calibration) != (other.n, other.calibration):
            raise InputError(
                f"rank histograms of different calibration scores cannot be added (n = {self.n} and {other.n}, "
                f"{self.calibration} and {other.calibration}). Use the same calibration scores for all parts."
            )
        return RankHistogram(self.counts + other.counts, self.calibration)

    __radd__ = __add__  # sum() starts from nothing

    def p_values(self, delta: float | None = None) -> NDArray[np.float64]:
        """The p-value of each rank, shape (n + 1,): marginal, or with a delta calibration-conditional.

        Parameters
        ----------
        delta
            None, or the allowed chance over calibration sets that the p-values are not valid.

        Returns
        -------
        array of shape (n + 1,)
            The p-values by rank.
        """
        if delta is None:
            return np.arange(1, self.n + 2) / (self.n + 1)
        return np.append(boundary(self.n, as_level(delta, "delta")), 1.0)

    def largest_p(
        self,
        q: float,
        method: Literal["bh", "storey"] = "bh",
        *,
        threshold: float = 0.5,
        delta: float | None = None,
    ) -> float:
        """The largest p-value that is selected, 0 if none is: select the rows whose p-value is at most this.

        The selection is that of ``select_outliers`` from the p-values of all parts together.

        Parameters
        ----------
        q
            Allowed false discovery rate.
        method, threshold
            ``"bh"`` or ``"storey"`` with its lambda, as in ``select_outliers``.
        delta
            None: marginal p-values; else calibration-conditional ones, as in ``select_outliers_from``.

        Returns
        -------
        float
            Between 0 and 1.
        """
        level, cut = as_level(q, "q"), as_level(threshold, "threshold")
        check_known(method, ("bh", "storey"), "selection method")
        p, m = self.p_values(delta), self.m
        inliers = inliers_among(m, int(self.counts[p > cut].sum()), cut) if method == "storey" else float(m)
        if m == 0:
            return 0.0
        # A rank that no row has cannot be the last one selected: its line is that of the rank before it.
        seen = self.counts > 0
        return max(0.0, last_passing(p[seen], np.cumsum(self.counts)[seen], level, inliers))
