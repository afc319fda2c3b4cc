"""Statistics: which methods differ over many blocks, and which of two scores is better on the same samples."""

from caveat.results import Comparison, PairedTest
from caveat.stats.auroc_differences import auroc_differences
from caveat.stats.compare import compare, compare_regimes
from caveat.stats.paired import delong, paired_bootstrap, permutation
from caveat.stats.posthoc import critical_difference, holm
from caveat.stats.ranks import Friedman, friedman, mid_ranks

__all__ = [
    "Comparison",
    "Friedman",
    "PairedTest",
    "auroc_differences",
    "compare",
    "compare_regimes",
    "critical_difference",
    "delong",
    "friedman",
    "holm",
    "mid_ranks",
    "paired_bootstrap",
    "permutation",
]
