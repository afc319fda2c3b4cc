"""The tables that compare the methods of a study, built once for the page, for Markdown and for LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from caveat.report import words
from caveat.report.study_facts import StudyFacts
from caveat.report.study_verdicts import (
    ERRORS,
    Verdict,
    compared_metrics,
    guaranteed,
    mean_over,
    metric_of,
)
from caveat.report.tables import Cell, Column, Group, Line, Table
from caveat.results import Comparison, Estimate

__all__ = ["by_metric_table", "by_regime_table", "number_cell", "ranking_table", "sets_of_numbers"]

MOST_ROWS = 1600  # of the table by outlier set; beyond, it keeps the leading methods
TOP = "†"

Verdicts = Mapping[tuple[str, str, str], Verdict]  # metric, source, regime


def ranking_table(facts: StudyFacts, verdict: Verdict) -> Table:
    """Every method with its rank, its group, its mean and its guaranteed band."""
    metric, comparison = metric_of(verdict.metric), verdict.comparison
    places = _places(verdict)
    shared = {place: list(places.values()).count(place) for place in places.values()}
    bands = {label: guaranteed(facts, verdict.blocks, label) for label in verdict.order}
    band = next((band for band in bands.values() if band is not None), None)
    groups = {} if comparison is None else group_names(comparison)
    one = len(verdict.blocks) == 1
    columns = [Column("Rank", number=False), Column("Method", number=False), Column("Reads", number=False)]
    if comparison is not None:
        columns += [Column("Average rank"), Column("Groups", number=False)]
    columns.append(Column(metric.name if one else f"Mean {metric.name}"))
    if band is not None:
        columns.append(Column("Guaranteed", "band of the AUROC" if one else "band of the mean AUROC"))
    lines = []
    for label in verdict.order:
        strong = verdict.alone and label == verdict.best
        place = places[label]
        cells = [
            Cell(f"{place} tied" if shared[place] > 1 else str(place), float(place)),
            Cell(label, strong=strong),
            Cell(facts.method(label).family),
        ]
        if comparison is not None:
            rank = comparison.average_ranks[label]
            cells += [Cell(f"{rank:.2f}", rank), Cell(groups[label])]
        cells.append(number_cell(mean_over(facts, verdict.blocks, label, verdict.metric), metric.style, strong=strong))
        if band is not None:
            cells.append(_band_cell(bands[label]))
        lines.append(Line(tuple(cells), facts.method(label).family))
    ends = [end for found in bands.values() if found is not None for end in (found.lower, found.upper)]
    return Table(
        "ranking", "Ranking", _ranking_caption(verdict, band), tuple(columns), (Group("", tuple(lines)),), name=1,
        range=(min(ends), max(ends)) if ends and max(ends) > min(ends) else (0.0, 1.0),
    )  # fmt: skip


def _ranking_caption(verdict: Verdict, band: Estimate | None) -> str:
    metric, found = metric_of(verdict.metric), verdict.comparison
    better = "larger" if metric.higher_is_better else "smaller"
    said = [f"All outlier sets, by {metric.name}; {better} is better."]
    if found is not None:
        said.append(
            f"{found.legend().replace('a letter', 'a group')} Brackets: least and largest of {found.n_blocks} blocks."
        )
    elif verdict.by == "bands":
        said.append("One block: methods whose band overlaps that of the first of their group share its rank.")
    if band is not None:
        what = "Each end of a" if "each side" in band.method else "A"
        said.append(f"{what} guaranteed band holds for any number of inliers with probability at least "
                    f"{words.percent(band.level)}, for these outliers.")  # fmt: skip
    return " ".join(said)


def by_regime_table(facts: StudyFacts, verdicts: Verdicts, metric: str) -> Table | None:
    """Mean of the leading metric in every regime, with who is in the top group there."""
    shown = {regime: found for (name, source, regime), found in verdicts.items() if name == metric and not source}
    regimes = [name for name in ("all", *facts.regime_names) if name in shown]
    if len(regimes) < 2:
        return None
    style = metric_of(metric).style
    columns = [Column("Method", number=False)]
    columns += [
        Column(name, words.count(len(shown[name].blocks), "block"), regime="" if name == "all" else name)
        for name in regimes
    ]
    return Table(
        "regimes",
        f"{metric_of(metric).name} by regime",
        f"{_brackets(shown['all'])} {TOP} marks the top group of a regime: the best and all that tie with it. "
        "Bold: best, and alone in its group.",
        tuple(columns),
        (Group("", _lines(facts, shown["all"].order, [(shown[name], style) for name in regimes])),),
    )  # fmt: skip


def by_metric_table(facts: StudyFacts, verdicts: Verdicts, order: Sequence[str]) -> Table | None:
    """Mean of every metric over all blocks, each metric its own family of blocks."""
    shown = [found for name in compared_metrics(facts) if (found := verdicts.get((name, "", "all"))) is not None]
    shown += [
        found for name in ("augrc", "aurc") if (found := verdicts.get((name, "", ERRORS))) is not None
    ]  # fmt: skip
    if not shown or (len(shown) == 1 and shown[0].regime != ERRORS):  # one metric stands in the ranking already
        return None
    columns = [Column("Method", number=False)]
    for found in shown:
        metric = metric_of(found.metric)
        aim = "larger is better" if metric.higher_is_better else "smaller is better"
        columns.append(
            Column(metric.name, f"model's errors, {aim}" if found.regime == ERRORS else f"{metric.meaning}, {aim}")
        )
    return Table(
        "metrics",
        "Every metric",
        f"{_brackets(shown[0])} {TOP} marks the top group of a metric; bold: best, and alone in its group. "
        "Metrics of one run are not replicates of each other: each is compared on its own.",
        tuple(columns),
        (Group("", _lines(facts, order, [(found, metric_of(found.metric).style) for found in shown])),),
    )  # fmt: skip


def _brackets(found: Verdict) -> str:
    if len(found.blocks) == 1:
        return "Numbers of one block with their intervals."
    return "Means over blocks; brackets hold the least and largest, or the interval where there is one block."


def _lines(facts: StudyFacts, order: Sequence[str], columns: Sequence[tuple[Verdict, str]]) -> tuple[Line, ...]:
    lines = []
    for label in order:
        cells = [Cell(label)]
        for found, style in columns:
            top = found.tells and label in found.top
            cells.append(
                number_cell(
                    mean_over(facts, found.blocks, label, found.metric), style,
                    strong=found.alone and label == found.best, mark=TOP if top else "",
                )
            )  # fmt: skip
        lines.append(Line(tuple(cells), facts.method(label).family))
    return tuple(lines)


def sets_of_numbers(facts: StudyFacts, order: Sequence[str]) -> Table | None:
    """Every number of every method on every outlier set; of many methods, those that lead."""
    sets = facts.sets
    if not sets:
        return None
    shown = order[: max(10, MOST_ROWS // len(sets))]
    metrics = [name for name in (*compared_metrics(facts), "conformal_auroc") if name in facts.metrics]
    if "conformal_auroc" in metrics:
        metrics.remove("conformal_auroc")
        metrics.insert(1 if metrics[:1] == ["auroc"] else 0, "conformal_auroc")
    notes = words.Notes()
    groups = []
    for source, outlier in sets:
        blocks = facts.blocks_of(source, outlier)
        lines = []
        for label in shown:
            cells = [Cell(label)]
            for name in metrics:
                if name == "conformal_auroc":
                    cells.append(_band_cell(guaranteed(facts, blocks, label), drawn=False))
                else:
                    found = mean_over(facts, blocks, label, name)
                    mark = "" if found is None else notes.mark(found)
                    cells.append(number_cell(found, metric_of(name).style, mark=mark))
            lines.append(Line(tuple(cells), facts.method(label).family))
        regime = facts.regime(source, outlier)
        heading = " · ".join([*([source] if len(facts.sources) > 1 else []), outlier, *([regime] if regime else [])])
        groups.append(Group(heading, tuple(lines), source, regime))
    made = sorted({n.method for n in facts.numbers.values() if n.method and np.isfinite(n.lower)})
    brackets = f"{words.level(1 - facts.delta)} intervals ({', '.join(made)})"
    seeds = {len(facts.blocks_of(*pair)) for pair in sets}
    if seeds != {1}:
        many = f"range over {max(seeds)} seeds"
        brackets = many if len(seeds) == 1 else f"{many}; where there is one, {brackets}"
    caption = f"Brackets: {brackets}. Two false-positive rates share the name FPR@95; each stands under what it counts."
    if len(shown) < len(order):
        caption += f" The {len(shown)} leading methods of {len(order)}; the store holds all of them."
    columns = [Column("Method", number=False)]
    columns += [Column(metric_of(name).name, metric_of(name).meaning) for name in metrics]
    return Table("numbers", "Every number, by outlier set", caption, tuple(columns), tuple(groups), tuple(notes.lines))


def number_cell(found: Estimate | None, style: str, *, strong: bool = False, mark: str = "") -> Cell:
    if found is None or not np.isfinite(found.value):
        return Cell("not measured")
    bounds = words.interval(found, style) if np.isfinite([found.lower, found.upper]).all() else ""
    return Cell(words.STYLES[style](found.value), found.value, bounds, strong, mark)


def _band_cell(band: Estimate | None, *, drawn: bool = True) -> Cell:
    if band is None:
        return Cell("not measured")
    return Cell(words.interval(band), band.lower, band=band if drawn else None)


def _places(verdict: Verdict) -> dict[str, int]:
    """Rank of each method: groups that cannot be told apart share one, and the next group counts on."""
    places: dict[str, int] = {}
    place = 1
    for layer in verdict.layers:
        places |= dict.fromkeys(layer, place)
        place += len(layer)
    return places


def group_names(found: Comparison) -> dict[str, str]:
    """Method -> the cliques it is in: letters, or a range of numbers where there are more than letters."""
    if len(found.cliques) <= 26:
        return {name: letters for _, name, letters in found.lines()}
    member: dict[str, list[int]] = {}
    for i, clique in enumerate(found.cliques, start=1):
        for name in clique:
            member.setdefault(name, []).append(i)
    return {name: _ranges(numbers) for name, numbers in member.items()}


def _ranges(numbers: Sequence[int]) -> str:
    """
    >>> _ranges([1, 2, 3, 7])
    '1–3, 7'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in parts)
