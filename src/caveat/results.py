"""What the library answers with: frozen, named, each number with its doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from caveat._checks import as_labels, as_vector, same_length

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "Estimate", "Intervals", "PairedTest", "PredictionSets", "ScoreBounds", "p_text", "stack_rows"]


@final
@dataclass(frozen=True)
class Estimate:
    """A number with its interval, the confidence of the interval, and how it was made.

    Parameters
    ----------
    value, lower, upper
        The estimate and its interval.
    level
        Confidence of the interval, 1 - delta.
    n
        How many samples it rests on.
    method
        How the interval was made.
    caveat
        A sentence where one is due, else empty.

    Examples
    --------
    >>> print(Estimate(0.91, 0.89, 0.93, level=0.95, n=1000, method="DeLong"))
    0.910 [0.890, 0.930] (95 % DeLong, n = 1000)
    """

    value: float
    lower: float
    upper: float
    level: float
    n: int
    method: str
    caveat: str = ""

    def overlaps(self, other: Estimate) -> bool:
        """Whether the two intervals share a point, so that the estimates cannot be told apart by them."""
        return self.lower <= other.upper and other.lower <= self.upper

    def __str__(self) -> str:
        interval = f"{self.value:.3f} [{self.lower:.3f}, {self.upper:.3f}]"
        made = f"({100 * self.level:g} % {self.method}, n = {self.n})"
        return f"{interval} {made}" + (f" {self.caveat}" if self.caveat else "")


@final
@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Which labels are still possible for each sample.

    Parameters
    ----------
    member
        Boolean (n, C): label c is in the set of sample i. A matrix, or ``scipy.sparse.csr_array`` for many classes.
    alpha
        The allowed error that was asked for.
    level
        The coverage that is promised: at least 1 - alpha, over calibration set and test point together.
    caveat
        A sentence where one is due, else empty.
    delta
        None, or the chance over calibration sets that the promise fails (PAC).

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False, True], [False, True, False]]), alpha=0.1, level=0.9)
    >>> print(sets)
    2 prediction sets over 3 classes: mean size 1.50, 1 single, 0 empty; coverage promised 0.900
    >>> sets.labels(0), sets.sizes, sets.coverage([2, 0])
    (array([0, 2]), array([2, 1]), 0.5)
    """

    member: Any
    alpha: float
    level: float
    caveat: str = ""
    delta: float | None = None

    @property
    def n(self) -> int:
        return int(self.member.shape[0])

    def __len__(self) -> int:
        return self.n

    @property
    def n_classes(self) -> int:
        return int(self.member.shape[1])

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How many labels each set holds."""
        if isinstance(self.member, csr_array):
            return np.asarray(np.diff(self.member.indptr), dtype=np.intp)
        return np.asarray(np.count_nonzero(self.member, axis=1))

    def labels(self, i: int) -> NDArray[np.intp]:
        """The labels in the set of sample i."""
        if isinstance(self.member, csr_array):
            i = range(self.n)[i]
            return np.asarray(self.member.indices[self.member.indptr[i] : self.member.indptr[i + 1]], dtype=np.intp)
        return np.flatnonzero(self.member[i])

    def to_csr(self) -> csr_array:
        """The sets as a sparse boolean matrix."""
        return self.member if isinstance(self.member, csr_array) else csr_array(self.member)

    def to_dense(self) -> NDArray[np.bool_]:
        """The sets as a boolean matrix (n, C)."""
        return np.asarray(self.member.toarray() if isinstance(self.member, csr_array) else self.member)

    def covers(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Whether each true label is in its set."""
        true = self._checked(labels)
        if not isinstance(self.member, csr_array):
            return np.asarray(self.member[np.arange(self.n), true])
        held = self.member.indices == np.repeat(true, self.sizes)
        return np.bincount(np.repeat(np.arange(self.n), self.sizes)[held], minlength=self.n) > 0

    def coverage(self, labels: ArrayLike) -> float:
        """Share of samples whose true label is in the set."""
        return float(self.covers(labels).mean())

    def class_coverage(self, labels: ArrayLike) -> NDArray[np.float64]:
        """Coverage among the samples of each class, shape (C,); NaN for a class without samples."""
        true, held = self._checked(labels), self.covers(labels)
        counts = np.bincount(true, minlength=self.n_classes)
        hits = np.bincount(true, weights=held, minlength=self.n_classes)
        return np.asarray(np.divide(hits, counts, out=np.full(self.n_classes, np.nan), where=counts > 0))

    def _checked(self, labels: ArrayLike) -> NDArray[np.intp]:
        true = as_labels(labels, "labels", n_classes=self.n_classes)
        same_length(sets=self, labels=true)
        return true

    def __str__(self) -> str:
        sizes = self.sizes
        text = (
            f"{self.n} prediction sets over {self.n_classes} classes: mean size {sizes.mean():.2f}, "
            f"{(sizes == 1).sum()} single, {(sizes == 0).sum()} empty; coverage promised {self.level:.3f}"
        )
        text += "" if self.delta is None else f" with confidence {1 - self.delta:g}"
        return text + (f". {self.caveat}" if self.caveat else "")


