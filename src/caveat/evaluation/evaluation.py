"""``caveat.evaluate``: every applicable score on one model's outputs, measured, ranked, and ending in a decision."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, final

from caveat._internal.checks import as_count, as_flag, as_level, as_list, check_known
from caveat._internal.html import small_table
from caveat._internal.notes import kept_warnings
from caveat.errors import InputError
from caveat.evaluation.decide import Decision, share_text
from caveat.evaluation.findings import Assessment, CellFacts, Findings, assess, versions
from caveat.evaluation.measure import Settings, cannot, fit, measure_model, measure_score
from caveat.evaluation.parts import Parts, named_sets, tuning_rows
from caveat.evaluation.rank import Sorted
from caveat.evaluation.records import (
    Block,
    Data,
    Detection,
    Left,
    Method,
    ModelFacts,
    Note,
    Record,
    Scores,
    Tuning,
    long_rows,
)
from caveat.evaluation.tuning import as_tuned, choose_settings, own_values
from caveat.outputs import Outputs
from caveat.outputs.demand import demand
from caveat.results import Comparison, Estimate
from caveat.scores import Projected, Score, catalogue, detector, detectors, make
from caveat.scores.catalogue import plain_name

if TYPE_CHECKING:
    import pandas as pd

    from caveat.guard import Guard

__all__ = ["Evaluation", "Progress", "choose_scores", "evaluate", "with_notes"]

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are."""
R = TypeVar("R")


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything that was measured on one model, the ranking of the scores, and the decision.

    Parameters
    ----------
    title
        Heading of the report.
    records
        Every measured fact; ``of`` picks one kind.
    assessment
        Ranking and decision made from the records.
    settings, false_alarm, risk
        What was asked for.
    split
        Whether a random half of the inliers calibrated.
    seconds, versions
        How long it took, and with which software.

    Examples
    --------
    >>> import numpy as np
    >>> result = evaluate(inlier=Outputs(logits=np.random.default_rng(0).normal(size=(600, 3))), scores=["msp"])
    >>> result.decision.method.score, result.ranking
    ('msp', None)
    """

    title: str
    records: tuple[Record, ...]
    assessment: Assessment
    settings: Settings
    false_alarm: float
    risk: float
    split: bool
    seconds: float
    versions: Mapping[str, str]

    @property
    def decision(self) -> Decision | None:
        """Score, threshold, promises, share caught; None where nothing could be calibrated."""
        return self.assessment.decision

    @property
    def ranking(self) -> Comparison | None:
        """The scores by their mean AUROC over the outlier sets; None without outliers."""
        return self.assessment.ranking

    @property
    def accuracy(self) -> Estimate | None:
        """Share of right answers on the inliers; None without labels."""
        return next((facts.accuracy for facts in self.of(ModelFacts)), None)

    def guard(self, train: Outputs | None, calibration: Outputs) -> Guard:
        """The decision as an object that can be saved and deployed, fitted and calibrated on these outputs.

        On the calibration rows of the evaluation its thresholds are those of the decision, and it does what the
        decision says. Where the calibration rows cannot carry the promised error rate, it accepts nothing, with a
        warning. Scores keep the settings that ``tune`` chose, and the rows of ``calibration`` that chose them set no
        threshold.

        Parameters
        ----------
        train
            Training outputs; None where no chosen score learns.
        calibration
            Held-out outputs that neither trained the model nor chose the score.

        Returns
        -------
        Guard
            The calibrated guard.
        """
        from caveat.guard import Guard

        if self.decision is None:
            raise InputError("no score could be calibrated, so there is no decision to build a guard from. "
                             "Evaluate with more inliers, or with calibration outputs.")  # fmt: skip
        decision, seed = self.decision, self.settings.seed
        tunings = {record.method: record for record in self.of(Tuning)}

        def score_of(method: Method) -> Score:
            score = _score_of(method)
            return as_tuned(score, tunings[method]) if method in tunings and tunings[method].chosen else score

        guard = Guard(
            score_of(decision.method),
            sets=None if decision.coverage is None or decision.sets is None else decision.sets.set_method,
            false_alarm=self.false_alarm, risk=None if decision.errors is None else self.risk,
            alpha=self.settings.alpha, delta=self.settings.delta,
            confidence="msp" if decision.confidence is None else score_of(decision.confidence),
        )  # fmt: skip
        guard = guard if train is None else guard.fit(train, rng=seed)
        if not tunings:
            return guard.calibrate(calibration, seed=seed)
        chose = tuning_rows(calibration.n, seed)  # rows that chose a setting set no threshold
        return guard.calibrate(calibration[~chose], seed=seed, tuning=calibration[chose])

    @property
    def outliers(self) -> tuple[str, ...]:
        """Names of the outlier sets, in the order given."""
        return tuple(data.block.outlier for data in self.of(Data) if data.role == "outlier")

    @property
    def left_out(self) -> dict[str, str]:
        """Score -> why it was not computed."""
        return {str(left.method): left.reason for left in self.of(Left)}

    @property
    def settings_chosen(self) -> dict[str, str]:
        """Score -> settings that ``tune`` chose, as a phrase; empty without ``tune``."""
        return {str(record.method): record.text for record in self.of(Tuning) if record.chosen}

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings that were given while this was measured, such as rows that two files share."""
        return tuple(note.text for note in self.of(Note))

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """The records of one kind.

        Parameters
        ----------
        kind
            A class of ``caveat.evaluation.records``, such as ``Detection``.

        Returns
        -------
        tuple
            The records.
        """
        return tuple(record for record in self.records if isinstance(record, kind))

    def findings(self) -> Findings:
        """What a report reads."""
        left = self.left_out
        notes = [f"{', '.join(name for name in left if left[name] == reason)} left out ({reason})."
                 for reason in dict.fromkeys(left.values())]  # fmt: skip
        if self.decision is not None:
            used = dict.fromkeys(map(str, (self.decision.method, self.decision.confidence)))
            notes += [f"Settings of {name}, chosen on rows that set no threshold: {self.settings_chosen[name]}."
                      for name in used if name in self.settings_chosen]  # fmt: skip
        return Findings(
            self.title, self.records, {("model", self.settings.seed): self.assessment}, self.settings.alpha,
            self.settings.delta, self.false_alarm, self.risk, self.split,
            cells=(CellFacts("", "evaluation", self.seconds, self.versions),), notes=notes,
        )  # fmt: skip

    def detection(self, score: str, outlier: str) -> Detection:
        """The numbers of one score against one outlier set.

        Parameters
        ----------
        score
            Name of the score.
        outlier
            Name of the outlier set.

        Returns
        -------
        Detection
            AUROC, FPR and AUPR with their intervals.
        """
        for record in self.of(Detection):
            if (str(record.method), record.block.outlier) == (score, outlier):
                return record
        raise InputError(f"there is no result of score '{score}' on outlier set '{outlier}'.")

    def rows(self) -> list[dict[str, Any]]:
        """A long table: one row per score, outlier set and metric."""
        return list(long_rows(self.records))

    def to_frame(self) -> pd.DataFrame:
        """The same as a pandas table (extra ``stats``)."""
        from caveat._internal.frames import to_frame

        return to_frame(self.rows())

    def _repr_html_(self) -> str:
        decision, ranking = self.decision, self.ranking
        rows = [] if self.accuracy is None else [("accuracy", share_text(self.accuracy))]
        if decision is not None:
            finite = math.isfinite(decision.threshold)
            limit = f"{decision.method} is {decision.threshold:.6g} or more"
            rows.append(("reject when", limit) if finite else ("rule", decision.rule))
            rows += [(promise.what, f"{judgment.mark} {promise} {judgment.reason}".rstrip())
                     for promise, judgment in zip(decision.promises, decision.judgments, strict=True)]  # fmt: skip
            rows += [(f"{'confirmed' if c.confirmed else 'caught'}: {c.outlier}", share_text(c.share))
                     for c in decision.caught]  # fmt: skip
        best = "" if ranking is None else f"Best scores (tied): {', '.join(ranking.layers[0])}. "
        sentences = (*(decision.warnings if decision is not None else ()), *self.notes)
        return small_table(self.title, rows, note=best + " ".join(sentences))

    def __repr__(self) -> str:
        data = ", ".join(f"{d.block.outlier or d.role} {d.n}" for d in self.of(Data))
        scores = len({s.method for s in self.of(Scores)})
        lines = [f"Evaluation({self.title!r}: {scores} scores; {data})"]
        if self.accuracy is not None:
            lines.append(f"accuracy {self.accuracy}")
        if self.decision is not None:
            lines.append(str(self.decision))
            if chosen := self.settings_chosen.get(str(self.decision.method)):
                lines.append(f"Settings of {self.decision.method}: {chosen}.")
        text = "\n".join(lines)
        return text if len(text) < 2000 else text[:1990] + " ..."


