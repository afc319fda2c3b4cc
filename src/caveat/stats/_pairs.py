"""From the p-values of all pairs to ranks, cliques and layers: one rule for methods and for models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from caveat.results import Comparison
from caveat.stats.cliques import layers, maximal_cliques
from caveat.stats.posthoc import holm
from caveat.stats.ranks import mid_ranks

__all__ = ["best_first", "comparison_of_pairs"]


def best_first(values: Mapping[str, float], *, lower_is_better: bool) -> list[str]:
    """The names from the best value to the worst; by name where values are equal."""
    return sorted(values, key=lambda name: (values[name] if lower_is_better else -values[name], name))


def comparison_of_pairs(
    values: Mapping[str, float],
    p_values: Sequence[float] | NDArray[np.float64],
    *,
    alpha: float,
    lower_is_better: bool,
    posthoc: str,
    n_blocks: int,
    what: str = "methods",
) -> Comparison:
    """Ranks and ties on the same samples; ``values`` are best first, ``p_values`` those of their combinations."""
    names = list(values)
    k = len(names)
    p = np.ones((k, k))
    upper = np.triu_indices(k, 1)
    p[upper] = holm(p_values)
    p.T[upper] = p[upper]
    ranks = mid_ranks(np.array([list(values.values())]), lower_is_better=lower_is_better)[0]
    tied = p >= alpha

    def named(groups: list[tuple[int, ...]]) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(names[i] for i in group) for group in groups)

    none = float("nan")
    pairs = {(a, b): float(p[i, j]) for (i, a), (j, b) in combinations(enumerate(names), 2)}
    return Comparison(
        average_ranks=dict(zip(names, ranks.tolist(), strict=True)), statistic=none, p_value=none,
        pairwise=pairs | {(b, a): value for (a, b), value in pairs.items()},
        cliques=named(maximal_cliques(tied, ranks)), layers=named(layers(tied, ranks)), f_statistic=none,
        f_p_value=none, kendall_w=none, posthoc=posthoc, alpha=alpha, lower_is_better=lower_is_better,
        n_blocks=n_blocks, what=what, values=dict(values),
    )  # fmt: skip
