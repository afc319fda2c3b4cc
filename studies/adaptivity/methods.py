"""The six methods of the study on one split, with the adaptivity metrics of each."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from caveat import Outputs
from caveat.conformal import SAPS, DifficultySets, SplitSets, tune_difficulty, tune_raps, tune_saps
from caveat.conformal.tuning import WEIGHTS
from caveat.errors import CaveatWarning
from caveat.metrics import adaptivity, t_cv, t_cv_interval, t_ss, t_ss_interval, true_ranks
from caveat.results import PredictionSets

METHODS = ("LAC", "APS", "RAPS", "SAPS", "O-LAC", "O-SAPS")
BINS, OTHER_BINS = 50, (30, 100)  # of T-CV and T-SS: Tables 2 and 5, Tables 9 and 8
IMAGES, IMAGE_BINS = 2400, 12  # of the network trained here: the first test images; half are tested, 100 to a bin
HUMAN_BINS = 10  # by human entropy: half of the images have none, and a tenth of the test half is 500 images

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


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
    for name, scores in (("O-LAC", ("lac",)), ("O-SAPS", tuple(SAPS(w) for w in WEIGHTS))):
        best = tune_difficulty(val[tune], ease_tune, alpha, rng=rng, scores=scores)
        sets = DifficultySets(best.score, alpha=alpha, bins=int(best.bins or 10))
        kind = str(best.ease)
        sets.calibrate(val[cal], rng, binning=ease_tune[kind], ease=ease_val[kind][cal])
        found[name] = sets.predict(new, rng, ease=ease_new[kind])
    return found


def halves(n: int, seed: int) -> tuple[Places, Places]:
    """Rows for validation and for testing."""
    order = np.random.default_rng([seed, 1]).permutation(n)
    return order[: n // 2], order[n // 2 :]


def split_sets(
    outputs: Outputs, ease: Mapping[str, Floats], *, alpha: float, seed: int
) -> tuple[dict[str, PredictionSets], Places]:
    """Sets of every method on one random half-and-half split into validation and test data, and the rows tested."""
    val, new = halves(outputs.n, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)  # a bin too small for alpha
        sets = all_sets(
            outputs[val],
            outputs[new],
            ease_val={name: values[val] for name, values in ease.items()},
            ease_new={name: values[new] for name, values in ease.items()},
            alpha=alpha,
            seed=seed,
        )
    return sets, new


def compare(
    outputs: Outputs,
    ease: Mapping[str, Floats],
    judge: Floats,
    *,
    alpha: float,
    seed: int,
    bins: int = BINS,
    other_bins: tuple[int, ...] = (),
    human: Floats | None = None,
    intervals: bool = False,
) -> dict[str, dict[str, float]]:
    """Every metric of every method on one random split.

    ``human``: entropy of the labels that people gave to each image, as another judge of difficulty.
    """
    sets, new = split_sets(outputs, ease, alpha=alpha, seed=seed)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)  # an undefined T-SS is NaN in the table
        for name, one in sets.items():
            values = adaptivity(one, outputs[new], ease=judge[new], bins=bins)
            hits, sizes = one.covers(outputs.labels[new]), one.sizes
            ranks = true_ranks(probs=outputs.probs[new], labels=outputs.labels[new])
            for count in other_bins:
                values[f"T-CV {count}"] = t_cv(covered=hits, ease=judge[new], alpha=alpha, bins=count)
                values[f"T-SS {count}"] = t_ss(sizes=sizes, ranks=ranks, ease=judge[new], bins=count)
            if human is not None:
                sure = -human[new]
                values["human"] = rank_correlation(sizes, human[new])
                values["human T-CV"] = t_cv(covered=hits, ease=sure, alpha=alpha, bins=HUMAN_BINS)
                values["human T-SS"] = t_ss(sizes=sizes, ranks=ranks, ease=sure, bins=HUMAN_BINS)
            if intervals:
                worst = t_cv_interval(covered=hits, ease=judge[new], alpha=alpha, bins=bins)
                follow = t_ss_interval(sizes=sizes, ranks=ranks, ease=judge[new], rng=seed, bins=bins, repeats=200)
                values |= {"T-CV low": worst.lower, "T-CV high": worst.upper}
                values |= {"T-SS low": follow.lower, "T-SS high": follow.upper}
            found[name] = values
    return found


def rank_correlation(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Spearman's; 0 where one does not vary: nothing is followed."""
    first, second = (ranks_of(values) for values in (a, b))
    spread = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / spread) if spread > 0 else 0.0


def ranks_of(values: NDArray[Any]) -> Floats:
    """Ranks less their mean; ties share theirs."""
    ranks = rankdata(values)
    return np.asarray(ranks - ranks.mean())