@final
@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """Between which values a score stays, whatever an attacker does within the radius.

    Parameters
    ----------
    value
        The score of the unchanged input, float64, shape (n,), or (n, K) for one score per label.
        ``nn.confidence_bounds`` gives log-confidence.
    lower, upper
        Certified bounds of the same shape: no input within ``epsilon`` scores below ``lower`` or above ``upper``.
    epsilon
        The radius, in the largest change of one entry.
    method
        How the bounds were made.
    refined
        How many samples a slower, tighter method was spent on.

    Examples
    --------
    >>> bounds = ScoreBounds(value=np.log([0.2]), lower=np.log([0.1]), upper=np.log([0.4]), epsilon=0.3, method="ibp")
    >>> print(bounds)
    bounds of 1 scores within 0.3 (ibp): mean width 1.386
    >>> bounds.below(np.log(0.5)), bounds.above(np.log(0.5))
    (array([ True]), array([False]))
    """

    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    epsilon: float
    method: str
    refined: int = 0

    @property
    def n(self) -> int:
        return int(self.value.shape[0])

    def below(self, threshold: float) -> NDArray[np.bool_]:
        """Which scores provably stay below the threshold."""
        return np.asarray(self.upper < threshold)

    def above(self, threshold: float) -> NDArray[np.bool_]:
        """Which scores provably stay above the threshold."""
        return np.asarray(self.lower > threshold)

    def __str__(self) -> str:
        how = self.method + (f", {self.refined} refined" if self.refined else "")
        width = float(np.mean(self.upper - self.lower))
        return f"bounds of {self.n} scores within {self.epsilon:g} ({how}): mean width {width:.3f}"


def stack_rows(parts: Sequence[NDArray[np.bool_]], *, sparse: bool) -> Any:
    """Row blocks of memberships as one boolean matrix, or as one CSR matrix of which no dense form is ever built."""
    if not sparse:
        return np.concatenate(parts)
    rows = [csr_array(part) for part in parts]
    starts = np.cumsum([0, *(part.nnz for part in rows)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + s for part, s in zip(rows, starts[:-1], strict=True))])
    indices = np.concatenate([part.indices for part in rows])
    shape = (indptr.size - 1, parts[0].shape[1])
    return csr_array((np.ones(indices.size, dtype=np.bool_), indices, indptr), shape=shape)


