r"""The one rule of ties. Within one model a paired test on the same samples; over models and seeds a rank test.

Within one model: all pairs of methods by DeLong's paired test of the mean AUROC over the outlier sets, Holm over all
pairs. For the model's own errors the same test compares right with wrong answers; it is a test of AUGRC too, because on
the same answers $AUGRC_a - AUGRC_b = (AUROC_b - AUROC_a)\, n_{right} n_{wrong} / n^2$. Over several models or seeds:
Friedman, then Conover-Holm on ranks (``caveat.stats.compare``). Both fill a ``Comparison``; guaranteed intervals are
shown for information and decide no rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.ranking import Ranked
from caveat.metrics import Placements
from caveat.metrics.auroc_intervals import paired_p_values
from caveat.results import Comparison
from caveat.stats._pairs import best_first, comparison_of_pairs

__all__ = ["Sorted", "error_placements", "rank_methods"]

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Sorted:
    """What measuring has sorted already: inliers by method, placements by method and outlier set."""

    inliers: dict[str, Ranked] = field(default_factory=dict)
    placements: dict[tuple[str, str], Placements] = field(default_factory=dict)

    @classmethod
    def of(cls, inlier: Mapping[str, Floats], outliers: Mapping[str, Mapping[str, Floats]]) -> Sorted:
        """From the scores of each method on the inliers, and on each outlier set."""
        ranked = {method: Ranked.of(values) for method, values in inlier.items()}
        placements = {
            (method, name): Placements.of_ranked(ranked[method], [Ranked.of(values)])
            for name, methods in outliers.items() for method, values in methods.items() if method in ranked
        }  # fmt: skip
        return cls(ranked, placements)

    def over(self, method: str, outliers: Sequence[str]) -> Placements:
        """Placements of a method against several outlier sets together: what ``Placements.of`` gives."""
        each = [self.placements[method, name] for name in outliers]
        if len(each) == 1:
            return each[0]
        return Placements(
            np.asarray(sum(one.inlier for one in each) / len(each)), tuple(one.outliers[0] for one in each)
        )


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
        paired_p_values([placements[name] for name in names]),
        alpha=alpha, lower_is_better=False, posthoc="delong",
        n_blocks=len(next(iter(placements.values())).outliers) if placements else 0,
    )  # fmt: skip
