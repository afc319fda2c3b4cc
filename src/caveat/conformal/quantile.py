r"""The one place where a calibration sample becomes a threshold, and what that threshold promises.

On average over calibration samples, the k-th smallest of n scores covers a new one with probability at least 1 - alpha:

$$ \hat q = \text{the } k\text{-th smallest of } n \text{ scores}, \qquad k = \lceil (n + 1)(1 - \alpha) \rceil $$

Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", Springer 2005, section 4.2. With confidence
1 - delta over the calibration sample (PAC):

$$ k = \min\{ k : P(\mathrm{Bin}(n, \alpha) \le n - k) \le \delta \} $$

The miscoverage of the k-th smallest is Beta(n - k + 1, k) where scores are continuous, and smaller where they tie.
Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", Annals of Mathematical Statistics 12, 1941; as
prediction sets: Vovk, "Conditional Validity of Inductive Conformal Predictors", ACML 2012, proposition 2b; Park,
Bastani, Matni and Lee, "PAC Confidence Sets for Deep Neural Networks", ICLR 2020.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from caveat._internal.checks import as_count, as_level, as_vector, exact_level
from caveat.conformal.grouped import GroupedScores
from caveat.errors import CaveatWarning, InputError

__all__ = ["Promise", "least_n", "pac_rank", "quantile", "quantile_rank", "too_few"]


def quantile_rank(n: int, alpha: float) -> int:
    """k = ceil((n+1)(1-alpha)), computed exactly: with floats it is off by one for one n in ten.

    ``alpha`` is read as the decimal or simple fraction that was meant: 1 - 0.9 is one tenth.

    >>> quantile_rank(9, 0.1), math.ceil((9 + 1) * (1 - 0.1)), quantile_rank(19, 0.3), math.ceil(20 * (1 - 0.3))
    (9, 9, 14, 14)
    """
    return math.ceil((n + 1) * (1 - exact_level(alpha, "alpha")))


def pac_rank(n: int, alpha: float, delta: float) -> int:
    """Which of n sorted scores is the PAC threshold; n + 1 if n is too small for alpha and delta.

    >>> pac_rank(100, alpha=0.1, delta=0.05), pac_rank(28, alpha=0.1, delta=0.05), pac_rank(29, alpha=0.1, delta=0.05)
    (96, 29, 29)
    """
    as_count(n, "n", least=0)
    alpha, most = float(exact_level(alpha, "alpha")), as_level(delta, "delta") * (1 + 1e-12)  # 1 - 0.95 is meant as .05
    # How many numbers of scores above the threshold have a tail of at most delta.
    allowed = bisect_left(range(n), True, key=lambda above: bool(bdtr(above, n, alpha) > most))
    return n + 1 - allowed


def least_n(alpha: float, delta: float) -> int:
    """The smallest n with a PAC threshold: (1 - alpha)^n <= delta."""
    n = max(1, math.floor(math.log(delta) / math.log1p(-alpha)))
    while pac_rank(n, alpha, delta) > n:
        n += 1
    return n


def quantile(scores: ArrayLike, alpha: float) -> float:
    """The threshold that a new exchangeable score stays at or below with probability at least 1 - alpha.

    ``inf``, with a warning, if n is too small for alpha (k > n): every score is then below it.

    Parameters
    ----------
    scores
        Calibration nonconformity, shape (n,); larger is stranger.
    alpha
        Allowed error.

    Returns
    -------
    float
        The k-th smallest score, k = ceil((n + 1)(1 - alpha)), or ``inf``.

    Examples
    --------
    >>> quantile([1, 2, 3, 4, 5, 6, 7, 8, 9], alpha=0.1), quantile([1, 2, 3, 4, 5, 6, 7, 8, 9], alpha=0.5)
    (9.0, 5.0)
    """
    values = as_vector(scores, "scores", allow_infinite=True)
    k = quantile_rank(values.size, alpha)
    if k > values.size:
        warnings.warn(too_few(values.size, alpha), CaveatWarning, stacklevel=2)
        return math.inf
    return float(np.partition(values, k - 1)[k - 1])


def too_few(n: int, alpha: float, delta: float | None = None) -> str:
    """The sentence for a threshold that n scores cannot give; empty if n is enough."""
    if (quantile_rank(n, alpha) if delta is None else pac_rank(n, alpha, delta)) <= n:
        return ""
    least = math.ceil(1 / exact_level(alpha, "alpha")) - 1 if delta is None else least_n(alpha, delta)
    confidence = "" if delta is None else f" with confidence {1 - delta:g}"
    return (
        f"n = {n} is too small for alpha = {alpha}{confidence}: the threshold is infinite. Calibrate on {least} "
        "samples or more."
    )


@final
@dataclass(frozen=True)
class Promise:
    """Miscoverage at most alpha: on average (``delta`` None), or with probability 1 - delta.

    With groups, 1 - delta is the probability for each group by itself, or, ``joint``, for all of them at once.
    """

    alpha: float
    delta: float | None = None
    joint: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_level(self.alpha, "alpha"))
        if self.delta is not None:
            object.__setattr__(self, "delta", as_level(self.delta, "delta"))
        elif self.joint:
            raise InputError("joint=True shares delta among the groups, and delta is None. Give delta.")

    def among(self, scores: GroupedScores) -> Self:
        """The promise of each group: where it is joint, delta is shared equally by the groups that have scores."""
        if not self.joint or self.delta is None:
            return self
        return replace(self, delta=self.delta / max(1, int((scores.sizes > 0).sum())), joint=False)

    def scope(self, groups: int) -> str:
        """The sentence for what a confidence about several groups means; empty where there is none to explain."""
        if self.delta is None or groups < 2:
            return ""
        if self.joint:
            return f"The confidence {1 - self.delta:g} holds for all {groups} groups at once."
        return f"The confidence {1 - self.delta:g} holds for each of {groups} groups by itself, not for all at once."

    def rank(self, n: int) -> int:
        """Which of n sorted calibration scores is the threshold; more than n: none of them."""
        return quantile_rank(n, self.alpha) if self.delta is None else pac_rank(n, self.alpha, self.delta)

    def kept_by(self, scores: GroupedScores, *, by_group: bool) -> tuple[float, str]:
        """The least level that a group is promised, and a sentence where a group is too small."""
        sizes = [int(n) for n in scores.sizes]
        level = 1 - self.alpha if self.delta is not None else min(min(1.0, self.rank(n) / (n + 1)) for n in sizes)
        sentences = {n: too_few(n, self.alpha, self.delta) for n in set(sizes)}
        small = [g for g, n in enumerate(sizes) if sentences[n]]
        sentence = sentences[sizes[small[0]]] if small else ""
        if not small or not by_group:
            return level, sentence
        names = ", ".join(str(scores.names[g]) for g in small[:5]) + (", ..." if len(small) > 5 else "")
        return level, f"{len(small)} of {len(sizes)} groups ({names}) are too small: {sentence}"
