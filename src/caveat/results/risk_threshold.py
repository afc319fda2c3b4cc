"""A threshold that accepts, with the share it accepts and what it promises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from caveat.results.estimate import Estimate
from caveat.results.promise import Promise

__all__ = ["RiskThreshold"]


@final
@dataclass(frozen=True)
class RiskThreshold:
    """Rows are accepted while their score is below ``threshold``; ``-inf``: nothing can be promised.

    Parameters
    ----------
    threshold
        Accept below it.
    coverage
        Share of calibration rows that are accepted, with its interval.
    promise
        What holds among the accepted.
    """

    threshold: float
    coverage: Estimate
    promise: Promise

    def __str__(self) -> str:
        if self.threshold == -math.inf:
            return str(self.promise)
        return f"Accept below {self.threshold:.6g} ({100 * self.coverage.value:.1f} % of rows). {self.promise}"
