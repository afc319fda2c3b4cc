"""A threshold that accepts, with the share it accepts and what it promises."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, final

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
    abstention
        What holds of the share that is not accepted; None where no such promise was asked for.
    loss
        Of ``control_risk``: average loss of the calibration rows at the chosen lambda, or at the largest one where none
        can be promised; coverage is then the share of rows with a loss of at most the promised one. Else None.

    Examples
    --------
    >>> from caveat.conformal import threshold_for_risk
    >>> doubt = [i / 1000 for i in range(1000)]
    >>> result = threshold_for_risk(score=doubt, correct=[d < 0.8 for d in doubt], risk=0.1, delta=0.05)
    >>> round(result.threshold, 3), round(result.coverage.value, 3)
    (0.871, 0.871)
    """

    threshold: float
    coverage: Estimate
    promise: Promise
    abstention: Promise | None = None
    loss: float | None = None

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Every promise that was asked for, also those that cannot be made."""
        return (self.promise,) if self.abstention is None else (self.promise, self.abstention)

    @property
    def holds(self) -> bool:
        """Whether everything that was asked for is promised."""
        return all(promise.holds for promise in self.promises)

    @property
    def confidence(self) -> float | None:
        """Probability that all promises hold together, at least: their allowed failures add up. None: on average."""
        levels = [promise.confidence for promise in self.promises if promise.confidence is not None]
        return 1 - sum(1 - level for level in levels) if len(levels) == len(self.promises) else None

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, for machines; a threshold that is not finite is None."""
        return {
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "coverage": asdict(self.coverage),
            "promises": [promise.to_dict() for promise in self.promises],
            "holds": self.holds,
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        sentences = [str(promise) for promise in self.promises]
        if len(sentences) > 1 and self.holds and self.confidence is not None:
            sentences.append(f"Both hold together with {100 * self.confidence:.4g} % confidence.")
        if self.loss is not None and self.holds:
            sentences.insert(0, f"Use lambda = {self.threshold:.6g} (average loss {self.loss:.4g}).")
        elif self.threshold != -math.inf and self.loss is None:
            sentences.insert(0, f"Accept below {self.threshold:.6g} ({100 * self.coverage.value:.1f} % of rows).")
        return " ".join(sentences)
