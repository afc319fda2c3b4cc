"""Which models of a study differ, by the same rule of ties as its scores.

Models that answered the same rows are compared in pairs on those rows, Holm over the pairs (``stats.rank_models``).
Over several seeds a seed is a block: Friedman, then Conover-Holm on ranks (``stats.compare``). Models of other rows are
not compared: a difference could come from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_known
from caveat.evaluation.records import Answers, Record, Scores
from caveat.metrics import augrc, aurc, auroc
from caveat.results import Comparison
from caveat.results.model_comparison import HIGHER_IS_BETTER
from caveat.stats import compare
from caveat.stats._model_rows import ModelRows
from caveat.stats.rank_models import rank_rows

__all__ = ["ModelRanking", "rank_study_models"]

_Values = Mapping[tuple[str, int, str, str, str], NDArray[np.float64]]  # model, seed, role, outlier set, method
_PREFERRED = "msp"  # every classifier has it


@final
@dataclass(frozen=True, eq=False)
class ModelRanking:
    """Question -> ranking of the models; empty with the reason where they cannot be compared.

    ``method`` is the score that ranks the rows of every model: all questions but accuracy depend on it.
    """

    rankings: Mapping[str, Comparison]
    method: str = ""
    reason: str = ""


def rank_study_models(
    records: Iterable[Record],
    *,
    method: str | None = None,
    alpha: float = 0.05,
) -> ModelRanking:
    """Rank the models of a study by accuracy, and by selective risk and detection with one score that all have.

    ``method``: as the study names it; default msp, or the first by name that all models have.
    """
    kept = [record for record in records if isinstance(record, (Scores, Answers))]
    answers = {(r.block.model, r.block.seed): r for r in kept if isinstance(r, Answers) and r.role == "inlier"}
    models = list(dict.fromkeys(model for model, _ in answers))
    if len(models) < 2:
        return ModelRanking({}, reason="fewer than two models have labels")
    seeds = [s for s in dict.fromkeys(s for _, s in answers) if all((model, s) in answers for model in models)]
    if not seeds:
        return ModelRanking({}, reason="no seed has all models")
    for s in seeds:
        rows = {(answers[model, s].labels, answers[model, s].correct.size) for model in models}
        if len(rows) > 1 or not answers[models[0], s].labels:
            return ModelRanking({}, reason="the models were not measured on the same rows in the same order")
    scores: _Values = {(r.block.model, r.block.seed, r.role, r.block.outlier, str(r.method)): r.values
              for r in kept if isinstance(r, Scores)}  # fmt: skip
    common = _common_methods(scores, models, seeds)
    if method is not None:
        check_known(method, common, "score that all models have")
    chosen = method or (_PREFERRED if _PREFERRED in common else next(iter(common), ""))
    by_seed = [{model: _rows(scores, answers[model, s], chosen, models) for model in models} for s in seeds]
    questions = None if chosen else ["accuracy"]
    if len(seeds) == 1:
        return ModelRanking(rank_rows(by_seed[0], questions, alpha=alpha), chosen)
    return ModelRanking(_over_seeds(by_seed, models, questions, alpha), chosen)


def _common_methods(scores: _Values, models: list[str], seeds: list[int]) -> list[str]:
    names = sorted({name for *_, name in scores})
    return [name for name in names if all((m, s, "inlier", "", name) in scores for m in models for s in seeds)]


def _rows(scores: _Values, answers: Answers, method: str, models: list[str]) -> ModelRows:
    """One model on its rows; the outlier sets are those that every model has, with as many rows."""
    right, (model, seed) = answers.correct.astype(np.bool_), (answers.block.model, answers.block.seed)
    if not method:
        return ModelRows(np.zeros(right.size), right)
    own = {o for m, s, role, o, name in scores if (m, s, role, name) == (model, seed, "outlier", method)}
    sizes = {o: {scores[m, seed, "outlier", o, method].size if (m, seed, "outlier", o, method) in scores else -1
                 for m in models} for o in sorted(own)}  # fmt: skip
    shared = {o: scores[model, seed, "outlier", o, method] for o, lengths in sizes.items() if len(lengths) == 1}
    return ModelRows(scores[model, seed, "inlier", "", method], right, None, shared)


def _over_seeds(
    by_seed: list[dict[str, ModelRows]], models: list[str], questions: list[str] | None, alpha: float
) -> dict[str, Comparison]:
    """Every seed is a block; questions that a model cannot be asked in some seed are left out."""
    rankings = {}
    for question in questions or HIGHER_IS_BETTER:
        values = np.array([[_value(rows[model], question) for model in models] for rows in by_seed])
        if np.isfinite(values).all():
            ranked = compare(values, alpha, not HIGHER_IS_BETTER[question], methods=models)
            means = dict(zip(models, values.mean(axis=0).tolist(), strict=True))
            rankings[question] = replace(ranked, what="models", values=means)
    return rankings


def _value(rows: ModelRows, question: str) -> float:
    if question == "accuracy":
        return float(rows.correct.mean())
    if question in ("aurc", "augrc"):
        return {"aurc": aurc, "augrc": augrc}[question](score=rows.score, correct=rows.correct)
    if question == "auroc_of_errors":
        one_kind = rows.errors in (0, rows.correct.size)
        return np.nan if one_kind else auroc(inlier=rows.score[rows.correct], outlier=rows.score[~rows.correct])
    areas = [auroc(inlier=rows.score, outlier=values) for values in rows.outliers.values()]
    return float(np.mean(areas)) if areas else np.nan
