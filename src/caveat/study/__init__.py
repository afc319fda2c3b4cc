"""Studies: from a plan to records that can be resumed, for one model or many."""

from caveat.study.cells import Cell
from caveat.study.plan import Plan
from caveat.study.runner import Outcome, StudyProgress, run
from caveat.study.sources import SourceOutputs
from caveat.study.store import Failure, Store
from caveat.study.study_results import StudyResults

__all__ = [
    "Cell",
    "Failure",
    "Outcome",
    "Plan",
    "SourceOutputs",
    "Store",
    "StudyProgress",
    "StudyResults",
    "run",
]