def evaluate(
    *,
    inlier: Outputs,
    outliers: Mapping[str, Outputs] | Sequence[Outputs] | Outputs | None = None,
    train: Outputs | None = None,
    calibration: Outputs | None = None,
    confirm: Mapping[str, Outputs] | Sequence[Outputs] | Outputs | None = None,
    scores: Iterable[str | Score] | None = None,
    false_alarm: float = 0.05,
    risk: float = 0.05,
    alpha: float = 0.1,
    delta: float = 0.05,
    seed: int = 0,
    regimes: Mapping[str, str] | None = None,
    regime: str = "",
    tune: bool = False,
    title: str = "Evaluation",
    progress: Progress | None = None,
) -> Evaluation:
    """Measure every applicable score on one model's outputs, rank them, and decide.

    Parameters
    ----------
    inlier
        Held-out outputs from the training distribution; with labels, errors and prediction sets are measured too.
    outliers
        Name -> outputs from elsewhere. One set alone is called "outlier"; those of a list get numbers. Without
        any, the choice is made for the model's own errors.
    train
        Outputs on the training data; scores that learn are left out without it.
    calibration
        Held-out inliers for thresholds, sets and a temperature. Without it a random half of ``inlier`` calibrates, and
        everything is measured on the other half.
    confirm
        Name -> outliers that only the decision looks at, after it is made.
    scores
        Names of the catalogue or of outlier detectors, or scores; default all of the catalogue that the outputs allow.
    false_alarm, risk, alpha
        Allowed share of rejected inliers, of errors among the accepted, and of sets without the true class.
    delta
        Allowed failure of each promise and interval.
    seed
        Seeds every random step, each with a stream of its own.
    regimes, regime
        Outlier set -> near, mid or far; and the regime for which to choose, default all.
    tune
        Choose temperature and parameters of the scores first (``scores.settings``), on one calibration row in five,
        which then sets no threshold. Needs labels of the calibration rows. A parameter that is not at its default
        stays as it is.
    title
        Heading of the report.
    progress
        Called with each step.

    Returns
    -------
    Evaluation
        ``decision`` (score, threshold, promises, share caught), ``ranking``, and ``to_frame()`` with every number.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sure = Outputs(logits=rng.normal(size=(400, 3)) + 5 * np.eye(3)[rng.integers(3, size=400)])
    >>> unsure = Outputs(logits=rng.normal(size=(100, 3)))
    >>> result = evaluate(inlier=sure, outliers={"noise": unsure}, scores=["msp", "energy"])
    >>> result.ranking.methods, result.ranking.tied("msp", "energy")
    (('energy', 'msp'), True)
    >>> result.decision.false_alarms.holds
    True
    """
    started = time.perf_counter()
    with kept_warnings() as notes:
        settings = Settings(as_level(alpha, "alpha"), as_level(delta, "delta"), as_count(seed, "seed", least=0))
        false_alarm, risk = as_level(false_alarm, "false_alarm"), as_level(risk, "risk")
        check_regime(regime, regimes)
        sources = Parts(train, calibration, inlier, named_sets(outliers, "outliers", "outlier"),
                        named_sets(confirm, "confirm", "outlier"))  # fmt: skip
        for role, outputs in sources.roles().items():
            demand(outputs, who="caveat.evaluate", name=role)
        sources.check()
        parts = sources.with_one_order().with_calibration(seed)
        parts = parts.with_tuning(seed) if as_flag(tune, "tune") else parts
        chosen, left = choose_scores(parts, scores)
        tell = progress or (lambda what, done, total: None)
        tell("tuning scores" if tune else "fitting scores", 0, 2 + len(chosen))
        able = {method: score.without_class_scores() for method, score in chosen.items()}
        tunings: list[Record] = []
        if tune:
            for method, score in able.items():
                able[method], record = choose_settings(
                    score, method, parts, Block("model", seed), keep=own_values(score)
                )
                tunings.append(record)
        else:
            fit(able.values(), parts, seed)
        result = evaluate_fitted(
            parts, able, left, settings, false_alarm=false_alarm, risk=risk, regimes=regimes, regime=regime,
            title=title, tell=tell, started=started, tunings=tunings,
        )  # fmt: skip
    return with_notes(result, notes)


