"""Compare methods over blocks: Friedman, post-hoc pairs, cliques and layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from caveat._internal.checks import as_flag, as_level
from caveat.errors import InputError
from caveat.results import Comparison
from caveat.stats.cliques import layers, maximal_cliques
from caveat.stats.posthoc import Posthoc, doubtful_pairs, pairwise_p_values
from caveat.stats.ranks import friedman, mid_ranks
from caveat.stats.tables import read_blocks, read_columns, split_columns

__all__ = ["compare", "compare_regimes"]


def compare(
    table: Any,
    alpha: float = 0.05,
    lower_is_better: bool = True,
    *,
    block: str | Sequence[str] | None = None,
    method: str | None = None,
    value: str | None = None,
    methods: Sequence[str] | None = None,
    posthoc: Posthoc = "conover",
) -> Comparison:
    """Which methods differ over blocks, and which cannot be told apart.

    Friedman on mid-ranks, then all pairs (Conover-Holm by default), then the maximal cliques of the pairs that do not
    differ at ``alpha``, and non-overlapping layers from best to worst. Where the Iman-Davenport test (for small tables
    the exact one) does not reject that all methods are alike, no methods are told apart: one clique, one layer.
    Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", section 4.2 and
    appendix C.

    Blocks must be independent replicates of one metric: AURC and AUGRC of the same run are two families, not two
    blocks.

    Parameters
    ----------
    table
        Blocks x methods as an array, columns (a dict, a pandas or pyarrow table), rows (a list of dicts) or the path of
        a CSV or Parquet file. Long if ``method`` and ``value`` are named, wide otherwise.
    alpha
        Level of the tests.
    lower_is_better
        Whether a small value is good, as for AURC, AUGRC and FPR; False for AUROC.
    block, method, value
        Columns of a long table: those that say which rows were measured together, the method's name, the number.
    methods
        Names of the columns of a plain array, or the methods of a table to compare; default all.
    posthoc
        ``"conover"``, ``"nemenyi"`` or ``"wilcoxon"``. Conover's test pools the variance of all methods. It is the
        sharpest, but of two methods that are alike among others far apart it tells too many apart (measured with 6
        methods in 20 blocks: half instead of 5 %); a caveat says where. ``"wilcoxon"`` keeps its level there.

    Returns
    -------
    Comparison
        ``average_ranks``, ``pairwise`` p-values, ``cliques`` of methods that do not differ, ``layers`` from best to
        worst.

    Examples
    --------
    >>> values = [[1, 2, 9], [2, 1, 8], [1, 2, 7], [2, 3, 9], [1, 2, 9], [2, 1, 7]]
    >>> result = compare(values, methods=["a", "b", "c"])
    >>> result.layers
    (('a', 'b'), ('c',))
    >>> print(result)
    3 methods in 6 blocks: Friedman 9.333 (p = 0.0094, exactly p = 0.00553), Iman-Davenport 17.5 (p = 0.000542),
    Kendall's W 0.78.
    Lower is better.
    1. a, b (average rank 1.50)
    2. c (average rank 3.00)
    """
    as_level(alpha, "alpha")
    blocks = read_blocks(table, block=block, method=method, value=value, methods=methods)
    lower_is_better = as_flag(lower_is_better, "lower_is_better")
    n, k = blocks.values.shape
    lost = f" {blocks.dropped} blocks lacked {', '.join(blocks.missing)}." if blocks.dropped else ""
    if k < 2:
        raise InputError(f"a comparison needs at least 2 methods, got {k}.")
    if n < 2:
        raise InputError(f"a comparison needs at least 2 complete blocks, got {n}.{lost} "
                         "One block has no replicate to judge a difference by.")  # fmt: skip
    ranks = mid_ranks(blocks.values, lower_is_better=lower_is_better)
    average = ranks.mean(axis=0)
    order = np.lexsort((np.arange(k), average))
    ranks, average, values = ranks[:, order], average[order], blocks.values[:, order]
    names = [blocks.methods[i] for i in order]
    test = friedman(ranks)
    p = pairwise_p_values(values, ranks, posthoc)
    differ = test.decisive_p_value < alpha
    tied = p >= alpha if differ else np.ones((k, k), dtype=np.bool_)
    caveats = [] if differ else ["Friedman does not reject that all methods are alike: all are tied."]
    if differ and posthoc == "conover" and k > 2 and (doubtful := doubtful_pairs(ranks, p, alpha)):
        pairs_are = "1 pair is" if doubtful == 1 else f"{doubtful} pairs are"
        caveats.append(f"{pairs_are} told apart only by Conover's pooled variance, which is below that of two methods "
                       "that are alike. The post-hoc test wilcoxon judges each pair by itself.")  # fmt: skip
    if blocks.dropped:
        dropped = "1 incomplete block was" if blocks.dropped == 1 else f"{blocks.dropped} incomplete blocks were"
        caveats.append(f"{dropped} dropped, for lack of {', '.join(blocks.missing)}.")

    def named(groups: Sequence[tuple[int, ...]]) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(names[i] for i in group) for group in groups)

    pairs = {(names[i], names[j]): float(p[i, j]) for i, j in combinations(range(k), 2)}
    return Comparison(
        average_ranks={name: float(rank) for name, rank in zip(names, average, strict=True)},
        statistic=test.statistic,
        p_value=test.p_value,
        pairwise=pairs | {(b, a): value for (a, b), value in pairs.items()},
        cliques=named(maximal_cliques(tied, average)),
        layers=named(layers(tied, average)),
        f_statistic=test.f_statistic,
        f_p_value=test.f_p_value,
        kendall_w=test.kendall_w,
        posthoc=posthoc,
        alpha=alpha,
        lower_is_better=lower_is_better,
        n_blocks=n,
        dropped_blocks=blocks.dropped,
        caveat=" ".join(caveats),
        exact_p_value=test.exact_p_value,
    )


def compare_regimes(
    table: Any,
    regime: str,
    alpha: float = 0.05,
    lower_is_better: bool = True,
    *,
    block: str | Sequence[str] | None = None,
    method: str | None = None,
    value: str | None = None,
    posthoc: Posthoc = "conover",
) -> Mapping[str, Comparison]:
    """One comparison for each value of the column ``regime`` (near, mid, far), for a map of their top cliques.

    Parameters
    ----------
    table
        As for :func:`compare`, with a column that names the regime of each row.
    regime
        Name of that column.
    alpha, lower_is_better, block, method, value, posthoc
        As for :func:`compare`.

    Returns
    -------
    dict
        Regime -> Comparison, in the order of first appearance.

    Examples
    --------
    >>> table = {"bucket": ["near"] * 6 + ["far"] * 6, "a": [1] * 6 + [9] * 6, "b": [8] * 6 + [2] * 6}
    >>> {name: result.layers[0] for name, result in compare_regimes(table, "bucket").items()}
    {'near': ('a',), 'far': ('b',)}
    """
    parts = split_columns(read_columns(table), regime)
    return {
        name: compare(part, alpha, lower_is_better, block=block, method=method, value=value, posthoc=posthoc)
        for name, part in parts.items()
    }
