"""How far a band of n inliers can move an AUROC at most, whatever the scores are.

The conservative AUROC is 1 minus the mean, over the outliers, of the false-positive rate k/n corrected to b_{k+1}. The
mean of the corrections b_{k+1} - k/n is at most the least concave function above them at the mean rate, 1 - AUROC
(Jensen). Means over several outlier sets obey the same cap. A published correction above it was not made by that band.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def correction_cap(auroc: float, bound: NDArray[Any]) -> float:
    """Largest difference between an AUROC and its conservative bound by a boundary b_1 <= ... <= b_n.

    >>> correction_cap(0.5, np.array([0.5, 0.75, 1.0, 1.0]))  # at k/n = 1/2 the rate becomes b_3 = 1
    0.5
    """
    rate = np.arange(bound.size + 1) / bound.size
    added = np.append(bound, 1.0) - rate
    corner = concave_hull(rate, added)
    return float(np.interp(1 - auroc, rate[corner], added[corner]))


def concave_hull(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Points of the least concave function above y, x rising.

    >>> concave_hull(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 2.0, 1.0, 1.5])).tolist()
    [0, 1, 3]
    """
    kept: list[int] = []
    for i in range(x.size):
        while len(kept) > 1:
            a, b = kept[-2:]
            if (y[b] - y[a]) * (x[i] - x[a]) > (y[i] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return np.array(kept, dtype=np.intp)
