r"""Risk monitor: is the live error rate above what was promised, by labels that come later?

Against "each answer is wrong with probability r at most" the monitor bets on larger error rates, mixed by a uniform
prior on [r, 1]. With k errors in t answers its capital is

$$ M_t(r) = \frac{1}{1 - r} \int_r^1 \Bigl(\frac{q}{r}\Bigr)^{k} \Bigl(\frac{1 - q}{1 - r}\Bigr)^{t - k} dq, $$

an incomplete beta function. A second bettor follows the recent error rate and bets nothing while that is below r, so
that a change after a long good time is found soon. Their mean reaches 1 / alpha with probability alpha at most while
the promise holds, even if the error rate moves below r. The lower confidence sequence is the largest m with
$M_t(m) \ge 1 / \alpha$; the upper one mirrors it. Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform,
nonparametric, nonasymptotic confidence sequences", Annals of Statistics 2021, section 3.

**The order of the labels.** Both bettors see labels one after the other, so the promise needs an order that does not
depend on whether the answers were wrong. Where errors are reported first, an error rate far below r rings: count in the
order of the answers then (``LabelQueue``). Where some labels never come, and it may depend on the answer which, use
``selective=True``: an answer without a label counts as right for the alarm and the lower end of the interval, as wrong
for the upper end. Evidence of the mixture grows with each wrong answer, so what is counted never exceeds what all
labels would give, whatever was chosen; the second bettor could be led by the choice, and does not bet.
"""

from __future__ import annotations

import math
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, betaln

from caveat._internal.checks import as_count, as_level, as_mask, same_length
from caveat.errors import InputError

__all__ = ["RiskMonitor", "confidence_sequence"]

_STEPS = 50  # of the bisection: more digits than a float has for a share
_MEMORY = 0.99  # weight of the past in the recent error rate: about the last 100 answers
_NATS = math.log(10)


