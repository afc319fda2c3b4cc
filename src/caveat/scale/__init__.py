"""Fit, score, test and evaluate on more rows than fit into memory, on one machine or many."""

from caveat._internal.ranges import merge_in_tree
from caveat.scale.bounds import DetectionBounds, detection, detection_bounds
from caveat.scale.evaluating import evaluate
from caveat.scale.fitting import fit, walks
from caveat.scale.guarding import Predicted, predict
from caveat.scale.neighbors import knn_scores
from caveat.scale.parts import Parts, open_parts, score_parts
from caveat.scale.runner import Runner, compute
from caveat.scale.scoring import PValues, p_values, score, select_outliers
from caveat.scale.sources import Source, open_source, sample

__all__ = [
    "DetectionBounds",
    "PValues",
    "Parts",
    "Predicted",
    "Runner",
    "Source",
    "compute",
    "detection",
    "detection_bounds",
    "evaluate",
    "fit",
    "knn_scores",
    "merge_in_tree",
    "open_parts",
    "open_source",
    "p_values",
    "predict",
    "sample",
    "score",
    "score_parts",
    "select_outliers",
    "walks",
]
