"""An estimated share with its exact interval."""

from __future__ import annotations

from scipy.special import betaincinv

from caveat._internal.checks import as_count, as_level
from caveat.errors import InputError
from caveat.results.estimate import Estimate

__all__ = ["proportion_interval"]


def proportion_interval(hits: int, n: int, *, delta: float = 0.05) -> Estimate:
    """Share ``hits / n`` with its exact (Clopper-Pearson) interval of level at least 1 - delta.

    Examples
    --------
    >>> print(proportion_interval(0, 100))
    0.000 [0.000, 0.036] (95 % Clopper-Pearson, n = 100)
    """
    n, hits, delta = as_count(n, "n"), as_count(hits, "hits", least=0), as_level(delta, "delta")
    if hits > n:
        raise InputError(f"hits must be at most n = {n}, got {hits}.")
    lower = float(betaincinv(hits, n - hits + 1, delta / 2)) if hits > 0 else 0.0
    upper = float(betaincinv(hits + 1, n - hits, 1 - delta / 2)) if hits < n else 1.0
    return Estimate(hits / n, lower, upper, level=1 - delta, n=n, method="Clopper-Pearson")
