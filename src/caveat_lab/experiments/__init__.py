"""Studies: from a plan to records that can be resumed, for one model or many."""

from caveat_lab.experiments.cells import Cell
from caveat_lab.experiments.plan import Plan
from caveat_lab.experiments.runner import Outcome, StudyProgress, run
from caveat_lab.experiments.sources import SourceOutputs
from caveat_lab.experiments.store import Failure, Store
from caveat_lab.experiments.study_results import StudyResults

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
