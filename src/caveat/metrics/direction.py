"""Which way a metric points, by its name: whether larger values are better."""

from __future__ import annotations

import re

__all__ = ["higher_is_better"]

# Words of a name, in lower case without digits: fpr95_outlier_positive is read as fpr, outlier, positive.
_HIGHER = {"auroc", "auc", "aupr", "auprc", "gauc", "aauc", "accuracy", "acc", "precision", "recall", "tpr", "tau"}
_LOWER = {
    "aurc", "augrc", "fpr", "fnr", "ece", "nll", "brier", "error", "errors", "loss", "risk", "rmse", "mae", "mse",
    "covgap", "sscv", "escv", "deficit", "excess",
}  # fmt: skip
_BY_NAME = {"t_cv": False, "rank_cv": False, "t_ss": True, "rank_ss": True, "mean_size": False, "mean_width": False}


def higher_is_better(metric: str) -> bool | None:
    """Whether a larger value of the metric is better; None where the name does not tell.

    Names as in the tables of Caveat and of other benchmarks. Coverage has no direction: it should equal its promise.

    Examples
    --------
    >>> [higher_is_better(name) for name in ("mean_auroc", "FPR@95", "augrc", "coverage", "value")]
    [True, False, False, None, None]
    """
    if (direction := _BY_NAME.get(metric.strip().lower())) is not None:
        return direction
    words = set(re.findall("[a-z]+", metric.lower()))
    higher, lower = bool(words & _HIGHER), bool(words & _LOWER)
    return None if higher == lower else higher
