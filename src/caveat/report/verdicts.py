"""Which method is best and which are tied, by metric, model and regime: one answer type, two tests.

Places of one model and seed are compared by the paired test of the evaluation; places of several models or seeds by
ranks (Friedman, then Conover-Holm: ``caveat.stats.compare``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat.report.view import Place, View
from caveat.report.words import count, listing, number, shorten
from caveat.results import Comparison
from caveat.stats import compare

__all__ = ["ERRORS", "GROUP_METRICS", "METRICS", "Metric", "Verdict", "group_mark", "judge", "judge_all", "letters_of"]

ERRORS = "errors"  # the regime without outliers: does the score warn of wrong answers?
GROUP_METRICS = ("augrc", "aurc", "auroc")  # of the groups of a matrix; the paper has the first two
LETTERS = 26
FEW = 6  # blocks: with fewer, a rank test sees only large differences


@final
@dataclass(frozen=True)
class Metric:
    """How a metric is called, printed and read."""

    name: str
    style: str  # of words.STYLES
    higher_is_better: bool
    meaning: str = ""


METRICS: Mapping[str, Metric] = {
    "auroc": Metric("AUROC", "number", True, "chance that an outlier has the larger score"),
    "fpr95_outlier_positive": Metric("Inliers rejected", "percent", False, "at 95 % of outliers caught"),
    "fpr95_inlier_positive": Metric("Outliers accepted", "percent", False, "at 95 % of inliers kept"),
    "aupr": Metric("AUPR", "number", True, "average precision, outlier positive"),
    "augrc": Metric("AUGRC × 1000", "scaled", False, "area under generalized risk"),
    "aurc": Metric("AURC × 1000", "scaled", False, "area under selective risk"),
}


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """The comparison of all methods by one metric over some places."""

    metric: str
    model: str  # "": all of them; or the group of a matrix
    regime: str  # "all", near, mid, far, or errors
    comparison: Comparison
    places: tuple[Place, ...]
    left_out: Mapping[str, int]  # method -> how many places it lacks
    dropped: int = 0  # places that lack a method
    repeated: int = 0  # places that repeat another seed number for number

    @property
    def order(self) -> tuple[str, ...]:
        return self.comparison.methods

    @property
    def top(self) -> tuple[str, ...]:
        """The best and the methods tied with it."""
        return self.comparison.layers[0]

    @property
    def paired(self) -> bool:
        return self.comparison.posthoc == "delong"

    @property
    def tells(self) -> bool:
        """Whether any method differs from the best."""
        return len(self.top) < len(self.order)

    def blocks(self) -> str:
        """On what it rests."""
        if self.regime == ERRORS and self.paired:
            return "right against wrong answers"
        return count(len(self.places), "outlier set" if self.paired else "block")

    def sentence(self) -> str:
        """Who is best and who is tied with it."""
        best, others = shorten(self.order[0]), [shorten(name) for name in self.top if name != self.order[0]]
        if not self.tells:
            return f"All {len(self.order)} methods are tied." if len(self.order) > 1 else f"Only {best} was measured."
        return f"{best}, tied with {listing(others, most=3)}." if others else f"{best} is alone ahead."

    def unseen(self, view: View) -> str:
        """What the test could not have seen: the smallest difference that it found significant."""
        names, pairwise = self.order, self.comparison.pairwise
        if self.paired and self.metric == "auroc" and self.regime != ERRORS:
            means = {n: view.mean_auroc(self.places, n) for n in names}
            values, unit = {n: m.value for n, m in means.items() if m is not None}, "in mean AUROC"
        elif self.paired:
            return ""
        else:
            values, unit = dict(self.comparison.average_ranks), "in average rank"
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if a in values and b in values]
        seen = [abs(values[a] - values[b]) for a, b in pairs
                if not self.comparison.tied(a, b) and pairwise[a, b] < self.comparison.alpha]  # fmt: skip
        few = "" if self.paired or len(self.places) >= FEW else f"{count(len(self.places), 'block')} are few. "
        if not seen:
            return f"{few}No difference was large enough to be seen."
        least = number(min(seen)) if self.paired else f"{min(seen):.2f}"
        return f"{few}The smallest difference {unit} that was significant is {least}; a tie is not proof of equality."


def judge_all(view: View) -> dict[tuple[str, str, str], Verdict]:
    """Every comparison of a report, by metric, model ("" for all) and regime."""
    verdicts = {}
    regimes = ("all", *view.regime_names)
    for metric in METRICS:
        for regime in (*regimes, ERRORS) if metric == "augrc" else regimes:
            verdicts[metric, "", regime] = judge(view, metric, regime=regime)
    for group, models in view.groups.items():
        for metric in GROUP_METRICS:
            for regime in (*view.regime_names, ERRORS) if metric != "auroc" else view.regime_names:
                verdicts[metric, group, regime] = judge(view, metric, regime=regime, model=group, models=models)
    if len(view.models) > 1 and not view.groups:
        for model in view.models:
            for regime in regimes:
                verdicts["auroc", model, regime] = judge(view, "auroc", regime=regime, model=model)
    return {key: verdict for key, verdict in verdicts.items() if verdict is not None}


def judge(
    view: View, metric: str, *, regime: str = "all", model: str = "", models: Sequence[str] = ()
) -> Verdict | None:
    """The verdict of one metric in one regime, of all models, of one, or of a group; None with nothing to compare."""
    if regime == ERRORS:
        places = [Place(m, seed, "") for m, seed in view.units]
    else:
        places = [p for p in view.places if regime in ("all", view.regime(p.model, p.outlier))]
    chosen = set(models or ([model] if model else view.models))
    places = [p for p in places if p.model in chosen]
    if len({place[:2] for place in places}) == 1:
        return _paired(view, metric, regime, model, places)
    numbers = [[view.number(place, name, metric) for name in view.methods] for place in places]
    values = np.array([[np.nan if number is None else number.value for number in row] for row in numbers])
    values, names = values.reshape(len(places), len(view.methods)), list(view.methods)
    rows, columns = np.isfinite(values).any(axis=1), np.isfinite(values).any(axis=0)
    places, names = _kept(places, rows), _kept(names, columns)
    values = values[rows][:, columns]
    kept_rows, kept_columns = complete_part(values)
    left_out = {n: int(np.isnan(values[:, i]).sum()) for i, n in enumerate(names) if i not in set(kept_columns)}
    dropped = len(places) - len(kept_rows)
    values, names = values[kept_rows][:, kept_columns], [names[i] for i in kept_columns]
    places = [places[i] for i in kept_rows]
    distinct = _without_repeats(places, values)
    repeated, values, places = len(places) - len(distinct), values[distinct], [places[i] for i in distinct]
    if len(places) < 2 or len(names) < 2:
        return None
    comparison = compare(values, view.delta, not METRICS[metric].higher_is_better, methods=names)
    return Verdict(metric, model, regime, comparison, tuple(places), left_out, dropped, repeated)


def _paired(view: View, metric: str, regime: str, model: str, places: Sequence[Place]) -> Verdict | None:
    assessment = view.assessment((places[0].model, places[0].seed))
    if assessment is None or metric != ("augrc" if regime == ERRORS else "auroc"):
        return None
    comparison = {"all": assessment.ranking, ERRORS: assessment.errors}.get(regime, assessment.by_regime.get(regime))
    if comparison is None:
        return None
    left_out = {n: 0 for n in view.methods if n not in comparison.average_ranks}
    return Verdict(metric, model, regime, comparison, tuple(places), left_out)


def group_mark(comparison: Comparison) -> str:
    """What tied methods share in a report: a letter, or a number where there are more groups than letters."""
    return "letter" if len(comparison.cliques) <= LETTERS else "number"


def letters_of(comparison: Comparison) -> dict[str, str]:
    """Method -> the letters of its cliques; a range of numbers where there are more cliques than letters."""
    if group_mark(comparison) == "letter":
        return {name: letters for _, name, letters in comparison.lines()}
    member: dict[str, list[int]] = {}
    for i, clique in enumerate(comparison.cliques, start=1):
        for name in clique:
            member.setdefault(name, []).append(i)
    return {name: _ranges(numbers) for name, numbers in member.items()}


def _ranges(numbers: Sequence[int]) -> str:
    """
    >>> _ranges([1, 2, 3, 7])
    '1–3, 7'
    """
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in parts)


def complete_part(values: NDArray[np.float64]) -> tuple[list[int], list[int]]:
    """Rows and columns of a table without holes: the row or column with the largest share of holes goes first.

    >>> complete_part(np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]]))
    ([1, 2], [0, 1])
    """
    rows, columns = list(range(values.shape[0])), list(range(values.shape[1]))
    holes = np.isnan(values)
    while (part := holes[np.ix_(rows, columns)]).any():
        by_row, by_column = part.mean(axis=1), part.mean(axis=0)
        if by_column.max() >= by_row.max():
            columns.pop(int(by_column.argmax()))
        else:
            rows.pop(int(by_row.argmax()))
    return rows, columns


def _kept(names: Sequence[Any], rows: NDArray[np.bool_]) -> list[Any]:
    return [name for name, keep in zip(names, rows, strict=True) if keep]


def _without_repeats(places: Sequence[Place], values: NDArray[np.float64]) -> list[int]:
    """Places that are not the copy of another seed: a seed that changes nothing is not a replicate."""
    seen: dict[tuple[str, str, bytes], int] = {}
    for i, place in enumerate(places):
        seen.setdefault((place.model, place.outlier, values[i].tobytes()), i)
    return list(seen.values())
