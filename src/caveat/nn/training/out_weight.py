r"""Lambda, the weight of the outliers' density: where known data and the bounds around noise are furthest apart.

$$ \hat\lambda = \arg\max_\lambda \; \frac1n \sum_i \sigma\bigl(r(x_i) - \log\lambda\bigr)
   - \frac1m \sum_j \sigma\bigl(\overline r(z_j) - \log\lambda\bigr) $$

with r the log-ratio of the two densities, x held-back inliers, z outliers, and the bar an upper bound over a box. The
sigmoid is the weight b/(1+b) that CCU gives to its classifier, so the difference is that of a mean confidence and a
mean guaranteed one, up to a factor. Log-ratios of images spread over hundreds and the sigmoid rises within ten: the
weight is nearly 0 or 1, and for such a score the guaranteed area under the ROC curve is (1 + difference) / 2. The area
itself would not do: for a sure classifier it is the same for every lambda but for rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_vector

__all__ = ["choose_log_out_weight", "gate_gap"]


def gate_gap(log_out_weight: float, *, inlier: ArrayLike, outlier_upper: ArrayLike) -> float:
    """Mean weight of the classifier on inliers minus the mean guaranteed one on outliers. Higher is better, at most 1.

    Parameters
    ----------
    log_out_weight
        log lambda.
    inlier
        Log-ratios (n,) of inliers, with lambda = 1.
    outlier_upper
        Upper bounds (m,) of the log-ratio of outliers, with lambda = 1.

    Examples
    --------
    >>> gate_gap(0.0, inlier=[50.0, 0.0], outlier_upper=[-50.0])
    0.75
    """
    known, strange = as_vector(inlier, "inlier"), as_vector(outlier_upper, "outlier_upper")
    return _gap(log_out_weight, known, strange)


def choose_log_out_weight(*, inlier: ArrayLike, outlier_upper: ArrayLike) -> float:
    """log lambda with the largest gap, of those halfway between two neighbouring values.

    Parameters
    ----------
    inlier, outlier_upper
        As in ``gate_gap``. Of inliers that the densities were fitted to, log-ratios are too high: hold some back.

    Examples
    --------
    >>> choose_log_out_weight(inlier=[300.0, 200.0, 100.0, -90.0], outlier_upper=[-100.0, -80.0, 0.0])
    50.0
    """
    known, strange = as_vector(inlier, "inlier"), as_vector(outlier_upper, "outlier_upper")
    values = np.sort(np.concatenate([known, strange]))
    middles = (values[1:] + values[:-1]) / 2
    return float(middles[np.argmax([_gap(middle, known, strange) for middle in middles])])


def _gap(cut: float, known: NDArray[np.float64], strange: NDArray[np.float64]) -> float:
    from scipy.special import expit

    return float(expit(known - cut).mean() - expit(strange - cut).mean())
