r"""Does the test file agree with a promise? One rule for the decision of an evaluation and the check of a guard.

A rate that is bounded above is contradicted if so many hits are rare at the promised bound itself,

$$ P(Bin(m, bound) \ge k) \le 0.025, $$

with k hits among m test rows. A promise that holds is called contradicted in at most 2.5 % of the draws of a test file,
because the true rate is the bound or less. The coverage of prediction sets is promised on average over calibration
sets: it is contradicted if the number covered is below the central 95 % region of its beta-binomial law
(``coverage_verdict``), which is so in at most 2.5 % of the draws of calibration and test file. A rate that is better
than promised contradicts nothing. Where not even the worst count would be rare, nothing is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from scipy.special import betainc

from caveat.metrics import coverage_verdict
from caveat.results import Estimate, Promise

__all__ = ["LEVEL", "MARKS", "Judgment", "judge_coverage", "judge_rate", "rate_is_high"]

LEVEL = 0.025  # on the one side that contradicts a promise
Outcome = Literal["agrees", "contradicted", "not judged", "not promised"]
MARKS: dict[Outcome, str] = {"agrees": "✓", "contradicted": "✗", "not judged": "–", "not promised": "!"}
_CONTRADICTED = "Contradicted by the test rows: calibration and test are not alike"


@final
@dataclass(frozen=True)
class Judgment:
    """What the test rows say about one promise, as a sentence too; an outcome that needs none has no sentence.

    >>> made = Promise("false alarms", 0.05, 0.95, 1000, "exact", "exchangeable rows")
    >>> judge_rate(Estimate(0.08, 0.06, 0.1, 0.95, 1000, "Clopper-Pearson"), made).outcome
    'contradicted'
    """

    outcome: Outcome
    reason: str = ""

    @property
    def mark(self) -> str:
        """✓ agrees as chance allows, ✗ contradicted, – promised but not judged, ! not promised."""
        return MARKS[self.outcome]


def rate_is_high(hits: int, n: int, bound: float) -> bool:
    """Whether so many hits, or more, are rare at a rate of ``bound``.

    >>> rate_is_high(82, 1000, 0.05), rate_is_high(55, 1000, 0.05), rate_is_high(0, 0, 0.05)
    (True, False, False)
    """
    return hits > 0 and float(betainc(hits, n - hits + 1, bound)) <= LEVEL  # P(Bin(n, bound) >= hits)


def judge_rate(measured: Estimate | None, promise: Promise) -> Judgment:
    """The judgment on a promise that bounds a rate from above."""
    if not promise.holds:
        return Judgment("not promised")
    if measured is None:
        return Judgment("not judged", "Not judged: no test row is accepted.")
    if not rate_is_high(measured.n, measured.n, promise.bound):
        return _too_few(measured.n)
    if rate_is_high(round(measured.value * measured.n), measured.n, promise.bound):
        failing = 0 if promise.confidence is None else 100 * (1 - promise.confidence)
        chance = f", or this calibration is one of the {failing:.3g} % for which the promise fails" if failing else ""
        return Judgment("contradicted", f"{_CONTRADICTED}{chance}.")
    return Judgment("agrees")


def judge_coverage(measured: Estimate | None, promise: Promise, *, alpha: float) -> Judgment:
    """The judgment on the promise of split conformal sets that were calibrated on ``promise.n`` rows."""
    if not promise.holds:
        return Judgment("not promised")
    if measured is None:
        return Judgment("not judged", "Not judged: the test rows have no labels.")
    hits = round(measured.value * measured.n)
    judged = coverage_verdict(hits, measured.n, n_calibration=promise.n, alpha=alpha, delta=2 * LEVEL)
    if judged.least == 0:
        return _too_few(measured.n)
    return Judgment("contradicted", f"{_CONTRADICTED}.") if judged.verdict == "below" else Judgment("agrees")


def _too_few(n: int) -> Judgment:
    rows = "1 test row is" if n == 1 else f"{n:,} test rows are"
    return Judgment("not judged", f"Not judged: {rows} too few to contradict it.")
