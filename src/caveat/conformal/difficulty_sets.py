r"""Prediction sets and intervals with one threshold per difficulty bin: O-LAC, O-SAPS, O-CPA, O-PAC and the like.

$$ C(x) = \{ y : a(x, y) \le \hat q_b \}, \qquad b = \text{the difficulty bin of } x $$

Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input Transformations", algorithm 2
and section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_vector, same_length
from caveat._internal.params import check_params, count
from caveat.conformal._probabilities import ClassScores
from caveat.conformal.difficulty import cut_bins, ease_of
from caveat.conformal.nonconformity import Nonconformity
from caveat.conformal.split_intervals import SplitIntervals, interval_score
from caveat.conformal.split_sets import SplitSets
from caveat.errors import NotFittedError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results import Intervals, PredictionSets

__all__ = ["DifficultyIntervals", "DifficultySets"]


@final
@dataclass(eq=False)
class DifficultySets:
    """Prediction sets that cover within bins of equal difficulty, and so grow where samples are hard.

    A new sample is covered with probability 1 - alpha given the bin that it falls into, if it is exchangeable with the
    calibration samples; the same holds over all samples. ``calibrate(binning=...)`` says where the bins are cut. On
    other data: the bins are fixed, and all calibration samples of a bin calibrate it. On the calibration data itself
    (algorithm 2 of the paper): the bins depend on these data, and a sample on the edge of two bins calibrates neither,
    because the threshold of a bin that counts its own edge covers (k - 1) / m instead of k / (m + 1), at worst .05
    instead of .5. That costs one sample per edge. A new sample on an edge is compared with the calibration samples that
    tie there.

    Parameters
    ----------
    score
        Nonconformity of a label, as for ``SplitSets``: ``"lac"`` gives O-LAC, ``"saps"`` O-SAPS.
    alpha
        Allowed error.
    bins
        How many bins; the paper tunes among 10, 20 and 30 (``tune_difficulty``).
    source, delta
        As for ``SplitSets``.
    ease
        Maps outputs to the ease of each sample; the default reads ``outputs.ease_probs``.
    joint
        As for ``SplitSets``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(600, 3)) * rng.choice([1.0, 6.0], size=(600, 1))
    >>> labels = np.argmax(logits + rng.gumbel(size=(600, 3)), axis=1)
    >>> outputs, easy = Outputs(logits=logits, labels=labels), np.abs(logits).max(axis=1)
    >>> sets = DifficultySets("lac", bins=2).calibrate(outputs[:400], binning="calibration", ease=easy[:400])
    >>> sizes = sets.predict(outputs[400:], ease=easy[400:]).sizes
    >>> hard = easy[400:] < np.median(easy)
    >>> bool(sizes[hard].mean() > sizes[~hard].mean() + 0.5)
    True
    """

    score: str | Nonconformity | ClassScores = "lac"
    alpha: float = 0.1
    bins: int = count(20)
    source: ClassScores | None = None
    delta: float | None = None
    ease: Callable[[Outputs], ArrayLike] = ease_of
    joint: bool = False

    def __post_init__(self) -> None:
        check_params(self)
        self._sets()

    def calibrate(
        self,
        outputs: Outputs,
        rng: Rng | None = None,
        *,
        binning: Outputs | ArrayLike | Literal["calibration"],
        ease: ArrayLike | None = None,
    ) -> Self:
        """Cut the bins, then set one threshold per bin.

        Parameters
        ----------
        outputs
            Held-out outputs with labels.
        rng
            Randomizes aps, raps and saps.
        binning
            Where the bins are cut: other outputs, the ease of other samples, or ``"calibration"``: on these.
        ease
            Ease of the calibration samples, if already computed.
        """
        cut_on = self.ease(binning) if isinstance(binning, Outputs) else binning
        self.bins_, number, kept, self.empty_bins_ = cut_bins(self._ease(outputs, ease), cut_on, self.bins)
        chosen = outputs if kept.all() else outputs[np.flatnonzero(kept)]
        self.sets_ = replace(self._sets(), by=number[kept]).calibrate(chosen, rng)
        return self

    def predict(self, outputs: Outputs, rng: Rng | None = None, *, ease: ArrayLike | None = None) -> PredictionSets:
        """The labels whose nonconformity is at or below the threshold of the sample's bin.

        Parameters
        ----------
        outputs
            Outputs of n samples.
        rng
            Randomizes aps, raps and saps; None: u = 1.
        ease
            Ease of the samples, shape (n,); None: that of ``self.ease``.

        Returns
        -------
        PredictionSets
            ``member`` (n, C) says which labels are in each set.
        """
        groups = self._bin(outputs, ease)
        sets = self.sets_.predict(outputs, rng, groups=groups)
        return replace(sets, caveat=" ".join(filter(None, (sets.caveat, self.empty_bins_))))

    def p_values(
        self, outputs: Outputs, rng: Rng | None = None, *, ease: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """P-value of every label against the calibration samples of the same bin, shape (n, C).

        Parameters
        ----------
        outputs
            Outputs of n samples.
        rng
            Smooths the p-values, and randomizes aps, raps and saps; None: neither.
        ease
            Ease of the samples, shape (n,); None: that of ``self.ease``.

        Returns
        -------
        array of shape (n, C)
            The p-values.
        """
        groups = self._bin(outputs, ease)
        return self.sets_.p_values(outputs, rng, groups=groups)

    def _sets(self) -> SplitSets:
        # A bin that calibration left empty promises nothing, so that every label stays possible there.
        return SplitSets(
            self.score, alpha=self.alpha, source=self.source, delta=self.delta, unseen="all", joint=self.joint
        )

    def _bin(self, outputs: Outputs, ease: ArrayLike | None) -> NDArray[np.intp]:
        if not hasattr(self, "sets_"):
            raise NotFittedError("DifficultySets has no thresholds yet. Call calibrate(outputs, binning=...) first.")
        return self.bins_.assign(self._ease(outputs, ease))

    def _ease(self, outputs: Outputs, ease: ArrayLike | None) -> NDArray[np.float64]:
        demand(outputs, who="DifficultySets")
        values = as_vector(self.ease(outputs) if ease is None else ease, "ease")
        same_length(outputs=range(outputs.n), ease=values)
        return values


@final
@dataclass(eq=False)
class DifficultyIntervals:
    """Prediction intervals that cover within bins of equal difficulty.

    The promise, and what ``binning="calibration"`` means for it, are those of ``DifficultySets``.

    Parameters
    ----------
    score, alpha
        As for ``SplitIntervals``.
    bins
        Number of bins.
    delta, joint
        As for ``SplitIntervals``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> easy = rng.random(1000)
    >>> y = rng.normal(size=1000) * np.where(easy < 0.5, 5.0, 1.0)
    >>> intervals = DifficultyIntervals("absolute", bins=2)
    >>> intervals = intervals.calibrate(y[:800], ease=easy[:800], binning=easy[800:900], mean=np.zeros(800))
    >>> hard, easy = intervals.predict(ease=[0.1, 0.9], mean=[0.0, 0.0]).widths
    >>> bool(hard > 3 * easy)
    True
    """

    score: Literal["absolute", "normalized", "cqr"] = interval_score("normalized")
    alpha: float = 0.1
    bins: int = count(10)
    delta: float | None = None
    joint: bool = False

    def __post_init__(self) -> None:
        check_params(self)
        self._intervals()

    def calibrate(
        self, y: ArrayLike, *, ease: ArrayLike, binning: ArrayLike | Literal["calibration"], **columns: Any
    ) -> Self:
        """Cut the bins on the ease of other samples, or on that of the ``"calibration"`` samples, then calibrate each.

        Parameters
        ----------
        y
            Held-out targets, shape (n,).
        ease
            Ease of the same samples, shape (n,).
        binning
            Eases of other samples, or ``"calibration"``.
        **columns
            ``mean``, ``scale``, ``lower``, ``upper`` as for ``SplitIntervals.calibrate``.
        """
        self.bins_, number, kept, self.empty_bins_ = cut_bins(ease, binning, self.bins)
        columns = {"y": y} | {name: value for name, value in columns.items() if value is not None}
        vectors = {name: as_vector(value, name) for name, value in columns.items()}
        same_length(ease=number, **vectors)
        chosen = {name: column[kept] for name, column in vectors.items()}
        self.intervals_ = self._intervals().calibrate(chosen.pop("y"), groups=number[kept], **chosen)
        return self

    def predict(self, *, ease: ArrayLike, **columns: Any) -> Intervals:
        """The interval of each sample by the threshold of its bin.

        Parameters
        ----------
        ease
            Ease of the samples, shape (n,).
        **columns
            ``mean``, ``scale``, ``lower``, ``upper`` as for ``SplitIntervals.predict``.

        Returns
        -------
        Intervals
            ``lower`` and ``upper``, each of shape (n,).
        """
        if not hasattr(self, "intervals_"):
            raise NotFittedError("DifficultyIntervals has no thresholds yet. Call calibrate(y, ...) first.")
        intervals = self.intervals_.predict(groups=self.bins_.assign(ease), **columns)
        return replace(intervals, caveat=" ".join(filter(None, (intervals.caveat, self.empty_bins_))))

    def _intervals(self) -> SplitIntervals:
        # A bin that calibration left empty promises nothing, so that every value stays possible there.
        return SplitIntervals(self.score, alpha=self.alpha, delta=self.delta, unseen="all", joint=self.joint)
