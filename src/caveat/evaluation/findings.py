"""Everything that a report prints, of one model or of many: records, what they amount to, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, final

from caveat.evaluation.assess import Assessment
from caveat.evaluation.model_ranking import ModelRanking
from caveat.evaluation.records import Record

__all__ = ["CellFacts", "FailureFacts", "Findings"]

R = TypeVar("R")


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

    def of(self, kind: type[R]) -> list[R]:
        """The records of one kind."""
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def models(self) -> tuple[tuple[str, int], ...]:
        """Every model and seed, in the order of the records."""
        return tuple(dict.fromkeys((record.block.model, record.block.seed) for record in self.records))
