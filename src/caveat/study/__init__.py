"""Studies: from outputs to numbers that a report can print, and from a plan to a table that can be resumed."""

from caveat.study.cells import Cell
from caveat.study.evaluation import (
    DataFacts,
    Detection,
    Evaluation,
    Misclassification,
    Ranked,
    SetFacts,
)
from caveat.study.measuring import evaluate
from caveat.study.plan import Plan
from caveat.study.runner import Outcome, StudyProgress, run
from caveat.study.sources import SourceOutputs
from caveat.study.store import Failure, Store
from caveat.study.study_results import StudyResults

__all__ = [
    "Cell",
    "DataFacts",
    "Detection",
    "Evaluation",
    "Failure",
    "Misclassification",
    "Outcome",
    "Plan",
    "Ranked",
    "SetFacts",
    "SourceOutputs",
    "Store",
    "StudyProgress",
    "StudyResults",
    "evaluate",
    "run",
]
