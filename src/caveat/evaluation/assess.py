"""From the records of one model to its ranking and decision, for an evaluation and for a study of one model alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from caveat.evaluation.decide import Decision, ModelScores, decide
from caveat.evaluation.rank import error_placements, rank_methods
from caveat.evaluation.records import Answers, Method, Record, Scores, SetFacts
from caveat.metrics import Placements
from caveat.results import Comparison

__all__ = ["Assessment", "assess"]


@final
@dataclass(frozen=True, eq=False)
class Assessment:
    """What the records of one model amount to.

    ``ranking`` compares methods by their mean AUROC over the outlier sets, ``by_regime`` over the sets of each regime,
    ``errors`` by how well they warn of the model's own errors. None where there is nothing to compare.
    """

    ranking: Comparison | None
    by_regime: Mapping[str, Comparison]
    errors: Comparison | None
    decision: Decision | None


def assess(
    records: Iterable[Record], *, false_alarm: float, risk: float, delta: float, seed: int, regime: str = ""
) -> Assessment:
    """Rank the methods of one model and seed, and decide; ``regime`` restricts the choice to its outlier sets."""
    kept = [record for record in records if isinstance(record, (Scores, Answers, SetFacts))]
    scores = _collect(kept)
    sets = next((r for r in kept if isinstance(r, SetFacts) and not r.block.outlier), None)
    regimes = scores.regimes or {}
    ranking = _ranking(scores, list(scores.outliers), delta)
    names = list(dict.fromkeys(name for name in regimes.values() if name))
    by_regime = {
        name: found
        for name in names
        if (found := _ranking(scores, [o for o in scores.outliers if regimes.get(o) == name], delta)) is not None
    }
    errors = None
    right = scores.correct
    if right is not None and right.any() and not right.all() and len(scores.inlier) > 1:
        errors = rank_methods({m: error_placements(v, right) for m, v in scores.inlier.items()}, alpha=delta)
    chosen_by = by_regime.get(regime, ranking) if regime else ranking
    decision = decide(scores, chosen_by, errors, sets, false_alarm=false_alarm, risk=risk, delta=delta, seed=seed)
    return Assessment(ranking, by_regime, errors, decision)


def _ranking(scores: ModelScores, outliers: list[str], delta: float) -> Comparison | None:
    if not outliers or not scores.inlier:
        return None
    complete = [m for m in scores.inlier if all(m in scores.outliers[o] for o in outliers)]
    placements = {
        m: Placements.of(inlier=scores.inlier[m], outliers=[scores.outliers[o][m] for o in outliers]) for m in complete
    }
    return rank_methods(placements, alpha=delta) if placements else None


def _collect(records: list[Scores | Answers | SetFacts]) -> ModelScores:
    inlier, calibration = {}, {}
    outliers: dict[str, dict[str, np.ndarray]] = {}
    confirm: dict[str, dict[str, np.ndarray]] = {}
    methods: dict[str, Method] = {}
    regimes: dict[str, str] = {}
    answers = {}
    for record in records:
        if isinstance(record, Answers):
            answers[record.role] = record.correct.astype(np.bool_)
        elif isinstance(record, Scores):
            name = str(record.method)
            methods[name] = record.method
            if record.role == "inlier":
                inlier[name] = record.values
            elif record.role == "calibration":
                calibration[name] = record.values
            else:
                sets = outliers if record.role == "outlier" else confirm
                sets.setdefault(record.block.outlier, {})[name] = record.values
                regimes.setdefault(record.block.outlier, record.block.regime)
    return ModelScores(
        inlier, calibration, outliers, confirm, methods, answers.get("inlier"), answers.get("calibration"), regimes
    )
