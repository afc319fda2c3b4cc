"""A number with its interval, and the exact interval of a share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from scipy.special import betaincinv

from caveat._internal.checks import as_count, as_level
from caveat._internal.html import small_table

__all__ = ["Estimate", "proportion_interval"]


@final
@dataclass(frozen=True)
class Estimate:
    """A number with its interval, the confidence of the interval, and how it was made.

    Parameters
    ----------
    value, lower, upper
        The estimate and its interval.
    level
        Confidence of the interval, 1 - delta.
    n
        How many samples it rests on.
    method
        How the interval was made.
    caveat
        A warning in one sentence, or empty.

    Examples
    --------
    >>> print(Estimate(0.91, 0.89, 0.93, level=0.95, n=1000, method="DeLong"))
    0.910 [0.890, 0.930] (95 % DeLong, n = 1000)
    """

    value: float
    lower: float
    upper: float
    level: float
    n: int
    method: str
    caveat: str = ""

    def overlaps(self, other: Estimate) -> bool:
        """Whether the two intervals share a point, so that the estimates cannot be told apart by them.

        Parameters
        ----------
        other
            Another estimate.

        Returns
        -------
        bool
            True where they overlap.
        """
        return self.lower <= other.upper and other.lower <= self.upper

    def __str__(self) -> str:
        interval = f"{self.value:.3f} [{self.lower:.3f}, {self.upper:.3f}]"
        made = f"({100 * self.level:g} % {self.method}, n = {self.n})"
        return f"{interval} {made}" + (f" {self.caveat}" if self.caveat else "")

    def _repr_html_(self) -> str:
        rows = [("value", f"{self.value:.4g}"), ("interval", f"{self.lower:.4g} to {self.upper:.4g}"),
                ("n", str(self.n))]  # fmt: skip
        return small_table(f"{100 * self.level:g} % {self.method}", rows, note=self.caveat)


def proportion_interval(hits: int, n: int, *, delta: float = 0.05) -> Estimate:
    """Share ``hits / n`` with its exact (Clopper-Pearson) interval of level at least 1 - delta.

    Parameters
    ----------
    hits, n
        Number of hits among n trials.
    delta
        Allowed failure of the interval.

    Returns
    -------
    Estimate
        ``value`` is the share, ``lower`` and ``upper`` its interval.

    Examples
    --------
    >>> print(proportion_interval(0, 100))
    0.000 [0.000, 0.036] (95 % Clopper-Pearson, n = 100)
    """
    n, delta = as_count(n, "n"), as_level(delta, "delta")
    hits = as_count(hits, "hits", least=0, most=n)
    lower = float(betaincinv(hits, n - hits + 1, delta / 2)) if hits > 0 else 0.0
    upper = float(betaincinv(hits + 1, n - hits, 1 - delta / 2)) if hits < n else 1.0
    return Estimate(hits / n, lower, upper, level=1 - delta, n=n, method="Clopper-Pearson")
