r"""McNemar's exact test: which of two models is right more often on the same rows?

Only the rows on which exactly one model is right can tell them apart. Where both are right equally often, the first is
the right one in each of these d rows with chance one half:

$$ p = \min\bigl(1,\; 2\,P(\mathrm{Bin}(d, 1/2) \le \min(d_1, d_2))\bigr) $$

McNemar, Psychometrika 12, 1947; Dietterich, "Approximate Statistical Tests for Comparing Supervised Classification
Learning Algorithms", Neural Computation 10(7), 1998, section 3.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from caveat._internal.checks import as_level, as_mask, same_length
from caveat.results import Estimate, PairedTest, proportion_interval

__all__ = ["mcnemar"]


def mcnemar(*, first: ArrayLike, second: ArrayLike, delta: float = 0.05) -> PairedTest:
    """Difference of the accuracy of two models on the same rows, by McNemar's exact test.

    The interval is exact given the number of rows on which one model is right: the Clopper-Pearson interval of the
    share that the first one wins. It excludes 0 where the p-value is below ``delta``. Without such a row the difference
    is 0 and the interval that of the chance of one, which the n rows leave.

    Parameters
    ----------
    first, second
        Shape (n,): whether the answer of each model to the same n rows is right.
    delta
        Allowed failure of the interval of the difference.

    Returns
    -------
    PairedTest
        ``difference`` is the accuracy of the first model minus that of the second, with its interval.

    Examples
    --------
    >>> first = [1, 1, 1, 1, 1, 1, 1, 0, 1, 0]
    >>> print(mcnemar(first=first, second=[1, 0, 0, 0, 0, 0, 0, 1, 1, 0]))  # 6 rows against 1
    accuracy 0.800 against 0.300: 0.500 [-0.110, 0.695] (95 % McNemar, n = 10), p = 0.125
    """
    delta = as_level(delta, "delta")
    a, b = as_mask(first, "first"), as_mask(second, "second")
    n = same_length(first=a, second=b)
    wins, losses = int((a & ~b).sum()), int((b & ~a).sum())
    differing = wins + losses
    if differing:
        share = proportion_interval(wins, differing, delta=delta)
        lower, upper = ((2 * end - 1) * differing / n for end in (share.lower, share.upper))
        p_value, caveat = min(1.0, 2 * float(bdtr(min(wins, losses), differing, 0.5))), ""
    else:
        upper = 1 - delta ** (1 / n)
        lower, p_value, caveat = -upper, 1.0, "Both models are right on the same rows."
    difference = Estimate((wins - losses) / n, lower, upper, level=1 - delta, n=n, method="McNemar", caveat=caveat)
    return PairedTest("accuracy", float(np.mean(a)), float(np.mean(b)), difference, p_value)