def with_notes(evaluation: Evaluation, notes: Iterable[str]) -> Evaluation:
    """The evaluation with the notes in its records, each once."""
    block = Block("model", evaluation.settings.seed)
    new = [Note(block, text) for text in dict.fromkeys(notes) if text not in evaluation.notes]
    return replace(evaluation, records=(*evaluation.records, *new)) if new else evaluation


def evaluate_fitted(
    parts: Parts, able: Mapping[Method, Score], left: Mapping[Method, str], settings: Settings, *, false_alarm: float,
    risk: float, regimes: Mapping[str, str] | None, regime: str, title: str, tell: Progress, started: float,
    tunings: Iterable[Record] = (),
) -> Evaluation:  # fmt: skip
    """The second half of ``evaluate``: measure scores that are fitted, rank them, and decide."""
    seed = settings.seed
    block, steps = Block("model", seed), 2 + len(able)
    tell("measuring the model", 1, steps)
    sorted_ = Sorted()
    records: list[Record] = [*measure_model(parts, block, settings), *tunings]
    for i, (method, score) in enumerate(able.items(), 2):
        tell(f"measuring {method}", i, steps)
        records += measure_score(score, method, parts, block, settings, sorted_)
    records += [Left(block, method, reason) for method, reason in left.items()]
    named = tuple(_with_regime(record, regimes or {}) for record in records)
    assessment = assess(named, false_alarm=false_alarm, risk=risk, delta=settings.delta, seed=seed, regime=regime,
                        sorted_=sorted_)  # fmt: skip
    return Evaluation(
        title, named, assessment, settings, false_alarm, risk, parts.split, time.perf_counter() - started, versions()
    )


