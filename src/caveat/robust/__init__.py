"""Certified and adversarial detection on arrays: what holds whatever an attacker does. No torch."""

from caveat._density_ratio import (
    DensityRatio,
    eigenvalue_radius,
    fit_density_ratio,
    gated_log_confidence,
    metric_radius,
)
from caveat._mixtures import Mixture, fit_mixture

__all__ = [
    "DensityRatio",
    "Mixture",
    "eigenvalue_radius",
    "fit_density_ratio",
    "fit_mixture",
    "gated_log_confidence",
    "metric_radius",
]
