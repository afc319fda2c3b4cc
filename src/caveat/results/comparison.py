"""Methods over blocks: which is ahead, and which cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from caveat._internal.html import small_table
from caveat.results.paired_test import p_text

__all__ = ["Comparison"]


_TESTS = {
    "conover": "Conover-Holm", "nemenyi": "Nemenyi", "wilcoxon": "Wilcoxon-Holm", "delong": "paired DeLong, Holm",
    "mcnemar": "McNemar, Holm", "bootstrap": "paired bootstrap, Holm",
    "delong_rows": "DeLong by rows, Holm", "influence": "influence functions, Holm",
}  # fmt: skip
_ON_THE_SAME_SAMPLES = ("delong", "delong_rows", "mcnemar", "bootstrap", "influence")


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods over blocks: which is ahead, and which cannot be told apart.

    Parameters
    ----------
    average_ranks
        Method -> average rank over the blocks, from the best (1 would be best everywhere) to the worst.
    statistic, p_value
        Friedman's statistic, corrected for ties, and its chi-square p-value.
    pairwise
        Both orders of each pair of methods -> adjusted p-value of the post-hoc test.
    cliques
        Maximal groups of methods that cannot be told apart, by average rank; they may overlap.
    layers
        Each method in one group, from best to worst. The first layer is the largest clique with the best method.
    f_statistic, f_p_value
        Iman and Davenport's F and its p-value; not significant: every method is tied, unless ``exact_p_value`` decides.
    kendall_w
        Concordance of the blocks: 1 if all rank the methods alike, 0 if at random.
    posthoc, alpha, lower_is_better
        The post-hoc test, its level, and whether small values were good.
    n_blocks, dropped_blocks
        Complete blocks that were used, and incomplete ones that were not.
    caveat
        A warning in one sentence, or empty.
    exact_p_value
        Exact p-value of Friedman's statistic for a table too small for its approximations; None for a larger one.
    what
        What is compared: methods or models.
    values
        Method -> its number, where one set of samples gives each method one; None over blocks.

    Examples
    --------
    >>> from caveat.stats import compare
    >>> result = compare([[1, 2, 9], [2, 1, 8], [1, 2, 7], [2, 3, 9], [1, 2, 9], [2, 1, 7]], methods=["a", "b", "c"])
    >>> result.cliques, result.tied("a", "b")
    ((('a', 'b'), ('c',)), True)
    """

    average_ranks: Mapping[str, float]
    statistic: float
    p_value: float
    pairwise: Mapping[tuple[str, str], float]
    cliques: tuple[tuple[str, ...], ...]
    layers: tuple[tuple[str, ...], ...]
    f_statistic: float
    f_p_value: float
    kendall_w: float
    posthoc: str
    alpha: float
    lower_is_better: bool
    n_blocks: int
    dropped_blocks: int = 0
    caveat: str = ""
    exact_p_value: float | None = None
    what: str = "methods"
    values: Mapping[str, float] | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, from best to worst."""
        return tuple(self.average_ranks)

    def tied(self, first: str, second: str) -> bool:
        """Whether two methods share a clique, so that they cannot be told apart.

        Parameters
        ----------
        first, second
            Names of the methods.

        Returns
        -------
        bool
            True where the test finds no difference.
        """
        return any(first in clique and second in clique for clique in self.cliques)

    def rank(self, method: str) -> int:
        """1 + the number of methods that are significantly better.

        Parameters
        ----------
        method
            Name of the method.

        Returns
        -------
        int
            From 1, the best.
        """
        own = self.average_ranks[method]
        return 1 + sum(rank < own and not self.tied(method, other) for other, rank in self.average_ranks.items())

    def layer_rank(self, group: tuple[str, ...]) -> float:
        """Average rank of a clique or layer.

        Parameters
        ----------
        group
            Names of its methods.

        Returns
        -------
        float
            The mean of their average ranks.
        """
        return float(np.mean([self.average_ranks[name] for name in group]))

    def lines(self) -> list[tuple[int, str, str]]:
        """Layer, method and the letters of its cliques (a compact letter display: Piepho, JCGS 13(2), 2004)."""
        groups = list(zip(self.letters(), self.cliques, strict=True))
        return [
            (number, name, "".join(letter for letter, clique in groups if name in clique))
            for number, layer in enumerate(self.layers, start=1)
            for name in layer
        ]

    def letters(self) -> list[str]:
        """One letter per clique."""
        return [chr(ord("a") + i) if i < 26 else f"({i + 1})" for i in range(len(self.cliques))]

    def legend(self) -> str:
        """What the letters mean, in one sentence."""
        how = f"({self.test_name()}, alpha = {self.alpha:g})"
        return f"{self.what.capitalize()} that share a letter cannot be told apart {how}."

    def test_name(self) -> str:
        """The test that decides which methods are tied."""
        return _TESTS[self.posthoc]

    def summary(self) -> str:
        """The tests in one sentence, and the caveat."""
        if self.posthoc in _ON_THE_SAME_SAMPLES:
            pairs = len(self.methods) * (len(self.methods) - 1) // 2
            return f"{len(self.methods)} {self.what} on the same samples, {pairs} pairs: {self.test_name()}."
        exact = "" if self.exact_p_value is None else f", exactly {p_text(self.exact_p_value)}"
        text = (
            f"{len(self.methods)} {self.what} in {self.n_blocks} blocks: "
            f"Friedman {self.statistic:.4g} ({p_text(self.p_value)}{exact}), "
            f"Iman-Davenport {self.f_statistic:.4g} ({p_text(self.f_p_value)}), Kendall's W {self.kendall_w:.2f}."
        )
        return text + (f" {self.caveat}" if self.caveat else "")

    def direction(self) -> str:
        """Which values count as better, in one sentence."""
        return f"{'Lower' if self.lower_is_better else 'Higher'} is better."

    def explanation(self) -> str:
        """The tests, the direction, and what letters and layers mean: what stands below a table."""
        layers = "" if self.values is not None else " A layer holds what is tied with its best."
        return f"{self.summary()} {self.direction()} {self.legend()}{layers}"

    def _repr_html_(self) -> str:
        rows = [(name, str(self.rank(name)), f"{self.average_ranks[name]:.2f}", letters)
                for _, name, letters in self.lines()]  # fmt: skip
        head = (self.what.removesuffix("s"), "rank", "average rank", "groups")
        note = f"{self.summary()} {self.direction()} {self.legend()}"
        return small_table(self.test_name(), rows, head=head, note=note)

    def __str__(self) -> str:
        groups = [
            f"{i}. {', '.join(layer)} (average rank {self.layer_rank(layer):.2f})"
            for i, layer in enumerate(self.layers, start=1)
        ]
        return "\n".join([self.summary(), self.direction(), *groups])
