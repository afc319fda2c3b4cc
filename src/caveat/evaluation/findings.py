"""From records to what a report prints: ranking and decision of every model, and how the numbers came about."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, TypeVar, final

import numpy as np

from caveat import __version__
from caveat.evaluation.decide import Decision, ModelScores, decide
from caveat.evaluation.model_ranking import ModelRanking
from caveat.evaluation.rank import Sorted, error_placements, rank_methods
from caveat.evaluation.records import Answers, EmptySets, Record, Scores, SetFacts
from caveat.results import Comparison

__all__ = ["Assessment", "CellFacts", "FailureFacts", "Findings", "assess", "versions"]

R = TypeVar("R")


@final
@dataclass(frozen=True, eq=False)
class Assessment:
    """What the records of one model amount to.

    Parameters
    ----------
    ranking
        Methods by their mean AUROC over the outlier sets; None where there is nothing to compare.
    by_regime
        Regime -> the same over its outlier sets.
    errors
        Methods by how well they warn of the model's own errors, or None.
    decision
        The chosen score and threshold, or None.

    Examples
    --------
    >>> import numpy as np
    >>> from caveat import Outputs, evaluate
    >>> result = evaluate(inlier=Outputs(logits=np.random.default_rng(0).normal(size=(600, 3))), scores=["msp"])
    >>> result.assessment.ranking, result.assessment.decision.method.score
    (None, 'msp')
    """

    ranking: Comparison | None
    by_regime: Mapping[str, Comparison]
    errors: Comparison | None
    decision: Decision | None


@final
@dataclass(frozen=True)
class CellFacts:
    """One cell of a study: its key, what it held, how long it took, with what it was made."""

    key: str
    label: str
    seconds: float
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class FailureFacts:
    """One cell that ended with an error."""

    key: str
    label: str
    error: str


@final
@dataclass(frozen=True, eq=False)
class Findings:
    """What a report reads, and nothing else.

    Parameters
    ----------
    title, about
        Heading and a sentence or two.
    records
        Every measured fact, of all models and seeds.
    assessments
        (model, seed) -> ranking and decision.
    alpha, delta, false_alarm, risk
        What was asked for.
    split
        Whether a random half of the inliers calibrated.
    cells, failures, missing, notes
        How a study went: finished cells, failed ones, how many are missing, what the plan left out. An evaluation has
        one cell.
    plan
        The plan as text; empty for an evaluation.
    model_ranking
        Which models of a study differ; None for an evaluation.
    groups
        Model -> its group, in a study over a matrix: scores are ranked within each group.
    """

    title: str
    records: Sequence[Record]
    assessments: Mapping[tuple[str, int], Assessment]
    alpha: float
    delta: float
    false_alarm: float
    risk: float
    split: bool = False
    about: str = ""
    cells: Sequence[CellFacts] = ()
    failures: Sequence[FailureFacts] = ()
    missing: int = 0
    notes: Sequence[str] = ()
    plan: str = ""
    model_ranking: ModelRanking | None = None
    groups: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: type[R]) -> list[R]:
        """The records of one kind."""
        return list(self._by_kind.get(kind, ()))

    @cached_property
    def _by_kind(self) -> dict[type[Any], list[Any]]:
        kinds: dict[type[Any], list[Any]] = {}
        for record in self.records:
            kinds.setdefault(type(record), []).append(record)
        return kinds

    @property
    def models(self) -> tuple[tuple[str, int], ...]:
        """Every model and seed, in the order of the records."""
        return tuple(dict.fromkeys((record.block.model, record.block.seed) for record in self.records))


@cache
def versions() -> Mapping[str, str]:
    """Name -> version of Caveat, Python and the packages that do the arithmetic.

    >>> list(versions())
    ['caveat', 'python', 'numpy', 'scipy', 'scikit-learn']
    """
    own = {"caveat": __version__, "python": platform.python_version()}
    return MappingProxyType(own | {name: version(name) for name in ("numpy", "scipy", "scikit-learn")})


def assess(
    records: Iterable[Record],
    *,
    false_alarm: float,
    risk: float,
    delta: float,
    seed: int,
    regime: str = "",
    sorted_: Sorted | None = None,
) -> Assessment:
    """Rank the methods of one model and seed, and decide.

    Parameters
    ----------
    records
        Measured facts, with the scores.
    false_alarm, risk, delta, seed
        As for ``caveat.evaluate``.
    regime
        Choose by the outlier sets of this regime alone; empty: by all.
    sorted_
        The scores in order, where measuring them has sorted them already.

    Returns
    -------
    Assessment
        ``ranking``, ``by_regime``, ``errors`` and ``decision``.

    Examples
    --------
    >>> import numpy as np
    >>> from caveat import Outputs, evaluate
    >>> result = evaluate(inlier=Outputs(logits=np.random.default_rng(0).normal(size=(600, 3))), scores=["msp"])
    >>> assess(result.records, false_alarm=0.1, risk=0.05, delta=0.05, seed=0).decision.method.score
    'msp'
    """
    kept = [record for record in records if isinstance(record, (Scores, Answers, SetFacts, EmptySets))]
    scores = _collect(kept)
    sets = next((r for r in kept if isinstance(r, SetFacts) and not r.block.outlier), None)
    regimes = scores.regimes
    if sorted_ is None:
        sorted_ = Sorted.of(scores.inlier, scores.outliers)
    ranking = _ranking(scores, list(scores.outliers), delta, sorted_)
    names = list(dict.fromkeys(name for name in regimes.values() if name))
    by_regime = {
        name: comparison
        for name in names
        if (comparison := _ranking(scores, [o for o in scores.outliers if regimes.get(o) == name], delta, sorted_))
        is not None
    }
    errors = None
    right = scores.correct.get("inlier")
    if right is not None and right.any() and not right.all() and len(scores.inlier) > 1:
        errors = rank_methods({m: error_placements(sorted_.inliers[m], right) for m in scores.inlier}, alpha=delta)
    chosen_by = by_regime.get(regime, ranking) if regime else ranking
    decision = decide(scores, chosen_by, errors, sets, false_alarm=false_alarm, risk=risk, delta=delta, seed=seed)
    return Assessment(ranking, by_regime, errors, decision)


def _ranking(scores: ModelScores, outliers: list[str], delta: float, sorted_: Sorted) -> Comparison | None:
    if not outliers or not scores.inlier:
        return None
    complete = [m for m in scores.inlier if all(m in scores.outliers[o] for o in outliers)]
    placements = {m: sorted_.over(m, outliers) for m in complete}
    return rank_methods(placements, alpha=delta) if placements else None


def _collect(records: list[Scores | Answers | SetFacts | EmptySets]) -> ModelScores:
    scores = ModelScores()
    for record in records:
        if isinstance(record, Answers):
            scores.correct[record.role] = record.correct.astype(np.bool_)
        elif isinstance(record, EmptySets):
            scores.empty[record.role] = record.empty.astype(np.bool_)
        elif isinstance(record, Scores):
            name, block = str(record.method), record.block
            scores.methods[name] = record.method
            if block.outlier:
                sets = scores.outliers if record.role == "outlier" else scores.confirm
                sets.setdefault(block.outlier, {})[name] = record.values
                scores.regimes.setdefault(block.outlier, block.regime)
            else:
                (scores.inlier if record.role == "inlier" else scores.calibration)[name] = record.values
    return scores
