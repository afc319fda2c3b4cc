"""The one place that decides: which score, which threshold, what that promises, what it catches.

1. Candidates are the methods tied with the best on the outliers; the cheapest of them is taken. Without outliers the
   choice is made for the model's own errors, or by default.
2. The outlier threshold comes from calibration rows, which had no part in the choice.
3. Prediction sets come from calibration rows. Where no class fits a row, its set is empty, and it is not accepted.
4. The score that decides whether to abstain is the best for errors; its accept threshold comes from the calibration
   rows that pass 2 and have a set that is not empty. Where no error rate can be promised, nothing is accepted.
5. The share caught is counted on the outliers that were also used to choose, unless ``confirm`` holds others.

``Evaluation.guard`` does what the decision says: both calibrate with ``caveat.evaluation.gates``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from caveat.evaluation.gates import abstain_gate, outlier_gate
from caveat.evaluation.judge import Judgment, judge_coverage, judge_rate
from caveat.evaluation.parts import tuning_rows
from caveat.evaluation.records import Method, SetFacts
from caveat.results import Comparison, Estimate, Promise, proportion_interval
from caveat.scores import catalogue

__all__ = ["Caught", "Decision", "ModelScores", "decide", "share_text"]

Floats = NDArray[np.float64]
_BY_DEFAULT = ("relative_mahalanobis", "mahalanobis", "knn", "energy", "max_logit", "msp", "confidence")
_EXCHANGEABLE = "calibration rows and future in-distribution rows are exchangeable, and had no part in the choice"


@final
@dataclass(frozen=True)
class Caught:
    """Share of one outlier set at or above the threshold.

    Parameters
    ----------
    outlier, regime
        Name of the outlier set, and near, mid, far or empty.
    share
        The share, with its interval.
    confirmed
        Whether the set was not used to choose the score.

    Examples
    --------
    >>> caught = Caught("noise", "far", proportion_interval(90, 100), confirmed=False)
    >>> print(caught.share)
    0.900 [0.824, 0.951] (95 % Clopper-Pearson, n = 100)
    """

    outlier: str
    regime: str
    share: Estimate
    confirmed: bool  # not used to choose the score


@final
@dataclass(frozen=True, eq=False)
class ModelScores:
    """The scores of one model that ranking and decision read, by method; ``correct`` by role."""

    inlier: dict[str, Floats] = field(default_factory=dict)
    calibration: dict[str, Floats] = field(default_factory=dict)
    outliers: dict[str, dict[str, Floats]] = field(default_factory=dict)  # outlier set -> method -> scores
    confirm: dict[str, dict[str, Floats]] = field(default_factory=dict)
    methods: dict[str, Method] = field(default_factory=dict)
    correct: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    regimes: dict[str, str] = field(default_factory=dict)
    empty: dict[str, NDArray[np.bool_]] = field(default_factory=dict)  # by role: rows whose prediction set is empty


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """A score, a threshold, and what they promise. ``str`` is what the terminal prints.

    Parameters
    ----------
    method, threshold
        Reject an input as an outlier when its score is ``threshold`` or more.
    reason
        Why this method was chosen.
    false_alarms, measured_false_alarms
        The promise on rejected inliers, and what was measured on the test inliers.
    caught
        Share of each outlier set that is rejected.
    confidence, accept_below
        Abstain when the score of ``confidence`` is ``accept_below`` or more, or the prediction set is empty; None
        without labels. ``-inf``: no error rate can be promised, so nothing is accepted.
    errors, measured_errors, accepted
        The promise on errors among the accepted, what was measured (None where nothing is accepted), and the share of
        inliers that are accepted: those that are not rejected, sure enough, and have a set that is not empty.
    coverage, sets
        The promise of the prediction sets, and what was measured; None without labels.
    warnings
        What a reader must know before relying on this.
    ungated_errors
        Where nothing is accepted: the share of wrong answers if the abstain gate were left out.

    Examples
    --------
    >>> from caveat import Outputs, evaluate
    >>> logits = np.random.default_rng(0).normal(size=(600, 3))
    >>> decision = evaluate(inlier=Outputs(logits=logits), scores=["msp"]).decision
    >>> decision.method.score, round(decision.threshold, 3), decision.false_alarms.holds
    ('msp', -0.394, True)
    """

    method: Method
    threshold: float
    reason: str
    false_alarms: Promise
    measured_false_alarms: Estimate
    caught: tuple[Caught, ...] = ()
    confidence: Method | None = None
    accept_below: float = math.nan
    errors: Promise | None = None
    measured_errors: Estimate | None = None
    accepted: Estimate | None = None
    coverage: Promise | None = None
    sets: SetFacts | None = None
    warnings: tuple[str, ...] = ()
    ungated_errors: Estimate | None = None

    @property
    def promises(self) -> tuple[Promise, ...]:
        """Every promise, also those that could not be made."""
        return tuple(p for p in (self.false_alarms, self.errors, self.coverage) if p is not None)

    @property
    def judgments(self) -> tuple[Judgment, ...]:
        """For each of ``promises`` whether the test rows agree with it: ``outcome`` and ``reason``."""
        judgments = [judge_rate(self.measured_false_alarms, self.false_alarms)]
        if self.errors is not None:
            judgments.append(judge_rate(self.measured_errors, self.errors))
        if self.coverage is not None:
            measured, alpha = (None, 0.0) if self.sets is None else (self.sets.coverage, self.sets.alpha)
            judgments.append(judge_coverage(measured, self.coverage, alpha=alpha))
        return tuple(judgments)

    @property
    def contradicted(self) -> bool:
        """Whether the test rows contradict a promise."""
        return any(judgment.outcome == "contradicted" for judgment in self.judgments)

    def to_dict(self) -> dict[str, object]:
        """The decision as plain values, for machines; a threshold that is not finite (nothing is promised) is None."""
        return {
            "score": str(self.method), "threshold": _finite(self.threshold), "reason": self.reason,
            "promises": [promise.to_dict() | {"test": judgment.outcome, "test_reason": judgment.reason}
                         for promise, judgment in zip(self.promises, self.judgments, strict=True)],
            "measured_false_alarms": _plain(self.measured_false_alarms),
            "caught": [{"outlier": c.outlier, "regime": c.regime, "confirmed": c.confirmed} | _plain(c.share)
                       for c in self.caught],
            "confidence_score": None if self.confidence is None else str(self.confidence),
            "accept_below": _finite(self.accept_below),
            "measured_errors": _plain(self.measured_errors), "accepted": _plain(self.accepted),
            "ungated_errors": _plain(self.ungated_errors),
            "mean_set_size": None if self.sets is None else self.sets.mean_size,
            "measured_coverage": None if self.sets is None else _plain(self.sets.coverage),
            "warnings": list(self.warnings),
        }  # fmt: skip

    @property
    def rule(self) -> str:
        """When an input is rejected, as a sentence."""
        if math.isinf(self.threshold):
            return f"The score {self.method} has no threshold: it rejects nothing."
        return f"Reject when {self.method} is {self.threshold:.6g} or more."

    @property
    def abstain_rule(self) -> str:
        """When an input that is not rejected gets no answer, as a sentence; empty without that gate."""
        if self.errors is None or self.confidence is None:
            return ""
        if not self.errors.holds:
            return "Abstain always: no error rate can be promised, so nothing is accepted."
        empty = "" if self.coverage is None else ", or the prediction set is empty"
        return f"Abstain when {self.confidence} is {self.accept_below:.6g} or more{empty}."

    def __str__(self) -> str:
        whats: list[str] = [promise.what for promise in self.promises]
        judged = dict(zip(whats, self.judgments, strict=True))

        def line(promise: Promise) -> str:
            return f"  {judged[promise.what].mark} {promise}"

        def measured(what: str, text: str) -> str:
            return f"Measured: {text}. {judged[what].reason}".rstrip()

        lines = [f"{self.rule} {self.reason}"]
        lines.append(f"{line(self.false_alarms)} {measured('false alarms', share_text(self.measured_false_alarms))}")
        if self.errors is not None:
            lines += [line(self.errors), f"    {self.abstain_rule}"]
            what, text = self.errors.what, "no test row is accepted"
            if self.measured_errors is not None:
                text = (f"{share_text(self.measured_errors)} of the accepted are wrong; "
                        f"{share_text(self.accepted)} are accepted")  # fmt: skip
            elif self.ungated_errors is not None:
                text = f"{share_text(self.ungated_errors)} would be wrong without this gate"
            lines.append(f"    {measured(what, text)}")
        if self.coverage is not None and self.sets is not None:
            lines.append(line(self.coverage))
            text = (f"{share_text(self.sets.coverage)}, {self.sets.verdict}; mean size {self.sets.mean_size:.2f}, "
                    f"{100 * self.sets.empty:.1f} % empty")  # fmt: skip
            lines.append(f"    {measured(self.coverage.what, text)}")
        for label, confirmed in (("Caught", False), ("Confirmed on outliers that chose nothing", True)):
            shares = [f"{c.outlier} {share_text(c.share)}" for c in self.caught if c.confirmed == confirmed]
            lines += [f"  {label}: {'; '.join(shares)}."] if shares else []
        lines += [f"  ! {sentence}" for sentence in self.warnings]
        return "\n".join(lines)


def decide(
    scores: ModelScores,
    ranking: Comparison | None,
    errors: Comparison | None,
    sets: SetFacts | None,
    *,
    false_alarm: float = 0.05,
    risk: float = 0.05,
    delta: float = 0.05,
    seed: int = 0,
) -> Decision | None:
    """The decision for one model; None where no score can be calibrated."""
    able = [name for name in scores.inlier if name in scores.calibration]
    if not able:
        return None
    name, reason = _choose(able, scores, ranking, errors)
    threshold, promise = outlier_gate(
        scores.calibration[name], false_alarm=false_alarm, delta=delta, assumption=_EXCHANGEABLE
    )
    rejected = scores.inlier[name] >= threshold
    base = Decision(
        scores.methods[name], threshold, reason, promise,
        proportion_interval(int(rejected.sum()), rejected.size, delta=delta), _caught(scores, name, threshold, delta),
        warnings=_warnings(scores, ranking, sets),
    )  # fmt: skip
    return _with_labels(base, scores, errors, sets, rejected, risk=risk, delta=delta, seed=seed)


def _with_labels(
    base: Decision, scores: ModelScores, errors: Comparison | None, sets: SetFacts | None,
    rejected: NDArray[np.bool_], *, risk: float, delta: float, seed: int,
) -> Decision:  # fmt: skip
    right, held_right = scores.correct.get("inlier"), scores.correct.get("calibration")
    if right is None or held_right is None:
        return base
    gate, chosen = str(base.method), str(base.method)
    if errors is not None:
        chosen = next((name for name in _by_cost(errors.layers[0], scores) if name in scores.calibration), gate)
    n = held_right.size
    rows = np.ones(n, dtype=np.bool_)  # rows for which both scores were computed
    for name in (gate, chosen):
        if scores.calibration[name].size < n:
            rows &= ~tuning_rows(n, seed)
    gated, doubt = (_on_rows(scores.calibration[name], rows, seed) for name in (gate, chosen))
    passed, fits = gated < base.threshold, ~rejected
    if {"calibration", "inlier"} <= scores.empty.keys():
        passed, fits = passed & ~scores.empty["calibration"][rows], fits & ~scores.empty["inlier"]
    accept_below, promise = abstain_gate(
        doubt, held_right[rows], passed, risk=risk, delta=delta, assumption=_EXCHANGEABLE
    )
    accepted = fits & (scores.inlier[chosen] < accept_below)

    def wrong(answered: NDArray[np.bool_]) -> Estimate | None:
        n = int(answered.sum())
        return proportion_interval(int((~right[answered]).sum()), n, delta=delta) if n else None

    coverage = None
    if sets is not None:
        coverage = Promise(
            what="coverage", bound=min(sets.promised, 1 - sets.alpha),
            confidence=None, n=sets.n_calibration, method="split conformal",
            assumption=_EXCHANGEABLE,
        )  # fmt: skip
    return replace(
        base, confidence=scores.methods[chosen], accept_below=accept_below, errors=promise,
        measured_errors=wrong(accepted),
        accepted=proportion_interval(int(accepted.sum()), right.size, delta=delta), coverage=coverage, sets=sets,
        ungated_errors=None if promise.holds else wrong(fits),
    )  # fmt: skip


def _on_rows(values: Floats, rows: NDArray[np.bool_], seed: int) -> Floats:
    """Calibration scores on the chosen rows; a score that was tuned lacks the tuning rows already."""
    if values.size == rows.size:
        return values[rows]
    return values[rows[~tuning_rows(rows.size, seed)]]


def _choose(
    able: Sequence[str], scores: ModelScores, ranking: Comparison | None, errors: Comparison | None
) -> tuple[str, str]:
    for comparison, what in (
        (ranking, "on these outliers"),
        (errors, "for the model's own errors; no outliers were given"),
    ):
        if comparison is None:
            continue
        tied = [name for name in comparison.layers[0] if name in able]
        if tied:
            name = _by_cost(tied, scores)[0]
            best = comparison.methods[0]
            if len(comparison.methods) == 1:
                return name, "It is the only score that was computed."
            if len(tied) == 1:
                return name, f"It is the best of {len(comparison.methods)} scores {what}."
            lead = "It is" if name == best else f"It cannot be told apart from the best ({best}) and is"
            return name, f"{lead} the cheapest of {len(tied)} tied scores of {len(comparison.methods)} {what}."
    default = next((name for name in _BY_DEFAULT if name in able), able[0])
    if len(able) == 1:
        return default, "It is the only score that was computed; no outliers were given."
    right = scores.correct.get("inlier")
    if right is None:
        return default, "No outliers and no labels were given: this is the default for these outputs."
    answers = "right" if right.all() else "wrong"
    return default, (
        f"No outliers were given, and all {right.size} answers on the test rows are {answers}, so that no score can be "
        "told apart by the model's own errors: this is the default for these outputs."
    )


def _by_cost(names: Sequence[str], scores: ModelScores) -> list[str]:
    """From the cheapest: by cost class, then by how many fields it reads, then in the order of the catalogue."""
    entries = {entry.name: (place, entry) for place, entry in enumerate(catalogue())}

    def cost(name: str) -> tuple[int, int, int, str]:
        method = scores.methods[name]
        if method.score not in entries:  # a detector
            return 5, 0, 0, name
        place, entry = entries[method.score]
        projected = 3 if method.projection != "none" else 0
        return max(entry.cost_class, projected), len({*entry.needs, *entry.fits_on}), place, name

    return sorted(names, key=cost)


def _caught(scores: ModelScores, name: str, threshold: float, delta: float) -> tuple[Caught, ...]:
    return tuple(
        Caught(outlier, scores.regimes.get(outlier, ""),
               proportion_interval(int((values[name] >= threshold).sum()), values[name].size, delta=delta), confirmed)
        for sets, confirmed in ((scores.outliers, False), (scores.confirm, True))
        for outlier, values in sets.items()
    )  # fmt: skip


def _warnings(scores: ModelScores, ranking: Comparison | None, sets: SetFacts | None) -> tuple[str, ...]:
    notes = ["Nothing is promised about outliers."]
    unlabeled = [what for role, what in (("calibration", "calibration"), ("inlier", "test"))
                 if role not in scores.correct]  # fmt: skip
    if unlabeled:
        notes.append("Nothing is promised about errors and prediction sets, and only the outlier gate is set: the "
                     f"{' and '.join(unlabeled)} rows have no labels.")  # fmt: skip
    elif sets is None:
        notes.append("Nothing is promised about prediction sets: they need logits or probs.")
    if ranking is not None and len(ranking.methods) > 1 and not scores.confirm:
        notes.append(f"The score was the best of {len(ranking.methods)} on these same outliers, so the shares caught "
                     "are optimistic: confirm them on other outliers (--confirm).")  # fmt: skip
    return tuple(notes)


def share_text(estimate: Estimate | None) -> str:
    """A share with its interval, in percent."""
    if estimate is None:
        return "not measured"
    return f"{100 * estimate.value:.1f} % [{100 * estimate.lower:.1f}, {100 * estimate.upper:.1f}]"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain(estimate: Estimate | None) -> dict[str, object]:
    return {} if estimate is None else dict(vars(estimate))
