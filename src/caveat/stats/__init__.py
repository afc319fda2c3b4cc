"""Statistics: which methods differ over blocks, and which of two scores or models is better on the same samples."""

from caveat.results import Comparison, ModelComparison, PairedTest
from caveat.stats.auroc_differences import auroc_differences
from caveat.stats.compare import compare, compare_regimes
from caveat.stats.compare_models import compare_models
from caveat.stats.mcnemar import mcnemar
from caveat.stats.paired import delong, paired_bootstrap, permutation
from caveat.stats.posthoc import critical_difference, holm
from caveat.stats.rank_models import rank_models
from caveat.stats.ranks import Friedman, friedman, mid_ranks

__all__ = [
    "Comparison",
    "Friedman",
    "ModelComparison",
    "PairedTest",
    "auroc_differences",
    "compare",
    "compare_models",
    "compare_regimes",
    "critical_difference",
    "delong",
    "friedman",
    "holm",
    "mcnemar",
    "mid_ranks",
    "paired_bootstrap",
    "permutation",
    "rank_models",
]
