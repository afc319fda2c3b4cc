"""A promise: what is bounded, by how much, with which confidence, from how many rows, under which assumption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, final

__all__ = ["Promise", "percent_below"]

_SENTENCES = {
    "false alarms": "At most {bound} of in-distribution inputs are rejected",
    "errors among the accepted": "At most {bound} of the accepted answers are wrong",
    "expected loss": "The expected loss is at most {bound}",
    "abstentions": "At most {bound} of the rows are left without an answer",
    "coverage": "Prediction sets hold the true class in at least {bound} of cases",
}


@final
@dataclass(frozen=True)
class Promise:
    """One promise as data; ``str`` is its sentence.

    Parameters
    ----------
    what
        What is bounded: a rate above (false alarms, errors among the accepted, abstentions, expected
        loss) or below (coverage).
    bound
        The promised share; of the expected loss, in units of the loss.
    confidence
        Probability over calibration sets that the bound holds; None: it holds on average over calibration sets.
    n
        How many calibration rows it rests on.
    method, assumption
        How it was made, and what must be true for it to hold.
    remedy
        Empty where the promise is made; otherwise nothing is promised, and this says what would be needed.
    calibrated_at
        Day of the calibration; empty where that was not recorded.
    splits
        Role -> SHA-256 of the rows that had it (training, calibration), where they were recorded.

    Examples
    --------
    >>> print(Promise("coverage", 0.9, None, 500, "split conformal", "exchangeable rows"))
    Prediction sets hold the true class in at least 90 % of cases, on average over calibration sets (n = 500 calibration
    rows).
    """

    what: Literal["false alarms", "errors among the accepted", "abstentions", "expected loss", "coverage"]
    bound: float
    confidence: float | None
    n: int
    method: str
    assumption: str
    remedy: str = ""
    calibrated_at: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether anything is promised."""
        return not self.remedy

    @property
    def explained(self) -> str:
        """The sentence with its assumption."""
        return f"{self} It assumes that {self.assumption}." if self.holds and self.assumption else str(self)

    def to_dict(self) -> dict[str, Any]:
        """The promise as plain values, for machines, with its sentence."""
        return vars(self) | {"splits": dict(self.splits)} | {"holds": self.holds, "sentence": str(self)}

    def __str__(self) -> str:
        share = f"{self.bound:.4g}" if self.what == "expected loss" else f"{percent_below(self.bound)} %"
        if self.remedy:
            return f"Nothing can be promised about {self.what} at {share}. {self.remedy}"
        how = (
            "on average over calibration sets"
            if self.confidence is None
            else f"with {percent_below(self.confidence)} % confidence"
        )
        rows = f"n = {self.n} calibration rows" + (f", {self.calibrated_at}" if self.calibrated_at else "")
        return f"{_SENTENCES[self.what].format(bound=share)}, {how} ({rows})."


def percent_below(value: float, digits: int = 4) -> str:
    """A share in percent with as many digits as it takes not to round it up to 100.

    >>> percent_below(0.9), percent_below(0.90012), percent_below(1 - 1e-6), percent_below(1.0)
    ('90', '90.01', '99.9999', '100')
    """
    while float(text := f"{100 * value:.{digits}g}") >= 100 and value < 1:
        digits += 1
    return text
