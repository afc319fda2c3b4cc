"""The six methods of the study on one split, with the adaptivity metrics of each."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from caveat import Outputs
from caveat.conformal import SAPS, DifficultySets, SplitSets, tune_difficulty, tune_raps, tune_saps
from caveat.conformal.tuning import WEIGHTS
from caveat.errors import CaveatWarning
from caveat.metrics import adaptivity
from caveat.results import PredictionSets

METHODS = ("LAC", "APS", "RAPS", "SAPS", "O-LAC", "O-SAPS")

Floats = NDArray[np.float64]


def all_sets(
    val: Outputs,
    new: Outputs,
    *,
    ease_val: Mapping[str, Floats],
    ease_new: Mapping[str, Floats],
    alpha: float,
    seed: int,
) -> dict[str, PredictionSets]:
    """Sets of every method from the same validation data.

    LAC and APS calibrate on all of it. The others tune on one half and calibrate on the other; the difficulty bins are
    set on the tuning half, so that coverage within bins is promised.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(val.n)
    tune, cal = np.sort(order[: val.n // 2]), np.sort(order[val.n // 2 :])
    ease_tune = {name: values[tune] for name, values in ease_val.items()}
    found = {
        "LAC": SplitSets("lac", alpha=alpha).calibrate(val).predict(new),
        "APS": SplitSets("aps", alpha=alpha).calibrate(val, rng).predict(new, rng),
    }
    for name, choose in (("RAPS", tune_raps), ("SAPS", tune_saps)):
        score = choose(val[tune], alpha, rng=rng).score
        found[name] = SplitSets(score, alpha=alpha).calibrate(val[cal], rng).predict(new, rng)
    for name, scores in (("O-LAC", ("lac",)), ("O-SAPS", tuple(SAPS(w) for w in WEIGHTS[::3]))):
        best = tune_difficulty(val[tune], ease_tune, alpha, rng=rng, scores=scores)
        sets = DifficultySets(best.score, alpha=alpha, bins=int(best.bins or 10))
        kind = str(best.ease)
        sets.calibrate(val[cal], rng, binning=ease_tune[kind], ease=ease_val[kind][cal])
        found[name] = sets.predict(new, rng, ease=ease_new[kind])
    return found


def compare(
    outputs: Outputs, ease: Mapping[str, Floats], judge: Floats, *, alpha: float, seed: int, bins: int = 50
) -> dict[str, dict[str, float]]:
    """Every metric of every method on one random half-and-half split into validation and test data."""
    order = np.random.default_rng([seed, 1]).permutation(outputs.n)
    val, new = order[: outputs.n // 2], order[outputs.n // 2 :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)  # an undefined T-SS is NaN in the table
        sets = all_sets(
            outputs[val],
            outputs[new],
            ease_val={name: values[val] for name, values in ease.items()},
            ease_new={name: values[new] for name, values in ease.items()},
            alpha=alpha,
            seed=seed,
        )
        return {name: adaptivity(s, outputs[new], ease=judge[new], bins=bins) for name, s in sets.items()}
