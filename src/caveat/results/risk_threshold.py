"""A threshold that accepts, with the share it accepts and what it promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from caveat.results.estimate import Estimate
from caveat.results.promise import Promise

__all__ = ["RiskThreshold"]


@final
@dataclass(frozen=True)
class RiskThreshold:
    """Rows are accepted while their score is below ``threshold``; ``-inf``: nothing can be promised.

    Of ``control_risk``: the chosen lambda; ``inf``: no lambda can be promised.

    Parameters
    ----------
    threshold
        Accept below it.
    coverage
        Share of calibration rows that are accepted, with its interval.
    promise
        What holds among the accepted.
    loss
        Of ``control_risk``: average loss of the calibration rows at the chosen lambda, or at the largest one where none
        can be promised; coverage is then the share of rows with a loss of at most the promised one. Else None.
    """

    threshold: float
    coverage: Estimate
    promise: Promise
    loss: float | None = None

    def __str__(self) -> str:
        if self.loss is not None and self.promise.holds:
            return f"Use lambda = {self.threshold:.6g} (average loss {self.loss:.4g}). {self.promise}"
        if not self.promise.holds:
            return str(self.promise)
        return f"Accept below {self.threshold:.6g} ({100 * self.coverage.value:.1f} % of rows). {self.promise}"
