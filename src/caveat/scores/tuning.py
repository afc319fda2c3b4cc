"""Hyper-parameters chosen on ID validation data, by how well a score finds the model's own errors.

The parameters with the smallest AUGRC of misclassification on held-out inliers are kept, as in Claros-Olivares and
Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection Under Representation and Training Paradigm Shifts",
appendix E. Outliers are used only if the caller passes ``outlier=``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal import ranking
from caveat._internal.checks import Rng, as_kind, as_list, as_vector, check_known
from caveat._internal.params import parameters
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.outputs.roles import check_roles
from caveat.scores._base import Score
from caveat.scores.catalogue import make
from caveat.scores.outlier_detector import OutlierDetector
from caveat.scores.together import fit_all

__all__ = ["Trial", "Tuned", "tune"]


@final
@dataclass(frozen=True)
class Trial:
    """One point of the grid: its value, or NaN and the reason why it could not be computed.

    Parameters
    ----------
    params
        Parameters of this point.
    value
        The metric, or NaN.
    skipped
        Why the value could not be computed, or empty.

    Examples
    --------
    >>> outputs = Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1])
    >>> [trial.params for trial in tune("gen", {"gamma": [0.1, 0.9]}, validation=outputs).table]
    [{'gamma': 0.1}, {'gamma': 0.9}]
    """

    params: Mapping[str, Any]
    value: float
    skipped: str = ""


@final
@dataclass(frozen=True, eq=False)
class Tuned:
    """The chosen score, fitted, and every point that was tried.

    Parameters
    ----------
    score
        Fitted, with the chosen parameters.
    params
        The chosen parameters.
    value
        What they reached on the data they were chosen on: better than on new data will be.
    metric
        ``"augrc"`` of misclassification (lower is better), or ``"auroc"`` against outliers (higher is better).
    table
        Every point of the grid, in its order.
    n
        How many samples the choice rests on.
    caveat
        What limits the result, in one sentence; empty if nothing does.

    Examples
    --------
    >>> outputs = Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1])
    >>> tuned = tune("gen", {"gamma": [0.1, 0.9]}, validation=outputs)
    >>> tuned.params, tuned.metric, tuned.n
    ({'gamma': 0.1}, 'augrc', 3)
    """

    score: Score
    params: Mapping[str, Any]
    value: float
    metric: str
    table: tuple[Trial, ...]
    n: int
    caveat: str = ""


def tune(
    score: str | type[Score] | Score,
    grid: Mapping[str, Iterable[Any]] | None = None,
    *,
    train: Outputs | None = None,
    validation: Outputs,
    outlier: Outputs | None = None,
    rng: Rng = 0,
) -> Tuned:
    """Try every point of a grid and keep the best, fitted.

    Without ``outlier`` only ID data decide: the smallest AUGRC of the validation errors. With it, the largest AUROC of
    the outliers against the validation data, and the result says so. On a tie the point that changes the fewest
    defaults wins, then the first. All points share the walks over ``train``.

    Parameters
    ----------
    score
        A name of the catalogue, a score class, or a score whose other parameters are kept.
    grid
        Parameter -> values; default ``grid_for`` of the score. Of a projected score (``Projected``, ``Tempered``),
        also parameters of the score inside.
    train
        Training outputs, where the score learns.
    validation
        Held-out ID outputs; with labels, unless ``outlier`` is given.
    outlier
        Outliers to choose on. Do not report detection on the same ones. No rows may be in two of the sets.
    rng
        Seed of the random steps of the fits, as in ``Score.fit``; the same for every point.

    Returns
    -------
    Tuned
        ``score`` is the best one, fitted; ``table`` holds every point that was tried.

    Examples
    --------
    >>> outputs = Outputs(logits=[[3.0, 0.0, 0.0], [2.0, 1.9, -9.0], [2.0, 0.5, 0.5]], labels=[0, 1, 0])
    >>> best = tune("gen", {"gamma": [0.1, 0.9]}, validation=outputs)
    >>> best.score, [(trial.params["gamma"], round(trial.value, 3)) for trial in best.table]
    (GEN(gamma=0.9, top=100), [(0.1, 0.278), (0.9, 0.056)])
    """
    for name, outputs in (("validation", validation), ("train", train), ("outlier", outlier)):
        if outputs is not None or name == "validation":
            demand(outputs, who="tune", name=name)
    check_roles({"train": train, "validation": validation, "outlier": outlier})
    return search(score, grid, train=train, validation=validation, outlier=outlier, rng=rng)


def search(
    score: str | type[Score] | Score, grid: Mapping[str, Iterable[Any]] | None = None, *, train: Outputs | None,
    validation: Outputs, outlier: Outputs | None = None, rng: Rng = 0,
) -> Tuned:  # fmt: skip
    """``tune`` on outputs whose roles have been checked."""
    made = make(score) if isinstance(score, str) else score
    template = made() if isinstance(made, type) and issubclass(made, Score) else as_kind(made, Score, "score")
    label = template.name
    points = list(_points(template, template.grid_for(validation) if grid is None else grid, label))
    correct = _judged_by(validation, outlier)
    candidates = [changed(template, params) for params in points]
    looked_at = [validation] if outlier is None else [validation, outlier]
    reasons = [
        next((why for outputs in looked_at if (why := point.missing(train=train, outputs=outputs))), "")
        for point in candidates
    ]
    if all(reasons):
        raise InputError(f"score '{label}' cannot be tuned on these outputs: it {reasons[0]}.")

    if train is not None:
        fit_all([point for point, why in zip(candidates, reasons, strict=True) if not why], train, rng=rng)

    table: list[Trial] = []
    best: tuple[tuple[float, int], Score, Trial] | None = None
    for params, point, why in zip(points, candidates, reasons, strict=True):
        if why:
            table.append(Trial(params, float("nan"), skipped=why))
            continue
        inlier, *outliers = (as_vector(values, f"score '{label}'", allow_infinite=True)
                            for values in _scores_of(point, looked_at))  # fmt: skip
        value = ranking.auroc(inlier, outliers[0]) if outliers else ranking.augrc(inlier, correct)
        cost = -value if outliers else value
        trial = Trial(params, value)
        table.append(trial)
        moved = sum(params[key] != getattr(_owner(template, key), key) for key in params)
        if best is None or (cost, moved) < best[0]:
            best = ((cost, moved), point, trial)
    assert best is not None
    _, winner, chosen = best
    caveat = "" if outlier is None else "Chosen on outliers: detection of the same outliers is not a test any more."
    return Tuned(
        score=winner,
        params=chosen.params,
        value=chosen.value,
        metric="augrc" if outlier is None else "auroc",
        table=tuple(table),
        n=validation.n + (0 if outlier is None else outlier.n),
        caveat=caveat,
    )


def changed(score: Score, params: Mapping[str, Any]) -> Score:
    """A copy of a score with other parameters; of a projected one, what it has not itself goes to the score inside.

    >>> from caveat.scores import GEN, Projected
    >>> changed(Projected(GEN(), "global"), {"gamma": 0.5, "variance": 0.8})
    Projected(inner=GEN(gamma=0.5, top=100), projection='global', variance=0.8)
    """
    inner: Score | None = getattr(score, "inner", None)
    own = {key: value for key, value in params.items() if key in _names(score)}
    if inner is not None:
        own["inner"] = changed(inner, {key: value for key, value in params.items() if key not in own})
    return replace(score, **own)  # type: ignore[type-var]


def _names(score: Score) -> list[str]:
    return [field.name for field in parameters(score) if field.name not in ("inner", "projection", "temperature")
            or not hasattr(score, "inner")]  # fmt: skip


def _owner(score: Score, key: str) -> Score:
    """The score that has a parameter: itself, or the one inside."""
    while key not in _names(score):
        score = score.inner  # type: ignore[attr-defined]
    return score


def _points(template: Score, grid: Mapping[str, Iterable[Any]], label: str) -> Iterable[dict[str, Any]]:
    """Every combination of the grid."""
    grid = as_kind(grid, Mapping, "grid")
    values = {key: as_list(choice, f"grid[{key!r}]") for key, choice in grid.items()}
    if not values:
        raise InputError(f"score '{label}' has no default grid. Pass grid={{parameter: values}}.")
    allowed, inside = _names(template), template
    while (inside := getattr(inside, "inner", None)) is not None:  # type: ignore[assignment]
        allowed += _names(inside)
    for key in values:
        check_known(key, allowed, f"parameter of score '{label}'")
    return (dict(zip(values, point, strict=True)) for point in itertools.product(*values.values()))


def _scores_of(point: Score, outputs: list[Outputs]) -> Iterable[NDArray[np.float64]]:
    """Scores of each set; in one batch where they would not be comparable otherwise."""
    return point.score_together(*outputs) if isinstance(point, OutlierDetector) else map(point.score, outputs)


def _judged_by(validation: Outputs, outlier: Outputs | None) -> NDArray[np.bool_]:
    """Which validation predictions are right, where those decide."""
    if outlier is not None:
        return np.ones(validation.n, dtype=np.bool_)
    demand(validation, "correct", who="tuning without outlier=", name="validation")
    correct = np.asarray(validation.correct)
    if correct.all() or not correct.any():
        what = "right" if correct.all() else "wrong"
        raise InputError(f"validation must hold right and wrong predictions to choose by, but all {correct.size} are "
                         f"{what}. Use more held-out data.")  # fmt: skip
    return correct
