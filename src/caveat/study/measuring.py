"""One evaluation: every applicable score on one model's outputs, measured."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from caveat._checks import as_count, as_level, check_known
from caveat._roles import check_roles
from caveat._streams import stream
from caveat.conformal import SplitSets
from caveat.errors import CaveatWarning, InputError
from caveat.metrics import (
    Placements,
    accuracy,
    augrc_interval,
    auroc_interval,
    conformal_auroc,
    coverage_verdict,
    mean_auroc_interval,
    ood_failures,
    paired_p_value,
    proportion_interval,
    risk_curve,
)
from caveat.metrics.detection import detection_threshold
from caveat.outputs import Outputs
from caveat.results import Estimate
from caveat.scores import Score, applicable, catalogue
from caveat.scores.together import fit_all
from caveat.stats.posthoc import holm
from caveat.study.calibration_split import HALVES, calibration_split
from caveat.study.evaluation import DataFacts, Detection, Evaluation, Misclassification, Ranked, SetFacts
from caveat.study.versions import versions

__all__ = ["Progress", "evaluate"]

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are."""


def evaluate(
    *,
    train: Outputs | None,
    inlier: Outputs,
    outliers: Mapping[str, Outputs],
    calibration: Outputs | None = None,
    names: Iterable[str] | None = None,
    title: str = "Evaluation",
    alpha: float = 0.1,
    delta: float = 0.05,
    tpr: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Compute every applicable score on one model's outputs and measure it.

    Parameters
    ----------
    train
        Outputs on the training data; scores that learn are skipped without it.
    inlier
        Held-out outputs from the training distribution; with labels, errors and prediction sets are measured too.
    outliers
        Name -> outputs from elsewhere.
    calibration
        Held-out inliers for the prediction sets and for a temperature. Without it a random half of ``inlier``
        calibrates and the other half is looked at; detection always uses all of ``inlier``.
    names
        Scores to compute; default all that the outputs allow.
    alpha, delta, tpr
        Allowed error of the sets, allowed failure of each interval, true-positive rate at which false positives are
        counted.
    seed
        Seeds the split into halves and the bootstrap, each by a stream of its own: what one score gets does not depend
        on which others were asked for.
    progress
        Told what is being done.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sure = Outputs(logits=rng.normal(size=(200, 3)) + 5 * np.eye(3)[rng.integers(3, size=200)])
    >>> unsure = Outputs(logits=rng.normal(size=(100, 3)))
    >>> result = evaluate(train=None, inlier=sure, outliers={"noise": unsure}, names=["msp", "energy"])
    >>> [(line.rank, line.score, round(line.mean_auroc.value, 2)) for line in result.ranking]
    [(1, 'energy', 1.0), (1, 'msp', 0.99)]
    """
    as_level(alpha, "alpha")
    as_level(delta, "delta")
    as_count(seed, "seed", least=0)
    started = time.perf_counter()
    _same_classes(train=train, calibration=calibration, inlier=inlier, outliers=outliers)
    chosen, skipped = _choose(train, inlier, outliers, names)
    check_roles({"train": train, "calibration": calibration, "inlier": inlier}, outliers)
    data = _describe(train=train, calibration=calibration, inlier=inlier, outliers=outliers, delta=delta)

    steps, done = 1 + len(chosen) * 2, 0

    def tell(what: str) -> None:
        nonlocal done
        if progress is not None:
            progress(what, done, steps)
        done += 1

    tell("fitting scores")
    chosen = {name: score.without_class_scores() for name, score in chosen.items()}
    if train is not None:
        fit_all(chosen.values(), train, calibration)
    strangeness: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, score in chosen.items():
        tell(f"scoring {name}")
        strangeness[name] = {"inlier": score.score(inlier)} | {k: score.score(v) for k, v in outliers.items()}

    correct = inlier.correct
    detections: list[Detection] = []
    misclassifications: list[Misclassification] = []
    placements: dict[str, Placements] = {}
    bands: dict[str, Estimate] = {}
    for name, values in strangeness.items():
        tell(f"measuring {name}")
        placements[name] = Placements.of(inlier=values["inlier"], outliers=[values[o] for o in outliers])
        found = [_detect(name, outlier, values, correct, tpr=tpr, delta=delta, seed=seed) for outlier in outliers]
        detections += found
        bands[name] = _mean_band([row.auroc_band for row in found])
        if correct is not None:
            misclassifications.append(_misclassify(name, values["inlier"], correct, delta=delta, seed=seed))

    return Evaluation(
        title=title,
        data=data,
        detections=tuple(detections),
        ranking=_rank(placements, bands, delta=delta),
        misclassifications=tuple(misclassifications),
        sets=_sets(inlier, calibration, outliers, alpha=alpha, delta=delta, seed=seed),
        strangeness=strangeness,
        skipped=skipped,
        alpha=alpha,
        delta=delta,
        tpr=tpr,
        seed=seed,
        seconds=time.perf_counter() - started,
        versions=versions(),
    )


def _choose(
    train: Outputs | None, inlier: Outputs, outliers: Mapping[str, Outputs], names: Iterable[str] | None
) -> tuple[dict[str, Score], dict[str, str]]:
    if not outliers:
        raise InputError("outliers must name at least one set of outputs, got none.")
    if taken := {"inlier", ""} & set(outliers):
        raise InputError(f"an outlier set cannot be called '{taken.pop()}'. Give it another name.")
    can, cannot = applicable(train, inlier, *outliers.values())
    if names is not None:
        wanted = [check_known(name, [entry.name for entry in catalogue()], "score") for name in names]
        for name in wanted:
            if name in cannot:
                raise InputError(f"score '{name}' {cannot[name]}. Add it to the outputs, or leave the score out.")
        can, cannot = {name: can[name] for name in wanted}, {}
    if not can:
        raise InputError(
            f"no score can be computed from these outputs: {'; '.join(f'{k} {v}' for k, v in cannot.items())}."
        )
    return can, cannot


def _same_classes(
    *, train: Outputs | None, calibration: Outputs | None, inlier: Outputs, outliers: Mapping[str, Outputs]
) -> None:
    expected = inlier.n_classes
    for name, outputs in {"train": train, "calibration": calibration, **outliers}.items():
        columns = None if outputs is None or not outputs.has("predictions") else outputs.n_classes
        if columns is not None and inlier.has("predictions") and columns != expected:
            raise InputError(
                f"all outputs must have the same classes, got {expected} in inlier and {columns} in {name}."
            )


def _detect(
    score: str,
    outlier: str,
    values: Mapping[str, NDArray[np.float64]],
    correct: NDArray[np.bool_] | None,
    *,
    tpr: float,
    delta: float,
    seed: int,
) -> Detection:
    inside, outside = values["inlier"], values[outlier]
    caught = detection_threshold(inlier=inside, outlier=outside, tpr=tpr, positive="outlier")
    kept = detection_threshold(inlier=inside, outlier=outside, tpr=tpr, positive="inlier")
    augrc = None
    if correct is not None and correct.any():
        pooled, right = ood_failures(inlier=inside, correct=correct, outlier=outside)
        rng = stream(seed, "bootstrap", score, outlier)
        augrc = augrc_interval(score=pooled, correct=right, rng=rng, delta=delta)
    return Detection(
        score=score,
        outlier=outlier,
        auroc=auroc_interval(inlier=inside, outlier=outside, delta=delta),
        auroc_band=conformal_auroc(inlier=inside, outlier=outside, delta=delta, two_sided=True),
        fpr_outlier_positive=proportion_interval(int((inside >= caught).sum()), inside.size, delta=delta),
        fpr_inlier_positive=proportion_interval(int((outside <= kept).sum()), outside.size, delta=delta),
        augrc=augrc,
    )


def _misclassify(
    score: str, values: NDArray[np.float64], correct: NDArray[np.bool_], *, delta: float, seed: int
) -> Misclassification:
    both = correct.any() and not correct.all()
    return Misclassification(
        score=score,
        augrc=augrc_interval(
            score=values, correct=correct, rng=stream(seed, "bootstrap of own errors", score), delta=delta
        ),
        auroc=auroc_interval(inlier=values[correct], outlier=values[~correct], delta=delta) if both else None,
        curve=risk_curve(score=values, correct=correct),
    )


def _mean_band(bands: list[Estimate]) -> Estimate:
    """Band of the mean over outlier sets: all sets share one band of the inliers, so the bounds hold together."""
    value, lower, upper = np.mean([(band.value, band.lower, band.upper) for band in bands], axis=0).tolist()
    return replace(bands[0], value=value, lower=lower, upper=upper)


def _rank(placements: Mapping[str, Placements], bands: Mapping[str, Estimate], *, delta: float) -> tuple[Ranked, ...]:
    """From the best mean AUROC down. A score that a paired test tells from the leader of its group leads the next."""
    order = sorted(placements, key=lambda name: (-placements[name].auroc, name))
    against_best = _differs_from(order[0], order[1:], placements)
    ranks, leader, against_leader = {order[0]: 1}, 0, against_best
    for i, name in enumerate(order[1:], 1):
        if against_leader[name] <= delta:
            leader, against_leader = i, _differs_from(name, order[i + 1 :], placements)
        ranks[name] = leader + 1
    p_values = {order[0]: 1.0} | against_best
    return tuple(
        Ranked(
            rank=ranks[name],
            score=name,
            mean_auroc=mean_auroc_interval(placements[name], delta=delta),
            p_value=p_values[name],
            told_apart=p_values[name] <= delta,
            auroc_band=bands[name],
            overlaps_best=bands[name].overlaps(bands[order[0]]),
        )
        for name in order
    )


def _differs_from(leader: str, others: list[str], placements: Mapping[str, Placements]) -> dict[str, float]:
    """Holm-adjusted p-values of equal mean AUROC with the leader."""
    raw = [paired_p_value(placements[leader], placements[name]) for name in others]
    return dict(zip(others, holm(raw).tolist(), strict=True))


def _sets(
    inlier: Outputs,
    calibration: Outputs | None,
    outliers: Mapping[str, Outputs],
    *,
    alpha: float,
    delta: float,
    seed: int,
) -> SetFacts | None:
    if not inlier.has("correct"):
        return None
    caveat = ""
    if calibration is None:
        calibration, looked_at = calibration_split(inlier, seed)
        caveat = HALVES
    else:
        looked_at = inlier
    if calibration.n < 1 or not calibration.has("correct"):
        return None
    n_classes = int(inlier.n_classes or 0)
    with warnings.catch_warnings():  # a calibration set that is too small is said in the result, not on the side
        warnings.simplefilter("ignore", CaveatWarning)
        method = SplitSets("lac", alpha=alpha).calibrate(calibration)
    found = method.predict(looked_at)
    hits = int(found.covers(looked_at.labels).sum())
    return SetFacts(
        method="lac",
        alpha=alpha,
        promised=found.level,
        coverage=proportion_interval(hits, looked_at.n, delta=delta),
        verdict=coverage_verdict(hits, looked_at.n, n_calibration=calibration.n, alpha=alpha, delta=delta),
        mean_size=float(found.sizes.mean()),
        sizes=np.bincount(found.sizes, minlength=n_classes + 1),
        outlier_sizes={
            name: np.bincount(method.predict(outputs).sizes, minlength=n_classes + 1)
            for name, outputs in outliers.items()
            if outputs.has("probs")
        },
        n_calibration=calibration.n,
        caveat=" ".join(filter(None, [caveat, found.caveat])),
    )


def _describe(
    *,
    train: Outputs | None,
    calibration: Outputs | None,
    inlier: Outputs,
    outliers: Mapping[str, Outputs],
    delta: float,
) -> tuple[DataFacts, ...]:
    def facts(role: Literal["train", "calibration", "inlier", "outlier"], name: str, outputs: Outputs) -> DataFacts:
        right = None
        if outputs.has("correct"):
            with warnings.catch_warnings():
                if role == "outlier":  # far from the classes, a model may well be worse than a guess
                    warnings.simplefilter("ignore", CaveatWarning)
                right = accuracy(outputs, delta=delta, name=name)
        fields = ", ".join(f"{key} {'x'.join(map(str, shape))}" for key, (shape, _) in outputs.stored().items())
        return DataFacts(role, name, outputs.n, fields, right)

    found = [facts("train", "train", train)] if train is not None else []
    if calibration is not None:
        found.append(facts("calibration", "calibration", calibration))
    found.append(facts("inlier", "inlier", inlier))
    return (*found, *(facts("outlier", name, outputs) for name, outputs in outliers.items()))
