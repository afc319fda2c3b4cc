"""One evaluation: one measuring code, one tie rule, one place that decides."""

from caveat.evaluation.decide import Caught, Decision
from caveat.evaluation.evaluation import Evaluation, evaluate
from caveat.evaluation.findings import Assessment, assess
from caveat.evaluation.measure import METRICS, Settings
from caveat.evaluation.parts import Parts
from caveat.evaluation.rank import rank_methods

__all__ = [
    "METRICS",
    "Assessment",
    "Caught",
    "Decision",
    "Evaluation",
    "Parts",
    "Settings",
    "assess",
    "evaluate",
    "rank_methods",
]
