r"""Paired tests of two models on the same rows, where each has its own answers and its own score.

- accuracy: McNemar's exact test.
- AURC and AUGRC: rows are resampled once for all models, each with its own answers. The difference over the bootstrap's
  standard error is compared with a normal distribution. Percentiles of the same resamples are too sure of themselves
  where there are few errors: with 10 errors for each of two models that are alike, a test at 5 % rejected 7 to 8 % by
  percentiles and 3 to 5 % by the standard error (1,500 to 2,500 simulations).
- AUROC of errors: DeLong's test compares two scores of the same right and wrong answers, which two models do not have.
  Here a row is a cluster with one answer by each model, and the deviations of its placements are summed before they are
  squared (Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics 53(2), 1997). Where both models
  are right on the same rows this is DeLong's test. A test at 5 % rejected 5.3 % with 20 errors and 6.6 % with 10.
- AUROC of outliers: which rows are outliers is the same for both models, and DeLong's paired test applies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from caveat._internal.checks import Rng, as_count, as_rng
from caveat.metrics import Placements, paired_p_value
from caveat.metrics._resampling import AREAS, Cells, area_of, resample
from caveat.metrics.auroc_intervals import difference_interval
from caveat.results import Estimate, PairedTest
from caveat.stats._model_rows import ModelRows
from caveat.stats.mcnemar import mcnemar

__all__ = ["paired_tests"]

_FEW = 10  # errors; the levels above were simulated down to this many
_FEW_ERRORS = f"A model has fewer than {_FEW} errors; with so few, the test is only a rough guide."


def paired_tests(
    models: Mapping[str, ModelRows], questions: Sequence[str], *, delta: float, rng: Rng, resamples: int
) -> dict[str, dict[tuple[str, str], PairedTest]]:
    """Question -> pair of models -> test. All pairs and both areas see the same resamples."""
    as_count(resamples, "resamples", least=2)
    rng = as_rng(rng)
    areas = {question: AREAS[question] for question in questions if question in ("aurc", "augrc")}
    cells = {name: Cells(model.score, model.correct) for name, model in models.items()}
    values = {question: {name: area_of(cell, area) for name, cell in cells.items()} for question, area in areas.items()}
    drawn: dict[str, dict[str, NDArray[np.float64]]] = {}
    if areas:
        table = resample(list(cells.values()), list(areas.values()), resamples=resamples, rng=rng)
        drawn = {question: dict(zip(cells, table[:, :, k].T, strict=True)) for k, question in enumerate(areas)}
    tests: dict[str, dict[tuple[str, str], PairedTest]] = {question: {} for question in questions}
    for a, b in combinations(models, 2):
        first, second = models[a], models[b]
        accuracy = mcnemar(first=first.correct, second=second.correct, delta=delta)
        for question in questions:
            if question == "accuracy":
                test = accuracy
            elif question in areas:
                at, gaps = values[question], drawn[question][a] - drawn[question][b]
                few = min(first.errors, second.errors) < _FEW
                test = _bootstrap_test(question, at[a], at[b], gaps, accuracy, delta=delta, few=few)
            elif question == "auroc_of_errors":
                test = _error_auroc_test(first, second, delta=delta)
            else:
                test = _outlier_auroc_test(first, second, delta=delta)
            tests[question][a, b] = test
    return tests


def _bootstrap_test(
    metric: str, first: float, second: float, gaps: NDArray[np.float64], accuracy: PairedTest, *, delta: float,
    few: bool,
) -> PairedTest:  # fmt: skip
    value, spread = first - second, float(gaps.std(ddof=1))
    p_value = float(2 * ndtr(-abs(value) / spread)) if spread > 0 else 1.0
    caveat = _FEW_ERRORS if few else ""
    if spread == 0 and value != 0:  # a resample can only repeat what the answers say
        p_value, caveat = accuracy.p_value, "Every resample gives the same difference: the p-value is McNemar's."
    n = accuracy.difference.n
    return PairedTest(metric, first, second, _normal(value, spread, n, "paired bootstrap", caveat, delta), p_value)


def _error_auroc_test(first: ModelRows, second: ModelRows, *, delta: float) -> PairedTest:
    """Difference of the AUROC of errors, each model with its own errors."""
    if np.array_equal(first.correct, second.correct):
        placed = [_placements(model) for model in (first, second)]
        return _delong("auroc_of_errors", placed[0], placed[1], delta=delta)
    (area, shares), (other, others) = _row_shares(first), _row_shares(second)
    value, spread, n = area - other, float(np.linalg.norm(shares - others)), first.score.size
    fewest = min(min(model.errors, n - model.errors) for model in (first, second))
    if fewest > 1 and spread > 0:
        p_value = float(2 * ndtr(-abs(value) / spread))
        estimate = _normal(value, spread, n, "DeLong by rows", _FEW_ERRORS if fewest < _FEW else "", delta)
    else:
        # One answer of a kind says nothing of its spread. Hoeffding's bound for the disjoint pairs of one model holds.
        p_value, half = min(1.0, float(2 * np.exp(-fewest * value**2 / 2))), np.sqrt(2 * np.log(2 / delta) / fewest)
        caveat = f"A model has {fewest} right or wrong answers; the interval is that of as many disjoint pairs."
        lower, upper = max(-1.0, value - float(half)), min(1.0, value + float(half))
        estimate = Estimate(value, lower, upper, level=1 - delta, n=n, method="disjoint pairs", caveat=caveat)
    return PairedTest("auroc_of_errors", area, other, estimate, p_value)


def _row_shares(model: ModelRows) -> tuple[float, NDArray[np.float64]]:
    """AUROC of errors, and the part of each row in its deviation; the sum of their squares is DeLong's variance."""
    placed, shares = _placements(model), np.empty(model.score.size)
    for rows, placements in ((model.correct, placed.inlier), (~model.correct, placed.outliers[0])):
        k = placements.size
        shares[rows] = (placements - placed.auroc) / np.sqrt(k * max(1, k - 1))
    return placed.auroc, shares


def _placements(model: ModelRows) -> Placements:
    return Placements.of(inlier=model.score[model.correct], outliers=[model.score[~model.correct]])


def _outlier_auroc_test(first: ModelRows, second: ModelRows, *, delta: float) -> PairedTest:
    placed = [
        Placements.of(inlier=model.score, outliers=[model.outliers[key] for key in first.outliers])
        for model in (first, second)
    ]
    return _delong("auroc", placed[0], placed[1], delta=delta)


def _delong(metric: str, first: Placements, second: Placements, *, delta: float) -> PairedTest:
    estimate = difference_interval(first, second, delta=delta)
    return PairedTest(metric, first.auroc, second.auroc, estimate, paired_p_value(first, second))


def _normal(value: float, spread: float, n: int, method: str, caveat: str, delta: float) -> Estimate:
    half = -float(ndtri(delta / 2)) * spread
    return Estimate(value, value - half, value + half, level=1 - delta, n=n, method=method, caveat=caveat)
