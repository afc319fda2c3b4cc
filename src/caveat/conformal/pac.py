r"""PAC thresholds: miscoverage above alpha only with probability delta over the calibration sample.

$$ k = \min\{ k : P(\mathrm{Bin}(n, \alpha) \le n - k) \le \delta \} $$

The miscoverage of the k-th smallest of n calibration scores is Beta(n - k + 1, k) where scores are continuous, and
smaller where they tie. Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", Annals of Mathematical
Statistics 12, 1941; as prediction sets: Vovk, "Conditional Validity of Inductive Conformal Predictors", ACML 2012,
proposition 2b; Park, Bastani, Matni and Lee, "PAC Confidence Sets for Deep Neural Networks", ICLR 2020.
"""

from __future__ import annotations

import math

from scipy.special import bdtr

from caveat._internal.checks import as_count, as_level, exact_level

__all__ = ["pac_rank", "pac_too_few"]


def pac_rank(n: int, alpha: float, delta: float) -> int:
    """Which of n sorted scores is the PAC threshold; n + 1 if n is too small for alpha and delta.

    Examples
    --------
    >>> pac_rank(100, alpha=0.1, delta=0.05), pac_rank(28, alpha=0.1, delta=0.05), pac_rank(29, alpha=0.1, delta=0.05)
    (96, 29, 29)
    """
    as_count(n, "n", least=0)
    alpha, most = (
        float(exact_level(alpha, "alpha")),
        as_level(delta, "delta") * (1 + 1e-12),
    )  # 1 - 0.95 is one twentieth
    if n == 0 or bdtr(0, n, alpha) > most:
        return n + 1
    low, high = 0, n  # the largest number of scores left above the threshold whose tail is at most delta
    while low < high:
        middle = (low + high + 1) // 2
        if bdtr(middle, n, alpha) <= most:
            low = middle
        else:
            high = middle - 1
    return n - low


def pac_too_few(n: int, alpha: float, delta: float) -> str:
    """The sentence for a PAC threshold that n cannot give; empty if n is enough."""
    if pac_rank(n, alpha, delta) <= n:
        return ""
    least = max(1, math.floor(math.log(delta) / math.log1p(-alpha)))
    while pac_rank(least, alpha, delta) > least:
        least += 1
    return (
        f"n = {n} is too small for alpha = {alpha} with confidence {1 - delta:g}: the threshold is infinite. "
        f"Calibrate on {least} samples or more."
    )
