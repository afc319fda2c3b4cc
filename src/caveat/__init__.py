"""Caveat tells you when not to trust a classifier, and proves how often it will be wrong about that.

``Outputs`` holds what a model said about a data set. Scores measure how far each sample is from the training data;
conformal prediction turns scores into p-values, sets and thresholds with guarantees; an evaluation ends in a decision,
and a guard ships it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from caveat.errors import CaveatError, CaveatWarning, InputError, MissingExtraError, NotFittedError, StoreError

if TYPE_CHECKING:
    from caveat import (
        conformal,
        demo,
        drift,
        estimators,
        evaluation,
        guard,
        metrics,
        plots,
        report,
        results,
        scale,
        scores,
        stats,
    )
    from caveat.estimators import wrap
    from caveat.evaluation import evaluate
    from caveat.guard import Guard
    from caveat.outputs import Head, Outputs

__version__ = "0.2.0"

__all__ = [
    "CaveatError",
    "CaveatWarning",
    "Guard",
    "Head",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "Outputs",
    "StoreError",
    "conformal",
    "demo",
    "drift",
    "estimators",
    "evaluate",
    "evaluation",
    "guard",
    "metrics",
    "plots",
    "report",
    "results",
    "scale",
    "scores",
    "stats",
    "wrap",
]

_SUBMODULES = frozenset(
    {
        "nn",
        "conformal",
        "demo",
        "drift",
        "estimators",
        "evaluation",
        "guard",
        "metrics",
        "outputs",
        "plots",
        "report",
        "results",
        "scale",
        "scores",
        "stats",
    }
)
_PLACES = {"Guard": "guard", "Head": "outputs", "Outputs": "outputs", "evaluate": "evaluation", "wrap": "estimators"}


def __getattr__(name: str) -> Any:
    # Loaded on first use: numpy and scipy take longer to import than `caveat --help` should take.
    if name in _SUBMODULES:
        return importlib.import_module(f"caveat.{name}")
    if name in _PLACES:
        return getattr(importlib.import_module(f"caveat.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'caveat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_PLACES})
