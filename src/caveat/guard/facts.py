"""What a calibrated guard is, as plain values: settings, thresholds, promises, day, splits, fingerprint."""

from __future__ import annotations

import math
from typing import Any

from caveat.guard.guard import Guard

__all__ = ["guard_facts"]


def guard_facts(guard: Guard) -> dict[str, Any]:
    """The guard for machines; a threshold that is not finite (nothing is promised) is None.

    >>> import numpy as np
    >>> from caveat import Outputs
    >>> logits = np.random.default_rng(0).normal(size=(300, 3))
    >>> facts = guard_facts(Guard("energy", sets=None).calibrate(Outputs(logits=logits), date="2026-11-18"))
    >>> facts["calibrated_at"], facts["settings"]["score"], facts["promises"][0]["holds"]
    ('2026-11-18', ['Energy(temperature=1.0)'], True)
    """
    return {
        "fingerprint": guard.fingerprint,
        "calibrated_at": guard.calibrated_at_,
        "settings": guard.settings(),
        "threshold": _finite(guard.threshold_),
        "accept_below": None if guard.accept_below_ is None else _finite(guard.accept_below_),
        "promises": [promise.to_dict() for promise in guard.promises],
        "splits": guard.splits_,
        "watched": list(guard.watched_),
        "domain": guard.domain_.to_dict(),
        "class_names": None if guard.class_names_ is None else list(guard.class_names_),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
