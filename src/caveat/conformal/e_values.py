r"""Conformal e-values: evidence that can be averaged over splits, seeds and scores, however dependent they are.

$$ e_j = (n + 1)\, \frac{1\{s_j \ge t\}}{1 + \#\{i : a_i \ge t\}}, \qquad
   t = \min\Big\{ t : \frac{m}{n + 1} \cdot \frac{1 + \#\{i : a_i \ge t\}}{\#\{j : s_j \ge t\}} \le q \Big\} $$

for n calibration scores a and m test scores s, t running over all of them. Over the inliers among the test points these
e-values sum to at most m on average, and so do averages of several such vectors. Bashari, Epstein, Romano and Sesia,
"Derandomized novelty detection with FDR control via conformal e-values", NeurIPS 2023, arXiv:2302.07294.

Selection by e-values (e-BH) keeps the false discovery rate at or below q under any dependence:

$$ \hat k = \max\{ k : e_{[k]} \ge m / (q k) \}, \qquad \text{select the } \hat k \text{ largest} $$

Wang and Ramdas, "False discovery rate control with e-values", JRSS B 84(3), 2022, arXiv:2009.02824.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_comparable, as_level, as_vector, check_each
from caveat.conformal.p_values import p_values
from caveat.conformal.selection import select_outliers
from caveat.errors import InputError

__all__ = ["e_values", "select_by_e_values"]


def e_values(*, calibration: ArrayLike, test: ArrayLike, q: float) -> NDArray[np.float64]:
    """Conformal e-values of test scores against calibration scores. Large means stranger than the calibration data.

    Parameters
    ----------
    calibration
        Nonconformity of inliers, shape (n,); larger is stranger.
    test
        Nonconformity, shape (m,); m = 0 gives no e-value.
    q
        Sets the cut t, not a promise. With the q of ``select_by_e_values``, one vector selects what Benjamini-Hochberg
        selects; for the average over several splits a smaller one leaves more room.

    Returns
    -------
    array of shape (m,)
        One e-value per test score, at least 0.

    Examples
    --------
    The average over two calibration sets keeps what both say; no other correction is needed.

    >>> rng = np.random.default_rng(0)
    >>> test = np.append(rng.normal(size=8), [5, 6])
    >>> runs = [e_values(calibration=rng.normal(size=500), test=test, q=0.1) for _ in range(2)]
    >>> select_by_e_values(np.mean(runs, axis=0), q=0.2).nonzero()[0]
    array([8, 9])
    """
    inliers, scores = as_vector(calibration, "calibration", allow_infinite=True), as_comparable(test, "test")
    if scores.ndim != 1:
        raise InputError(f"test must be a vector, got shape {scores.shape}.")
    level, n, m = as_level(q, "q"), inliers.size, scores.size
    chosen = select_outliers(p_values(calibration=inliers, test=scores), level)
    if not chosen.any():
        return np.zeros(m)
    # t may lie below the chosen test scores, down to a calibration score: only then is it a stopping time, which looks
    # at the scores below t alone, and the sum over the inliers at most m.
    ordered, lowest = np.sort(inliers), scores[chosen].min()
    others = scores[~chosen].max() if not chosen.all() else -np.inf
    cuts = np.append(ordered[(ordered > others) & (ordered <= lowest)], lowest)
    exceeding = n - np.searchsorted(ordered, cuts, side="left")
    allowed = (1 + exceeding) * m <= level * chosen.sum() * (n + 1) * (1 + 1e-12)
    return np.where(chosen, (n + 1) / (1 + exceeding[allowed].max()), 0.0)


def select_by_e_values(e_values: ArrayLike, q: float) -> NDArray[np.bool_]:
    """Which test points to select so that at most a share q of them is expected to be false, under any dependence.

    Parameters
    ----------
    e_values
        Shape (m,), 0 or larger, ``inf`` allowed: one e-value for each test point, or the average of several.
    q
        Allowed false discovery rate.

    Returns
    -------
    boolean array of shape (m,)
        Which test points are selected.

    Examples
    --------
    >>> select_by_e_values([60.0, 25.0, 3.0, 0.0], q=0.1)
    array([ True,  True, False, False])
    """
    evidence, level = as_comparable(e_values, "e_values"), as_level(q, "q")
    if evidence.ndim != 1:
        raise InputError(f"e_values must be a vector, got shape {evidence.shape}.")
    check_each(evidence, evidence >= 0, "e_values", "be 0 or larger")
    m = evidence.size
    largest_first = np.sort(evidence)[::-1]
    # 30 must pass the line 3 / 0.1: equal, though not always in floats.
    passing = np.flatnonzero(largest_first * (1 + 1e-12) >= m / (level * np.arange(1, m + 1)))
    if passing.size == 0:
        return np.zeros(m, dtype=np.bool_)
    return np.asarray(evidence >= largest_first[passing[-1]])
