r"""The weighted conformal quantile: for a test point that is drawn otherwise than the calibration sample.

$$ \hat q = \min\{ a_i : w + \textstyle\sum_{j : a_j > a_i} w_j \le \alpha\,(w + \sum_j w_j) \} $$

with $w_j$ the likelihood ratio of test to calibration distribution at sample j, and w that of the test point itself.
Tibshirani, Barber, Candes and Ramdas, "Conformal Prediction Under Covariate Shift", NeurIPS 2019, lemma 3.
"""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np
from numpy.typing import ArrayLike

from caveat._internal.checks import as_number, as_vector, check_each, exact_level, same_length
from caveat.errors import CaveatWarning, InputError

__all__ = ["weighted_quantile"]


def weighted_quantile(scores: ArrayLike, alpha: float, *, weights: ArrayLike, test_weight: float) -> float:
    """The threshold that a new score of weight ``test_weight`` stays at or below with probability at least 1 - alpha.

    ``inf``, with a warning, if the test point weighs more than alpha of the total: nothing can be excluded then. With
    equal weights it is ``quantile``.

    Parameters
    ----------
    scores
        Calibration nonconformity, shape (n,); larger is stranger.
    alpha
        Allowed error.
    weights
        Likelihood ratio of each calibration sample, shape (n,), in the order of ``scores``.
    test_weight
        Likelihood ratio of the test point.

    Examples
    --------
    >>> weighted_quantile([3.0, 1.0, 2.0], 0.25, weights=[1.0, 1.0, 1.0], test_weight=1.0)
    3.0
    >>> weighted_quantile([3.0, 1.0, 2.0], 0.25, weights=[0.1, 5.0, 5.0], test_weight=1.0)
    2.0
    """
    values, weight = as_vector(scores, "scores", allow_infinite=True), as_vector(weights, "weights")
    same_length(scores=values, weights=weight)
    own, allowed = (
        as_number(test_weight, "test_weight", least=0, most=sys.float_info.max),
        float(exact_level(alpha, "alpha")),
    )
    check_each(weight, weight >= 0, "weights", "be 0 or larger")
    largest = max(weight.max(), own)
    if largest == 0:
        raise InputError("at least one weight must be positive, got only zeros: no score says anything about the test.")
    order = np.argsort(values, kind="stable")
    # Only ratios count: weights of 1e308 have no finite sum. above[i] is the mass above score i, test point included.
    mass = np.append(own, weight[order][::-1]) / largest
    above = np.cumsum(mass)[-2::-1]
    place = int(np.count_nonzero(above > allowed * mass.sum() * (1 + 1e-12)))  # sums are off by rounding
    if place == values.size:
        warnings.warn(
            f"the test point holds more than alpha = {alpha} of all weight: the threshold is infinite.",
            CaveatWarning,
            stacklevel=2,
        )
        return math.inf
    return float(values[order[place]])
