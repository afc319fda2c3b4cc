"""Certified and adversarial detection on arrays: what holds whatever an attacker does. No torch."""

from caveat_lab.robust.certified_sets import certified_sets
from caveat_lab.robust.density_ratio import (
    DensityRatio,
    eigenvalue_radius,
    fit_density_ratio,
    gated_log_confidence,
    metric_radius,
)
from caveat_lab.robust.detection import (
    Sandwich,
    adversarial_auroc,
    conformal_guaranteed_auroc,
    guaranteed_aupr,
    guaranteed_auroc,
    guaranteed_fpr_at_tpr,
    sandwich,
    two_sided_auroc,
)
from caveat_lab.robust.mixtures import Mixture, fit_mixture
from caveat_lab.robust.network import Network
from caveat_lab.robust.smoothing import smoothed_mean_bounds, smoothed_quantile_bounds

__all__ = [
    "DensityRatio",
    "Mixture",
    "Network",
    "Sandwich",
    "adversarial_auroc",
    "certified_sets",
    "conformal_guaranteed_auroc",
    "eigenvalue_radius",
    "fit_density_ratio",
    "fit_mixture",
    "gated_log_confidence",
    "guaranteed_aupr",
    "guaranteed_auroc",
    "guaranteed_fpr_at_tpr",
    "metric_radius",
    "sandwich",
    "smoothed_mean_bounds",
    "smoothed_quantile_bounds",
    "two_sided_auroc",
]
