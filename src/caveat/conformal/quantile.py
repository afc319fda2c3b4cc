r"""The conformal quantile: the one place where a calibration sample becomes a threshold.

$$ \hat q = a_{(k)}, \qquad k = \lceil (n + 1)(1 - \alpha) \rceil $$

Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", Springer 2005, section 4.2.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike

from caveat._internal.checks import as_vector, exact_level
from caveat.errors import CaveatWarning

__all__ = ["quantile", "quantile_rank", "too_few"]


def quantile_rank(n: int, alpha: float) -> int:
    """k = ceil((n+1)(1-alpha)), computed exactly: with floats it is off by one for one n in ten.

    ``alpha`` is read as the decimal or simple fraction that was meant: 1 - 0.9 is one tenth.

    >>> quantile_rank(9, 0.1), math.ceil((9 + 1) * (1 - 0.1)), quantile_rank(19, 0.3), math.ceil(20 * (1 - 0.3))
    (9, 9, 14, 14)
    """
    return math.ceil((n + 1) * (1 - exact_level(alpha, "alpha")))


def quantile(scores: ArrayLike, alpha: float) -> float:
    """The threshold that a new exchangeable score stays at or below with probability at least 1 - alpha.

    ``inf``, with a warning, if n is too small for alpha (k > n): every score is then below it.

    Parameters
    ----------
    scores
        Calibration nonconformity, shape (n,); larger is stranger.
    alpha
        Allowed error.

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


def too_few(n: int, alpha: float) -> str:
    """The sentence for k > n; empty if n is enough."""
    if quantile_rank(n, alpha) <= n:
        return ""
    least = math.ceil(1 / exact_level(alpha, "alpha")) - 1
    return f"n = {n} is too small for alpha = {alpha}: the threshold is infinite. Calibrate on {least} samples or more."
