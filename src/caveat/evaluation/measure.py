"""The one measuring code: from a model's outputs to records. ``evaluate`` collects them, a study stores them."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_vector
from caveat._internal.ranking import Ranked, cross_shares
from caveat._internal.streams import stream
from caveat.conformal import FPRBand, SplitSets, mean_bounds
from caveat.conformal._bins import bin_means, equal_mass
from caveat.conformal.difficulty import ease_of, logit_noise_ease
from caveat.errors import CaveatWarning
from caveat.evaluation.curves import POINTS, histogram, most_flagged, risk_points, roc_at
from caveat.evaluation.parts import Parts, tuning_rows
from caveat.evaluation.rank import Sorted
from caveat.evaluation.records import (
    Answers,
    Block,
    ClassFacts,
    Curve,
    Data,
    Detection,
    EmptySets,
    Histogram,
    Left,
    Method,
    ModelFacts,
    Record,
    Role,
    Scores,
    Selective,
    SetFacts,
)
from caveat.metrics import (
    Placements,
    accuracy,
    calibration,
    coverage_verdict,
    mean_auroc_interval,
    reliability,
    sscv,
    t_cv,
    t_ss,
    true_ranks,
)
from caveat.metrics.detection import average_precision, threshold_place
from caveat.metrics.selective import Steps
from caveat.metrics.selective_intervals import step_intervals
from caveat.outputs import Outputs
from caveat.results import Estimate, PredictionSets, proportion_interval
from caveat.scores import Score
from caveat.scores.together import fit_all

__all__ = ["METRICS", "MODEL_METRICS", "Settings", "cannot", "fit", "measure_model", "measure_score"]

Floats = NDArray[np.float64]
MODEL_METRICS = ("accuracy", "ece", "brier", "nll")
METRICS = ("auroc", "auroc_guaranteed", "fpr95", "aupr", "aurc", "augrc", *MODEL_METRICS)
_TPR = 0.95
_RATES = np.linspace(0, 1, POINTS) ** 2  # of a ROC curve: finer at small rates
_SHOWN_BINS = 10  # of difficulty, in a picture
_PAPER_BINS, _LEAST_IN_BIN = 50, 20  # of T-CV and T-SS: 50 in the paper, fewer where they would hold too little
_SIGMA, _COPIES = 1.0, 50  # of the noise on the logits that stands in for transformed inputs


@final
@dataclass(frozen=True)
class Settings:
    """What is measured and how.

    Parameters
    ----------
    alpha
        Allowed error of the prediction sets.
    delta
        Allowed failure of intervals and promises.
    seed
        Seed of all random streams.
    metrics
        Names from ``METRICS``.
    sets
        Nonconformity scores of the prediction sets.
    resamples
        Resamples of the interval of ECE.

    Examples
    --------
    >>> Settings(metrics=("auroc", "accuracy")).alpha
    0.1
    """

    alpha: float = 0.1
    delta: float = 0.05
    seed: int = 0
    metrics: Collection[str] = METRICS
    sets: Collection[str] = ("lac",)
    resamples: int = 1000


# -- one score --------------------------------------------------------------------------------------------------------


def cannot(score: Score, parts: Parts) -> str:
    """Why a score cannot be computed on every part; empty if it can."""
    learns_from = _learns_from(score, parts)
    for outputs in (parts.held_out, *parts.outliers.values(), *parts.confirm.values()):
        if reason := score.missing(train=learns_from, outputs=outputs):
            return reason
    return ""


def _learns_from(score: Score, parts: Parts) -> Outputs | None:
    """What a score is fitted on: a temperature on calibration rows where there are any, the others on training rows."""
    held = parts.calibration
    if score.held_out and held is not None and not score.missing(train=held, outputs=held):
        return held
    return parts.train


def fit(scores: Iterable[Score], parts: Parts, seed: int) -> None:
    """Fit scores on the training outputs in one shared walk; a temperature on its own part of the calibration rows."""
    held = parts.calibration
    tuning = parts.tuning
    if tuning is None and held is not None:
        tuning = held[tuning_rows(held.n, seed)]
    if parts.train is not None:
        fit_all(scores, parts.train, tuning, rng=seed)
    elif tuning is not None:
        for score in scores:
            if score.fits_on:
                score.fit(tuning, rng=seed)


def measure_score(
    score: Score,
    method: Method,
    parts: Parts,
    block: Block,
    settings: Settings,
    sorted_: Sorted | None = None,
) -> Iterator[Record]:
    """Everything about one fitted score: its values, detection, selective risk, curves and histograms.

    ``sorted_`` is filled with the scores in order and their placements, for a ranking of the methods.
    """
    values = _checked(score.rounded(parts.held_out), "inlier")
    outliers = {name: _checked(score.rounded(outputs), name) for name, outputs in parts.outliers.items()}
    yield Scores(block, method, "inlier", values)
    if parts.calibration is not None and not score.missing(train=_learns_from(score, parts), outputs=parts.calibration):
        held = parts.calibration
        looked_at = score.held_out and parts.tuning is None  # some of these rows fitted it
        rows = held[~tuning_rows(held.n, settings.seed)] if looked_at else held
        yield Scores(block, method, "calibration", _checked(score.rounded(rows), "calibration"))
    for name, outputs in parts.confirm.items():
        yield Scores(replace(block, outlier=name), method, "confirm", _checked(score.rounded(outputs), name))
    # Every set is sorted once; all that follows is read from the sorted scores.
    inside, outside = Ranked.of(values), {name: Ranked.of(scores) for name, scores in outliers.items()}
    if sorted_ is not None:
        sorted_.inliers[str(method)] = inside
    correct = parts.correct
    if correct is not None:
        right = correct[inside.order]
        answers, errors = inside.ascending[right], inside.ascending[~right]
        yield from _selective(method, block, settings, Steps.ascending(inside.ascending, ~right), answers, errors)
    bins = histogram({"": inside.ascending} | {name: scores.ascending for name, scores in outside.items()})
    for name, shares in bins.shares.items():
        yield Histogram(replace(block, outlier=name), str(method), bins.edges, shares)
    for name, scores in outside.items():
        here = replace(block, outlier=name)
        yield Scores(here, method, "outlier", outliers[name])
        placements = Placements.of_ranked(inside, [scores])
        if sorted_ is not None:
            sorted_.placements[str(method), name] = placements
        yield _detection(method, here, settings, inside.ascending, scores.ascending, placements)
        curve = roc_at(_RATES, _most_flagged(values.size, settings.delta), inside.ascending, scores.ascending)
        yield Curve(here, str(method), "roc", curve.fpr, curve.tpr, curve.lower, curve.upper)
        if correct is not None and correct.any():  # outliers are failures, wrong answers are left out
            steps = Steps.merge(answers, scores.ascending)
            yield from _selective(method, here, settings, steps, answers, scores.ascending)


@lru_cache(maxsize=16)
def _most_flagged(n: int, delta: float) -> NDArray[np.intp]:
    """The same for all scores: the band is that of n ranks."""
    return most_flagged(FPRBand(np.arange(n), delta=delta, two_sided=True), _RATES)


def _checked(values: Floats, name: str) -> Floats:
    return as_vector(values, f"the score on {name}")  # NaN and infinity are a failure of the score, not a rank


def _detection(
    method: Method, block: Block, settings: Settings, inside: Floats, outside: Floats, placements: Placements
) -> Detection:
    """From the sorted scores of inliers and outliers."""
    estimates: dict[str, Estimate] = {}
    wanted, delta = settings.metrics, settings.delta
    if "auroc" in wanted:
        estimates["auroc"] = mean_auroc_interval(placements, delta=delta)
    if "auroc_guaranteed" in wanted:  # conformal_auroc(method="betting"), from the same sort
        estimates["auroc_guaranteed"] = mean_bounds(placements.inlier, delta=delta, two_sided=True)
    if "fpr95" in wanted:
        caught = outside[threshold_place(outside.size, _TPR, "outlier")]
        kept = inside[threshold_place(inside.size, _TPR, "inlier")]
        rejected = inside.size - int(np.searchsorted(inside, caught, side="left"))
        accepted = int(np.searchsorted(outside, kept, side="right"))
        estimates["fpr95_outlier_positive"] = proportion_interval(rejected, inside.size, delta=delta)
        estimates["fpr95_inlier_positive"] = proportion_interval(accepted, outside.size, delta=delta)
    if "aupr" in wanted:
        value = average_precision(inside, outside)
        estimates["aupr"] = Estimate(value, np.nan, np.nan, np.nan, inside.size + outside.size, "no interval")
    return Detection(block, method, **estimates)


def _selective(
    method: Method, block: Block, settings: Settings, steps: Steps, right: Floats, wrong: Floats
) -> Iterator[Record]:
    """From the steps of acceptance, and the sorted scores of right and of wrong answers."""
    wanted = [name for name in ("aurc", "augrc") if name in settings.metrics]
    estimates = step_intervals(steps, wanted, delta=settings.delta)
    if not block.outlier and "auroc" in settings.metrics and right.size and wrong.size:
        below_right, below_wrong = cross_shares(right, wrong)
        placements = Placements(1 - below_right, (below_wrong,))  # an interval does not ask whose they are
        estimates["auroc_of_errors"] = mean_auroc_interval(placements, delta=settings.delta)
    yield Selective(block, method, **estimates)
    coverage, risk = risk_points(steps)
    none = np.full(coverage.size, np.nan)
    yield Curve(block, str(method), "risk", coverage, risk, none, none)


# -- the model itself -------------------------------------------------------------------------------------------------


def measure_model(parts: Parts, block: Block, settings: Settings) -> Iterator[Record]:
    """Everything that depends on no score: the data, accuracy and calibration, answers, prediction sets."""
    yield from _data(parts, block)
    inlier = parts.held_out
    if not inlier.has("correct"):
        return
    rows = hashlib.sha256(np.ascontiguousarray(inlier.labels, dtype="<i8").data).hexdigest()[:16]
    yield Answers(block, "inlier", parts.correct.astype(np.float64), rows)
    if parts.calibration is not None and parts.calibration.has("correct"):
        yield Answers(block, "calibration", parts.calibration.correct.astype(np.float64))
    probs = inlier.probs if inlier.has("probs") else None  # once for all that follows
    yield from _quality(inlier, probs, block, settings)
    yield from _sets(parts, probs, block, settings)


def _data(parts: Parts, block: Block) -> Iterator[Data]:
    for key, outputs in parts.roles().items():
        kind, _, name = key.partition(":")
        role: Role = kind  # type: ignore[assignment]
        fields = ", ".join(f"{key} {'x'.join(map(str, shape))}" for key, (shape, _) in outputs.stored().items())
        yield Data(replace(block, outlier=name), role, outputs.n, outputs.n_classes or 0, fields)


def _quality(inlier: Outputs, probs: Floats | None, block: Block, settings: Settings) -> Iterator[Record]:
    wanted, delta = settings.metrics, settings.delta
    estimates = {"accuracy": accuracy(inlier, delta=delta, name=block.model)} if "accuracy" in wanted else {}
    proper = {"ece", "brier", "nll"} & set(wanted)
    reason = _uncalibrated(inlier)
    if proper and not reason:
        rng = stream(settings.seed, "bootstrap", "calibration")
        quality = calibration(inlier, rng=rng, delta=delta, resamples=settings.resamples, probs=probs)
        numbers = {name: getattr(quality, name) for name in ("ece", "brier", "nll") if name in wanted}
        estimates |= {name: number for name, number in numbers.items() if number is not None}
    yield ModelFacts(block, **estimates)
    for name in ("ece", "brier", "nll"):
        if name in proper and name not in estimates:
            yield Left(block, Method(name), reason if name == "ece" else "needs probs")
    if reason:
        return
    if probs is not None:
        bins = reliability(probs=probs, labels=inlier.labels)
    else:
        bins = reliability(confidence=inlier.confidence, correct=inlier.correct)
    shares = [
        proportion_interval(round(share * count), int(count), delta=delta)
        for share, count in zip(bins.accuracy, bins.count, strict=True)
    ]
    yield Curve(block, "model", "reliability", bins.confidence, *_ends(shares))


def _uncalibrated(inlier: Outputs) -> str:
    """Why the model gives no probability of its answer, as a phrase; empty if it does."""
    if inlier.has("probs"):
        return ""
    if not inlier.has("confidence"):
        return "needs probs, or a confidence in the prediction"
    inside = bool(((inlier.confidence >= 0) & (inlier.confidence <= 1)).all())
    return "" if inside else "needs a confidence between 0 and 1"


def _sets(parts: Parts, probs: Floats | None, block: Block, settings: Settings) -> Iterator[Record]:
    inlier, held = parts.held_out, parts.calibration
    if probs is None:
        if settings.sets:
            yield Left(block, Method("prediction sets"), "needs probs")
        yield _by_class(inlier, block, settings)
        return
    if held is None or not held.has("correct") or not settings.sets:
        yield _by_class(inlier, block, settings)
        return
    ease, how = _ease(inlier, settings.seed)
    for name in settings.sets:
        rngs = (stream(settings.seed, "sets", name, step) for step in ("calibrate", "inlier", "calibration"))
        with warnings.catch_warnings():  # a calibration set that is too small is said in the result
            warnings.simplefilter("ignore", CaveatWarning)
            # Randomized, as published: without u, a sure network ties aps at a mass of 1, and sets hold every label.
            method = SplitSets(name, alpha=settings.alpha).calibrate(held, next(rngs))
        sets = method.predict(inlier, rng=next(rngs))
        covered = sets.covers(inlier.labels)
        hits = int(covered.sum())
        if name == next(iter(settings.sets)):
            yield _by_class(inlier, block, settings, name, covered)
            yield EmptySets(block, "inlier", name, (sets.sizes == 0).astype(np.float64))
            own = method.predict(held, rng=next(rngs)).sizes
            yield EmptySets(block, "calibration", name, (own == 0).astype(np.float64))
        facts = _sizes(sets, block, name)
        facts = replace(
            facts, promised=sets.level, coverage=proportion_interval(hits, inlier.n, delta=settings.delta),
            verdict=coverage_verdict(hits, inlier.n, n_calibration=held.n, alpha=settings.alpha).verdict,
            n_calibration=held.n, caveat=sets.caveat, sscv=sscv(covered=covered, sizes=sets.sizes, alpha=sets.alpha),
        )  # fmt: skip
        if ease is not None:
            ranks = true_ranks(probs=probs, labels=inlier.labels)
            facts, curves = _by_difficulty(facts, sets, covered, ranks, ease, how, settings.delta)
            yield from curves
        yield facts
        for outlier, outputs in parts.outliers.items():
            if outputs.has("probs"):
                rng = stream(settings.seed, "sets", name, "outlier", outlier)
                yield _sizes(method.predict(outputs, rng=rng), replace(block, outlier=outlier), name)


def _by_class(
    inlier: Outputs, block: Block, settings: Settings, sets: str = "", covered: NDArray[np.bool_] | None = None
) -> ClassFacts:
    """Right answers, and sets that hold the true class, among the samples of each class."""
    classes = int(inlier.n_classes or 0)
    names = inlier.class_names or tuple(map(str, range(classes)))

    def among(rows: NDArray[np.bool_]) -> Floats:
        return np.bincount(inlier.labels[rows], minlength=classes).astype(np.float64)

    return ClassFacts(block, names, among(np.ones(inlier.n, dtype=np.bool_)), among(inlier.correct), settings.delta,
                      sets, None if covered is None else among(covered))  # fmt: skip


def _sizes(sets: PredictionSets, block: Block, name: str) -> SetFacts:
    shares = np.bincount(sets.sizes, minlength=sets.n_classes + 1) / sets.n
    return SetFacts(block, name, sets.alpha, float(sets.sizes.mean()), shares, sets.n)


def _ease(outputs: Outputs, seed: int) -> tuple[Floats | None, str]:
    if outputs.has("ease_probs"):
        return ease_of(outputs), "ease from transformed inputs"
    if outputs.has("logits"):
        rng = stream(seed, "ease")
        ease = logit_noise_ease(outputs, sigma=_SIGMA, rng=rng, copies=_COPIES, shared=True)
        return ease, "ease from noise on the logits"
    return None, ""


def _by_difficulty(
    facts: SetFacts, sets: PredictionSets, covered: NDArray[np.bool_], ranks: NDArray[np.intp], ease: Floats, how: str,
    delta: float,
) -> tuple[SetFacts, list[Curve]]:  # fmt: skip
    # All that follows groups the rows by ease: one sort here, and later sorts of what is sorted take no time.
    order = np.argsort(ease, kind="stable")
    covered, ranks, sizes, ease = covered[order], ranks[order], sets.sizes[order], ease[order]
    bins = min(_PAPER_BINS, sets.n // _LEAST_IN_BIN)
    if bins >= 2:
        with warnings.catch_warnings():  # T-SS is NaN where no difficulty can be seen, and a record can say that
            warnings.simplefilter("ignore", CaveatWarning)
            follows = t_ss(sizes=sizes, ranks=ranks, ease=ease, bins=bins)
        violation = t_cv(covered=covered, ease=ease, alpha=sets.alpha, bins=bins)
        caveat = f"{facts.caveat} T-CV and T-SS: {bins} bins, {how}.".strip()
        facts = replace(facts, t_cv=violation, t_ss=follows, caveat=caveat)
    shown = min(_SHOWN_BINS, sets.n)
    number = equal_mass(ease, shown)
    x = np.arange(shown, dtype=np.float64)
    none = np.full(shown, np.nan)
    curves = [
        Curve(facts.block, facts.set_method, f"{name}_by_difficulty", x, bin_means(values, number, shown), none, none)
        for name, values in (("size", sizes), ("rank", ranks))
    ]
    shares = [proportion_interval(int(covered[number == i].sum()), int((number == i).sum()), delta=delta)
              for i in range(shown)]  # fmt: skip
    return facts, [*curves, Curve(facts.block, facts.set_method, "coverage_by_difficulty", x, *_ends(shares))]


def _ends(shares: list[Estimate]) -> tuple[Floats, Floats, Floats]:
    value, lower, upper = np.array([(share.value, share.lower, share.upper) for share in shares]).T
    return value, lower, upper
