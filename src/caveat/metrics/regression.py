r"""Prediction intervals: are they wide where the error is large, and covered as promised at every difficulty?

T-CV and T-SS with width in place of set size and |error| in place of rank, the R squared and Kendall's tau of width
against error: Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input
Transformations", section 6.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_count, as_kind, as_vector, same_length
from caveat.conformal._bins import bin_means, equal_mass, signed_r2
from caveat.errors import CaveatWarning
from caveat.metrics.adaptivity import t_cv, t_ss
from caveat.results import Intervals

__all__ = ["interval_adaptivity", "width_error_r2", "width_error_tau"]


def width_error_r2(*, widths: ArrayLike, errors: ArrayLike, bins: int = 50) -> float:
    """Signed R squared of mean |error| on mean width over bins of equal mass by width. Larger is better, 1 at most.

    NaN, with a warning, where every interval has the same width.

    Parameters
    ----------
    widths
        Width of each interval, shape (n,).
    errors
        Error of each prediction, shape (n,); the sign does not matter.
    bins
        Number of bins.

    Returns
    -------
    float
        Between -1 and 1, or NaN.

    Examples
    --------
    >>> round(width_error_r2(widths=[1, 2, 3, 4], errors=[0.1, -0.2, 0.3, 0.4], bins=4), 6)
    1.0
    """
    wide, error = _rounded(as_vector(widths, "widths")), np.abs(as_vector(errors, "errors"))
    as_count(bins, "bins", most=same_length(widths=wide, errors=error))
    number = equal_mass(wide, bins)
    r2 = float(signed_r2(bin_means(wide, number, bins), bin_means(error, number, bins)))
    if np.isnan(r2):
        warnings.warn("R squared of width and error is undefined: all widths are equal.", CaveatWarning, stacklevel=2)
    return r2


def width_error_tau(*, widths: ArrayLike, errors: ArrayLike) -> float:
    """Kendall's tau-b of width and |error|: do wider intervals come with larger errors? Larger is better.

    NaN, with a warning, where every interval has the same width. Kendall, Biometrika 30, 1938.

    Parameters
    ----------
    widths
        Width of each interval, shape (n,).
    errors
        Error of each prediction, shape (n,); the sign does not matter.

    Returns
    -------
    float
        Between -1 and 1, or NaN.

    Examples
    --------
    >>> round(width_error_tau(widths=[1, 2, 3, 4], errors=[0.1, 0.3, 0.2, -0.4]), 4)
    0.6667
    """
    from scipy.stats import kendalltau

    wide = _rounded(as_vector(widths, "widths", allow_infinite=True))
    error = np.abs(as_vector(errors, "errors"))
    same_length(widths=wide, errors=error)
    tau = float(kendalltau(wide, error).statistic)
    if np.isnan(tau):
        warnings.warn("Kendall's tau is undefined: all widths are equal.", CaveatWarning, stacklevel=2)
    return tau


def interval_adaptivity(
    intervals: Intervals, *, y: ArrayLike, mean: ArrayLike, ease: ArrayLike | None = None, bins: int = 50
) -> dict[str, float]:
    """Coverage, mean width and every adaptivity metric of prediction intervals, by name.

    Where an interval is infinite the mean width is, too, and what needs finite widths is NaN.

    Parameters
    ----------
    intervals
        What was predicted.
    y, mean
        True values and point predictions, shape (n,).
    ease
        Ease of each sample, for T-CV and T-SS; without it they are left out.
    bins
        Number of bins.

    Returns
    -------
    dict
        Keys ``coverage``, ``width``, ``R2`` (:func:`width_error_r2`) and ``tau`` (:func:`width_error_tau`); with
        ``ease`` also ``T-CV`` and ``T-SS``.

    Examples
    --------
    >>> intervals = Intervals(np.array([0.0, 0.0]), np.array([2.0, 6.0]), alpha=0.1, level=0.9)
    >>> values = interval_adaptivity(intervals, y=[1.5, 7.0], mean=[1.0, 3.0], ease=[0.9, 0.1], bins=2)
    >>> values["coverage"], values["width"], values["T-SS"], values["tau"]
    (0.5, 4.0, 1.0, 1.0)
    """
    true, guess = as_vector(y, "y"), as_vector(mean, "mean")
    same_length(intervals=as_kind(intervals, Intervals, "intervals"), y=true, mean=guess)
    error = np.abs(true - guess)
    widths, covered = intervals.widths, intervals.covers(y)
    finite = bool(np.isfinite(widths).all())
    varies = finite and bool(np.ptp(_rounded(widths)) > 0)
    values = {
        "coverage": float(covered.mean()),
        "width": float(widths.mean()),
        "R2": width_error_r2(widths=widths, errors=error, bins=bins) if varies else float("nan"),
        "tau": width_error_tau(widths=widths, errors=error) if varies else float("nan"),
    }
    if ease is not None:
        values["T-CV"] = t_cv(covered=covered, ease=ease, alpha=intervals.alpha, bins=bins)
        values["T-SS"] = t_ss(sizes=widths, ranks=error, ease=ease, bins=bins) if finite else float("nan")
    return values


def _rounded(widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Widths rounded to a billionth of the largest, so that upper end minus lower end of equal widths is equal too.

    A method with one width per bin of difficulty has many ties, and neither their order nor their number may depend on
    how the ends were rounded.
    """
    largest = np.abs(widths[np.isfinite(widths)]).max(initial=0.0)
    if largest == 0:
        return widths
    step = 1e-9 * largest
    return np.asarray(np.rint(widths / step) * step)
