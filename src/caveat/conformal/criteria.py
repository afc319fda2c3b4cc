r"""The ten criteria of efficiency of a conformal predictor, from its p-values. Smaller is better.

| free of epsilon | at epsilon |
|---|---|
| S, sum of p-values: $\sum_y p^y$ | N, number of labels: $|\Gamma|$ |
| U, unconfidence: the second largest p | M, multiple: $1\{|\Gamma| > 1\}$ |
| F, fuzziness: $\sum_y p^y - \max_y p^y$ | E, excess: $(|\Gamma| - 1)^+$ |
| OU, observed unconfidence: $\max_{y \ne y_i} p^y$ | OM, observed multiple: $1\{|\Gamma \setminus y_i| > 0\}$ |
| OF, observed fuzziness: $\sum_{y \ne y_i} p^y$ | OE, observed excess: $|\Gamma \setminus y_i|$ |

with the set $\Gamma = \{y : p^y > \epsilon\}$ and the true label $y_i$. Equal U or F: the smaller credibility (mean
largest p) wins; equal M or E: the larger share of empty sets.

Vovk, Nouretdinov, Fedorova, Petej and Gammerman, "Criteria of Efficiency for Conformal Prediction", COPA 2016,
section 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["criteria"]


def criteria(
    p: NDArray[Any],
    *,
    labels: NDArray[np.intp] | None,
    epsilon: float | None,
    weights: NDArray[np.float64] | None = None,
) -> dict[str, float]:
    """Weighted means over the rows of p-values (n, C). Without labels no observed criterion, without epsilon no set."""

    def mean(values: NDArray[Any]) -> float:
        return float(np.average(values.astype(np.float64, copy=False), weights=weights))

    # Sums are float64 whatever p is; p itself stays, so that an epsilon rounded like it still ties with it.
    total, largest = p.sum(axis=1, dtype=np.float64), p.max(axis=1)
    second = np.partition(p, -2, axis=1)[:, -2] if p.shape[1] > 1 else np.zeros(p.shape[0])
    means = {"S": mean(total), "U": mean(second), "F": mean(total - largest), "credibility": mean(largest)}
    own = None if labels is None else np.take_along_axis(p, labels[:, None], axis=1)[:, 0]
    if labels is not None and own is not None:
        others = np.where(np.arange(p.shape[1]) == labels[:, None], -np.inf, p)
        best_other = others.max(axis=1) if p.shape[1] > 1 else np.zeros(p.shape[0])
        means |= {"OU": mean(best_other), "OF": mean(total - own)}
    if epsilon is None:
        return means
    size = np.count_nonzero(p > epsilon, axis=1)
    means |= {"N": mean(size), "M": mean(size > 1), "E": mean(np.maximum(size - 1, 0)), "empty": mean(size == 0)}
    if own is not None:
        wrong = size - (own > epsilon)
        means |= {"OM": mean(wrong > 0), "OE": mean(wrong)}
    return means
