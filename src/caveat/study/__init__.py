"""Studies: from outputs to numbers that a report can print."""

from caveat.study.evaluation import (
    DataFacts,
    Detection,
    Evaluation,
    Misclassification,
    Ranked,
    SetFacts,
)
from caveat.study.measuring import evaluate

__all__ = ["DataFacts", "Detection", "Evaluation", "Misclassification", "Ranked", "SetFacts", "evaluate"]