@final
@dataclass(frozen=True, eq=False)
class Intervals:
    """Between which two values the target of each sample lies.

    Parameters
    ----------
    lower, upper
        Ends, shape (n,), included; infinite where nothing can be promised.
    alpha, level, caveat, delta
        As for ``PredictionSets``.

    Examples
    --------
    >>> intervals = Intervals(np.array([0.0, 1.0]), np.array([2.0, 5.0]), alpha=0.1, level=0.9)
    >>> print(intervals)
    2 prediction intervals: mean width 3, median 3, 0 infinite, 0 empty; coverage promised 0.900
    >>> intervals.coverage([1.0, 7.0])
    0.5
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    alpha: float
    level: float
    caveat: str = ""
    delta: float | None = None

    @property
    def n(self) -> int:
        return int(self.lower.size)

    def __len__(self) -> int:
        return self.n

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Both ends, shape (n, 2)."""
        return np.column_stack([self.lower, self.upper])

    @property
    def widths(self) -> NDArray[np.float64]:
        """Upper end minus lower end; 0 for an empty interval (ends crossed)."""
        return np.maximum(self.upper - self.lower, 0)

    def covers(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether each target is in its interval."""
        true = as_vector(y, "y")
        same_length(intervals=self, y=true)
        return np.asarray((self.lower <= true) & (true <= self.upper))

    def coverage(self, y: ArrayLike) -> float:
        """Share of samples whose target is in the interval."""
        return float(self.covers(y).mean())

    def __str__(self) -> str:
        widths, empty = self.widths, int((self.upper < self.lower).sum())
        text = (
            f"{self.n} prediction intervals: mean width {widths.mean():.4g}, median {np.median(widths):.4g}, "
            f"{np.isinf(widths).sum()} infinite, {empty} empty; coverage promised {self.level:.3f}"
        )
        text += "" if self.delta is None else f" with confidence {1 - self.delta:g}"
        return text + (f". {self.caveat}" if self.caveat else "")


def p_text(value: float, *, cell: bool = False) -> str:
    """A p-value for a sentence, or for a cell of a table. A tail that underflows is small, not nothing: never 0.

    Examples
    --------
    >>> p_text(0.00942), p_text(0.0), p_text(0.00942, cell=True), p_text(0.0, cell=True)
    ('p = 0.00942', 'p < 1e-300', '0.009', '<0.001')
    """
    if cell:
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return "p < 1e-300" if value < 1e-300 else f"p = {value:.3g}"


@final
@dataclass(frozen=True)
class PairedTest:
    """Two scores on the same samples: the difference of a metric, first minus second, and whether it is real.

    Examples
    --------
    >>> print(PairedTest("auroc", 0.91, 0.88, Estimate(0.03, 0.01, 0.05, level=0.95, n=1000, method="DeLong"), 0.003))
    auroc 0.910 against 0.880: 0.030 [0.010, 0.050] (95 % DeLong, n = 1000), p = 0.003
    """

    metric: str
    first: float
    second: float
    difference: Estimate
    p_value: float

    def __str__(self) -> str:
        difference, caveat = replace(self.difference, caveat=""), self.difference.caveat
        text = f"{self.metric} {self.first:.3f} against {self.second:.3f}: {difference}, {p_text(self.p_value)}"
        return text + (f". {caveat}" if caveat else "")


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods over blocks: who is ahead, and who cannot be told from whom.

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
        A sentence where one is due, else empty.
    exact_p_value
        Exact p-value of Friedman's statistic for a table too small for its approximations; None for a larger one.
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

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, from best to worst."""
        return tuple(self.average_ranks)

    def tied(self, first: str, second: str) -> bool:
        """Whether two methods share a clique, so that they cannot be told apart."""
        return any(first in clique and second in clique for clique in self.cliques)

    def layer_rank(self, group: tuple[str, ...]) -> float:
        """Average rank of a clique or layer."""
        return float(np.mean([self.average_ranks[name] for name in group]))

    def to_markdown(self) -> str:
        """A table, best first. Methods that share a letter cannot be told apart; each letter is a maximal clique."""
        lines = ["| layer | method | average rank | groups |", "| ---: | --- | ---: | --- |"]
        for number, name, letters in self.lines():
            said = name.replace("|", r"\|")
            lines.append(f"| {number} | {said} | {self.average_ranks[name]:.2f} | {letters} |")
        return "\n".join([*lines, "", f"{self.summary()} {self.legend()}"])

    def to_latex(self) -> str:
        """The same table for a paper, with rules between layers. Nothing is bold: ties have letters instead."""
        lines = [r"\begin{tabular}{rlrl}", r"\toprule", r"layer & method & average rank & groups \\", r"\midrule"]
        before = 1
        for number, name, letters in self.lines():
            if number != before:
                lines.append(r"\midrule")
            before = number
            lines.append(rf"{number} & {_latex(name)} & {self.average_ranks[name]:.2f} & {letters} \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {self.summary()} {self.legend()}"])

    def plot_cd(self) -> Figure:
        """Critical-difference diagram: average ranks on a line, and a bar over each group that is tied."""
        from caveat._rank_figures import critical_difference_diagram

        return critical_difference_diagram(
            self.average_ranks, self.cliques, title=f"{self._test_name()}, {self.n_blocks} blocks, alpha {self.alpha:g}"
        )

    def plot_cliques(self, regimes: Mapping[str, Comparison] | None = None) -> Figure:
        """Clique map: rows are methods, columns are groups, connected dots are tied.

        Alone, a column is one maximal clique. With ``regimes`` (name -> comparison, such as near, mid and far) a column
        is the top layer of that regime, and this comparison only orders the rows.
        """
        from caveat._rank_figures import clique_map

        if regimes is None:
            columns = dict(zip(self._letters(), self.cliques, strict=True))
            title = f"Groups that cannot be told apart ({self._test_name()}, alpha {self.alpha:g})"
        else:
            columns = {name: result.layers[0] for name, result in regimes.items()}
            title = f"Top layer of each regime ({self._test_name()}, alpha {self.alpha:g})"
        return clique_map(self.methods, columns, title=title, shade=regimes is not None)

    def lines(self) -> list[tuple[int, str, str]]:
        """Layer, method and the letters of its cliques (a compact letter display: Piepho, JCGS 13(2), 2004)."""
        groups = list(zip(self._letters(), self.cliques, strict=True))
        return [
            (number, name, "".join(letter for letter, clique in groups if name in clique))
            for number, layer in enumerate(self.layers, start=1)
            for name in layer
        ]

    def _letters(self) -> list[str]:
        return [chr(ord("a") + i) if i < 26 else f"({i + 1})" for i in range(len(self.cliques))]

    def legend(self) -> str:
        """What the letters mean, in one sentence."""
        return f"Methods that share a letter cannot be told apart ({self._test_name()}, alpha = {self.alpha:g})."

    def _test_name(self) -> str:
        return {"conover": "Conover-Holm", "nemenyi": "Nemenyi", "wilcoxon": "Wilcoxon-Holm"}[self.posthoc]

    def summary(self) -> str:
        """The tests in one sentence, and the caveat."""
        exact = "" if self.exact_p_value is None else f", exactly {p_text(self.exact_p_value)}"
        text = (
            f"{len(self.methods)} methods in {self.n_blocks} blocks: "
            f"Friedman {self.statistic:.4g} ({p_text(self.p_value)}{exact}), "
            f"Iman-Davenport {self.f_statistic:.4g} ({p_text(self.f_p_value)}), Kendall's W {self.kendall_w:.2f}."
        )
        return text + (f" {self.caveat}" if self.caveat else "")

    def __str__(self) -> str:
        groups = [
            f"{i}. {', '.join(layer)} (average rank {self.layer_rank(layer):.2f})"
            for i, layer in enumerate(self.layers, start=1)
        ]
        return "\n".join([self.summary(), *groups])


_TEX = str.maketrans(
    {char: f"\\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)


def _latex(text: str) -> str:
    return text.translate(_TEX)
