r"""The one rule of ties. Within one model a paired test on the same samples; over models and seeds a rank test.

Within one model: all pairs of methods by DeLong's paired test of the mean AUROC over the outlier sets, Holm over all
pairs. For the model's own errors the same test compares right with wrong answers; it is a test of AUGRC too, because on
the same answers $AUGRC_a - AUGRC_b = (AUROC_b - AUROC_a)\, n_{right} n_{wrong} / n^2$. Over several models or seeds:
Friedman, then Conover-Holm on ranks (``caveat.stats.compare``). Both fill a ``Comparison``; guaranteed intervals are
shown for information and decide no rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from caveat._internal.ranking import Ranked
from caveat.metrics import Placements, paired_p_value
from caveat.results import Comparison
from caveat.stats._pairs import best_first, comparison_of_pairs

__all__ = ["error_placements", "rank_methods"]


def error_placements(score: Ranked, correct: NDArray[np.bool_]) -> Placements:
    """Placements of right against wrong answers: how well a score warns of the model's own errors."""
    return Placements.of_ranked(score.part(correct), [score.part(~correct)])


def rank_methods(placements: Mapping[str, Placements], *, alpha: float = 0.05) -> Comparison:
    """Methods on the same samples by their mean AUROC, with the groups that cannot be told apart.

    Parameters
    ----------
    placements
        Method -> placements of its scores, all of the same samples.
    alpha
        Level of the tests after Holm's adjustment.

    Returns
    -------
    Comparison
        ``layers`` holds the methods from best to worst.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> inlier, outlier = rng.normal(size=400), rng.normal(3, size=400)
    >>> good = Placements.of(inlier=inlier, outliers=[outlier])
    >>> same = Placements.of(inlier=2 * inlier, outliers=[2 * outlier])
    >>> poor = Placements.of(inlier=inlier, outliers=[rng.normal(1, size=400)])
    >>> ranking = rank_methods({"poor": poor, "good": good, "same": same})
    >>> ranking.layers, ranking.rank("same"), ranking.rank("poor")
    ((('good', 'same'), ('poor',)), 1, 3)
    """
    areas = {name: placed.auroc for name, placed in placements.items()}
    names = best_first(areas, lower_is_better=False)
    return comparison_of_pairs(
        {name: areas[name] for name in names},
        [paired_p_value(placements[a], placements[b]) for a, b in combinations(names, 2)],
        alpha=alpha, lower_is_better=False, posthoc="delong",
        n_blocks=len(next(iter(placements.values())).outliers) if placements else 0,
    )  # fmt: skip