def check_regime(regime: str, regimes: Mapping[str, str] | None) -> None:
    """Raise InputError for a regime that no outlier set has."""
    if regime:
        check_known(regime, set((regimes or {}).values()), "regime of the outlier sets")


def _with_regime(record: Record, regimes: Mapping[str, str]) -> Record:
    regime = regimes.get(record.block.outlier, "")
    return replace(record, block=replace(record.block, regime=regime)) if regime else record


def choose_scores(parts: Parts, scores: Iterable[str | Score] | None) -> tuple[dict[Method, Score], dict[Method, str]]:
    """Scores to compute, and those of the catalogue that the outputs do not allow, with the reason.

    A score that is named must be computable. Names of outlier detectors (``iforest``, ``ecod``, ...) work too.
    """
    if scores is None:
        every = {Method(entry.name): entry.score() for entry in catalogue()}
        reasons = {method: cannot(score, parts) for method, score in every.items()}
        can = {method: score for method, score in every.items() if not reasons[method]}
        left = {method: reason for method, reason in reasons.items() if reason}
        if not can:
            raise InputError(
                f"no score can be computed from these outputs: {'; '.join(f'{k} {v}' for k, v in left.items())}."
            )
        return can, left
    can = {}
    for item in [scores] if isinstance(scores, Score) else as_list(scores, "scores"):
        score = _named(item) if isinstance(item, str) else item
        method = Method(plain_name(item)) if isinstance(item, str) else _method_of(score)
        if reason := cannot(score, parts):
            remedy = "Give them: train=, or --train FILE." if reason == "needs training outputs" else (
                "Add it to the outputs, or leave the score out.")  # fmt: skip
            raise InputError(f"score '{method}' {reason}. {remedy}")
        can[method] = score
    return can, {}


def _method_of(score: Score) -> Method:
    """A score object by its name, projection, and the parameters that are not at their default."""
    inner, projection = (score.inner, score.projection) if isinstance(score, Projected) else (score, "none")
    values = {field.name: (getattr(inner, field.name), field.default) for field in fields(inner)}  # type: ignore[arg-type]
    params = {name: value for name, (value, default) in values.items()
              if isinstance(value, (bool, int, float, str)) and value != default}  # fmt: skip
    return Method.of(inner.name, params, projection)


def _score_of(method: Method) -> Score:
    score = make(method.score, **dict(method.params)) if method.params else _named(method.score)
    return score if method.projection == "none" else Projected(score, method.projection)


def _named(name: str) -> Score:
    scores = {entry.name for entry in catalogue()}
    if plain_name(name) not in scores and name in {entry.name for entry in detectors()}:
        return detector(name)
    return make(name)
