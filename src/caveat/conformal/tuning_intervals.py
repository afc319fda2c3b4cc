r"""Bins and ease of difficulty intervals (O-CPA, O-PAC), chosen on a tuning split that calibration never sees.

The tuning split is halved at random: one half calibrates every candidate, the other judges it by T-SS, the signed R
squared of mean width on mean |error| over bins by ease (larger is better). Jang and Lee, "Quantifying and Improving
Adaptivity in Conformal Prediction through Input Transformations", algorithm 2, appendix B and section 6.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_count, as_kind, as_list, as_rng, as_vector, same_length
from caveat.conformal._bins import bin_means, equal_mass, signed_r2
from caveat.conformal.difficulty import EaseBins
from caveat.conformal.split_intervals import IntervalScore, SplitIntervals
from caveat.conformal.tuning import Tuned, best_of
from caveat.errors import CaveatWarning, InputError

__all__ = ["tune_difficulty_intervals"]


def tune_difficulty_intervals(
    y: ArrayLike,
    ease: Mapping[str, ArrayLike],
    alpha: float,
    *,
    rng: Rng,
    score: IntervalScore = "normalized",
    delta: float | None = None,
    bins: Iterable[int] = (10, 20, 30),
    judged_by: ArrayLike | None = None,
    judge_bins: int = 50,
    **columns: Any,
) -> Tuned:
    """The number of bins and the kind of ease that give the most adaptive difficulty intervals.

    A candidate with an infinite interval is chosen only if all have one, which happens where bins hold too few samples
    for ``alpha`` and ``delta``.

    Parameters
    ----------
    y
        Targets of the tuning split, shape (n,): for nothing but this choice.
    ease
        Name of a transformation (such as its strength) -> ease of each tuning sample under it.
    alpha
        Allowed error.
    rng
        Halves the tuning split.
    score, delta
        As for ``DifficultyIntervals``.
    bins
        Candidates.
    judged_by
        The ease by which T-SS bins; None: the one of the candidate.
    judge_bins
        How many bins T-SS has, at most one per sample.
    **columns
        ``mean``, ``scale``, ``lower``, ``upper`` as for ``SplitIntervals.calibrate``. The error of ``"cqr"``, which has
        no ``mean``, is taken from the middle of its quantiles.

    Returns
    -------
    Tuned
        The chosen ``bins`` and ``ease``; ``table`` maps (ease, bins) to T-SS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> useful, useless = rng.random(2000), rng.random(2000)
    >>> y = rng.normal(size=2000) * (1.2 - useful)
    >>> eases = {"useless": useless, "useful": useful}
    >>> tuned = tune_difficulty_intervals(y, eases, 0.1, rng=rng, score="absolute", judged_by=useful, mean=0 * y)
    >>> tuned.ease, tuned.bins
    ('useful', 10)
    """
    true, rng = as_vector(y, "y"), as_rng(rng)
    if true.size < 4:
        raise InputError(f"a tuning split must hold at least 4 samples, got {true.size}.")
    eases = {name: _as_ease(ease[name], true) for name in as_list(as_kind(ease, Mapping, "ease"), "ease")}
    judge = None if judged_by is None else _as_ease(judged_by, true)
    given = {name: as_vector(value, name) for name, value in columns.items() if value is not None}
    same_length(y=true, **given)
    order = rng.permutation(true.size)
    fit, new = np.sort(order[: true.size // 2]), np.sort(order[true.size // 2 :])
    first, second = ({name: values[rows] for name, values in given.items()} for rows in (fit, new))
    groups = min(as_count(judge_bins, "judge_bins"), new.size)
    table: dict[Any, float] = {}
    for name, count in product(eases, as_list(bins, "bins")):
        own = eases[name]
        # Nothing is promised here: every sample of the first half serves, those on the edges too.
        cut = EaseBins.cut(own[fit], count)
        intervals = SplitIntervals(score, alpha=alpha, delta=delta, unseen="all")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaveatWarning)  # a bin too small shows as an infinite width
            intervals.calibrate(true[fit], groups=cut.assign(own[fit]), **first)
        widths = intervals.predict(groups=cut.assign(own[new]), **second).widths
        if not np.isfinite(widths).all():
            table[name, count] = float("nan")
            continue
        middle = second["mean"] if "mean" in second else (second["lower"] + second["upper"]) / 2
        number = equal_mass((own if judge is None else judge)[new], groups)
        errors = bin_means(np.abs(true[new] - middle), number, groups)
        table[name, count] = float(signed_r2(errors, bin_means(widths, number, groups)))
    name, count = best_of(table, "t_ss")
    return Tuned(score, count, name, "t_ss", table)


def _as_ease(values: ArrayLike, true: NDArray[np.float64]) -> NDArray[np.float64]:
    ease = as_vector(values, "ease")
    same_length(y=true, ease=ease)
    return ease