@final
class RiskMonitor:
    """Live error rate with an interval that holds at all times, and an alarm when it passes the promised risk.

    Parameters
    ----------
    risk
        The promised error rate.
    alpha
        Allowed chance of an alarm while the promise holds, over any number of answers.
    selective
        Which labels come may depend on the answers: what is missing counts at its worst. Give the answers in the order
        in which they were given, with ``has_label``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = RiskMonitor(risk=0.05, alpha=0.01)
    >>> _ = monitor.update(rng.random(2000) < 0.05)
    >>> monitor.alarmed, [round(end, 3) for end in monitor.interval]
    (False, [0.035, 0.076])
    >>> _ = monitor.update(rng.random(2000) < 0.12)
    >>> monitor.alarmed
    True
    """

    def __init__(self, *, risk: float = 0.05, alpha: float = 0.01, selective: bool = False) -> None:
        self.risk, self.alpha, self.selective = as_level(risk, "risk"), as_level(alpha, "alpha"), selective
        self.n = self.errors = self.missing = 0
        self._recent, self._log_recent = self.risk, 0.0  # recent error rate, log capital of the bets on it
        self.alarmed_at: int | None = None

    @property
    def alarmed(self) -> bool:
        """Whether the alarm has ever rung; it stays on."""
        return self.alarmed_at is not None

    @property
    def line(self) -> float:
        """The alarm line: -log10 alpha."""
        return -math.log10(self.alpha)

    @property
    def log10_e(self) -> float:
        """Evidence, log10, that more than ``risk`` of the answers are wrong."""
        mixed = float(_log_capital(self.errors, self.n, self.risk))
        return float(self._joined(mixed, self._log_recent)) / _NATS

    def _joined(self, mixed: Any, recent: Any) -> Any:
        return mixed if self.selective else np.logaddexp(mixed, recent) - math.log(2)

    @property
    def assumption(self) -> str:
        """What the interval and the alarm assume about the labels, as a sentence."""
        if self.selective:
            return ("Holds whichever labels come: answers count in the order in which they were given, and one without "
                    "a label counts as right for the alarm and the lower end, as wrong for the upper end.")  # fmt: skip
        return "Holds if the order in which labels come does not depend on whether the answers were wrong."

    @property
    def error(self) -> float:
        """Share of wrong answers so far; NaN before the first."""
        return self.errors / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Where the error rate lies with probability 1 - alpha, at all times at once if it does not change."""
        ends = confidence_sequence([self.errors, self.errors + self.missing], [self.n, self.n], alpha=self.alpha)
        return float(ends[0][0]), float(ends[1][1])

    def update(self, wrong: ArrayLike, has_label: ArrayLike | None = None) -> NDArray[np.float64]:
        """Evidence (log10) after each of the next answers.

        Parameters
        ----------
        wrong
            Whether each answer was wrong, shape (m,).
        has_label
            Whether it has a label, shape (m,); a monitor that is ``selective`` takes answers without one.

        Returns
        -------
        array of shape (m,)
            The evidence.
        """
        if not np.size(wrong):  # nothing has left the queue
            return np.zeros(0)
        mask = as_mask(np.atleast_1d(np.asarray(wrong)), "wrong")
        labeled = (
            np.ones_like(mask) if has_label is None else as_mask(np.atleast_1d(np.asarray(has_label)), "has_label")
        )
        same_length(wrong=mask, has_label=labeled)
        if not self.selective and not labeled.all():
            raise InputError("only a selective monitor takes answers without a label. Make it with selective=True.")
        mask = mask & labeled
        self.missing += int((~labeled).sum())
        mixed = _log_capital(self.errors + np.cumsum(mask), self.n + np.arange(1, mask.size + 1), self.risk)
        evidence = self._joined(mixed, self._bet(mask.tolist())) / _NATS
        over = evidence >= self.line
        if self.alarmed_at is None and over.any():
            self.alarmed_at = self.n + int(np.argmax(over)) + 1
        self.n, self.errors = self.n + mask.size, int(self.errors + mask.sum())
        return np.asarray(evidence)

    def _bet(self, wrong: list[bool]) -> list[float]:
        """Log capital after each answer of the bettor that follows the recent error rate."""
        path = []
        for label in wrong:
            rate = max(self.risk, self._recent)
            self._log_recent += math.log(rate / self.risk if label else (1 - rate) / (1 - self.risk))
            self._recent = _MEMORY * self._recent + (1 - _MEMORY) * label
            path.append(self._log_recent)
        return path

    def state(self) -> dict[str, Any]:
        """What changes as labels arrive."""
        return {
            "n": self.n,
            "errors": self.errors,
            "missing": self.missing,
            "alarmed_at": self.alarmed_at,
            "recent": [self._recent, self._log_recent],
        }

    def restore(self, state: dict[str, Any]) -> Self:
        """Go on from a ``state``.

        Parameters
        ----------
        state
            What ``state`` returned.
        """
        self.n, self.errors = as_count(state["n"], "n", least=0), as_count(state["errors"], "errors", least=0)
        self.missing = as_count(state.get("missing", 0), "missing", least=0)
        self.alarmed_at = state["alarmed_at"]
        self._recent, self._log_recent = state["recent"]
        return self

    def __repr__(self) -> str:
        low, high = self.interval
        return (f"RiskMonitor({self.errors} of {self.n} wrong, [{low:.3g}, {high:.3g}], alarmed={self.alarmed}). "
                f"{self.assumption}")  # fmt: skip


def confidence_sequence(
    errors: ArrayLike, n: ArrayLike, *, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper ends for the error rate after n answers with so many errors, shape (m,) each.

    They hold at all n at once with probability 1 - alpha, if the error rate does not change.

    >>> lower, upper = confidence_sequence([0, 5, 50], [0, 100, 1000], alpha=0.05)
    >>> lower.round(3), upper.round(3)
    (array([0.   , 0.006, 0.027]), array([1.   , 0.145, 0.075]))
    """
    wrong, total = np.asarray(errors, dtype=np.float64), np.asarray(n, dtype=np.float64)
    return _lower(wrong, total, alpha / 2), 1 - _lower(total - wrong, total, alpha / 2)


def _log_capital(errors: Any, n: Any, risk: Any) -> Any:
    k, rest = np.asarray(errors, dtype=np.float64), np.asarray(n, dtype=np.float64) - errors
    with np.errstate(divide="ignore"):  # no evidence at all: log 0
        mixed = betaln(k + 1, rest + 1) + np.log(betaincc(k + 1, rest + 1, risk))
    return mixed - np.log1p(-risk) - k * np.log(risk) - rest * np.log1p(-risk)


def _lower(errors: NDArray[np.float64], n: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """The largest rates that the evidence rejects; 0 if none."""
    low, high = np.zeros(errors.shape), np.where(n > 0, errors / np.maximum(n, 1), 0.0)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        rate = np.where(middle > 0, middle, 0.5)  # nothing is below 0 to be rejected, and its logarithm is infinite
        rejected = (middle > 0) & (_log_capital(errors, n, rate) >= -math.log(alpha))
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    return low
