"""Bounds of the outputs of a network for all inputs near one: boxes, logit differences, confidence."""

from caveat_lab.bounds.arithmetic import FLOAT64, REAL, Arithmetic, arithmetic_of
from caveat_lab.bounds.box import Box, input_box
from caveat_lab.bounds.certify import confidence_bounds, epsilon_star, label_bounds
from caveat_lab.bounds.confidence import (
    confidence_loss,
    effective_gate,
    gated_log_confidence,
    joint_log_probabilities,
    largest_difference,
    log_confidence,
    log_confidence_lower,
    log_confidence_upper,
    log_probability_lower,
    log_probability_upper,
    spread_loss,
    spread_upper,
)
from caveat_lab.bounds.differences import difference_bounds, largest_difference_bound
from caveat_lab.bounds.export import export_network
from caveat_lab.bounds.interval import propagate
from caveat_lab.bounds.rules import register_rule

__all__ = [
    "FLOAT64",
    "REAL",
    "Arithmetic",
    "Box",
    "arithmetic_of",
    "confidence_bounds",
    "confidence_loss",
    "difference_bounds",
    "effective_gate",
    "epsilon_star",
    "export_network",
    "gated_log_confidence",
    "input_box",
    "joint_log_probabilities",
    "label_bounds",
    "largest_difference",
    "largest_difference_bound",
    "log_confidence",
    "log_confidence_lower",
    "log_confidence_upper",
    "log_probability_lower",
    "log_probability_upper",
    "propagate",
    "register_rule",
    "spread_loss",
    "spread_upper",
]
