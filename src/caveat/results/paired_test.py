"""Two scores on the same samples, and how a p-value is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from caveat.results.estimate import Estimate

__all__ = ["PairedTest", "p_text"]


def p_text(value: float, *, cell: bool = False) -> str:
    """A p-value for a sentence, or for a cell of a table. A tail that underflows is small, not nothing: never 0.

    Examples
    --------
    >>> p_text(0.00942), p_text(0.0), p_text(0.00942, cell=True), p_text(0.0, cell=True)
    ('p = 0.00942', 'p < 1e-300', '0.009', '<0.001')
    """
    if cell:
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return "p < 1e-300" if value < 1e-300 else f"p = {value:.3g}"


@final
@dataclass(frozen=True)
class PairedTest:
    """Two scores on the same samples: the difference of a metric, first minus second, and whether it is real.

    Parameters
    ----------
    metric
        Name of the metric.
    first, second
        Its value for each score.
    difference
        First minus second, with its interval.
    p_value
        Two-sided p-value of "both have the same value".

    Examples
    --------
    >>> print(PairedTest("auroc", 0.91, 0.88, Estimate(0.03, 0.01, 0.05, level=0.95, n=1000, method="DeLong"), 0.003))
    auroc 0.910 against 0.880: 0.030 [0.010, 0.050] (95 % DeLong, n = 1000), p = 0.003
    """

    metric: str
    first: float
    second: float
    difference: Estimate
    p_value: float

    def __str__(self) -> str:
        difference, caveat = replace(self.difference, caveat=""), self.difference.caveat
        text = f"{self.metric} {self.first:.3f} against {self.second:.3f}: {difference}, {p_text(self.p_value)}"
        return text + (f". {caveat}" if caveat else "")
