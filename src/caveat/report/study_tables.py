"""The tables of a study, built once for the page, for Markdown and for LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from caveat.report import words
from caveat.report.study_facts import Row, StudyFacts
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

__all__ = [
    "by_metric_table", "by_regime_table", "certificate_table", "collapse_table", "data_table", "failure_table",
    "hash_table", "model_table", "outlier_set_table", "proximity_table", "ranking_table", "set_table", "sets_of_numbers",
]  # fmt: skip

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
        f"{_brackets(shown['all'])} {TOP} marks the top group of a regime: the best and those that cannot be told from it. "
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
    if len(shown) < 2:
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
    return "Means over blocks; brackets hold the least and largest."


def _lines(facts: StudyFacts, order: Sequence[str], columns: Sequence[tuple[Verdict, str]]) -> tuple[Line, ...]:
    lines = []
    for label in order:
        cells = [Cell(label)]
        for found, style in columns:
            top = found.by != "nothing" and label in found.top and len(found.top) < len(found.order)
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
    seeds = len(facts.seeds)
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
    brackets = (
        f"range over {seeds} seeds" if seeds > 1 else f"{words.level(1 - facts.delta)} intervals ({', '.join(made)})"
    )
    caption = f"Brackets: {brackets}. Two false-positive rates share the name FPR@95; each stands under what it counts."
    if len(shown) < len(order):
        caption += f" The {len(shown)} leading methods of {len(order)}; the store holds all of them."
    columns = [Column("Method", number=False)]
    columns += [Column(metric_of(name).name, metric_of(name).meaning) for name in metrics]
    return Table("numbers", "Every number, by outlier set", caption, tuple(columns), tuple(groups), tuple(notes.lines))


def set_table(facts: StudyFacts) -> Table | None:
    """Prediction sets of inliers: coverage, size, adaptivity."""
    rows = [row for row in facts.of_kind("sets", "adaptivity") if not np.isfinite(row.x) and not row.outlier]
    if not rows:
        return None
    known = {
        "promised": "Promised", "coverage": "Coverage", "mean_size": "Mean size", "t_ss": "T-SS", "t_cv": "T-CV",
        "sscv": "SSCV", "escv": "ESCV",
    }  # fmt: skip
    caption = (
        f"Prediction sets of inliers at alpha = {facts.alpha:g}. T-SS: how far mean set size follows difficulty, from -1 to 1, "
        "larger is better. T-CV, SSCV: worst gap between coverage and promise over groups of equal difficulty, of equal "
        "size; smaller is better."
    )
    return _wide("sets", "Prediction sets", caption, rows, first="Sets", known=known,
                 styles={"coverage": "percent", "promised": "percent"})  # fmt: skip


def outlier_set_table(facts: StudyFacts) -> Table | None:
    """Mean size of the prediction sets of outliers."""
    rows = [row for row in facts.of_kind("sets") if row.outlier and row.metric == "mean_size"]
    if not rows:
        return None
    caption = "Mean number of classes in the prediction sets of outliers. Nothing is promised for them."
    flat = [replace(row, metric=row.outlier) for row in rows]
    return _wide("outlier-sets", "Prediction sets of outliers", caption, flat, first="Sets", known={})


def model_table(facts: StudyFacts) -> Table | None:
    """The models themselves: accuracy and calibration."""
    rows = [replace(row, name=row.source) for row in facts.of_kind("model")]
    if not rows:
        return None
    known = {"accuracy": "Accuracy", "ece": "ECE", "brier": "Brier", "nll": "NLL"}
    caption = "The models on the inliers. Except for accuracy, smaller is better."
    flat = [replace(row, source="") for row in rows]
    return _wide(
        "models", "Models", caption, flat, first="Model", known=known, styles={"accuracy": "percent", "ece": "percent"}
    )


def data_table(facts: StudyFacts) -> Table | None:
    """What was given: data sets and how large they are."""
    rows = [row for row in facts.of_kind("data") if row.metric == "n"]
    if not rows:
        return None
    columns = (
        Column("Data", number=False),
        Column("Role", number=False),
        Column("Samples"),
        Column("Fields", number=False),
    )
    groups = []
    for source in dict.fromkeys(row.source for row in rows):
        mine = {(row.estimate.method, row.outlier): row for row in rows if row.source == source}
        lines = tuple(
            Line(
                (
                    Cell(outlier or role),
                    Cell(role),
                    Cell(f"{row.estimate.n:,}", float(row.estimate.n)),
                    Cell(row.estimate.caveat),
                )
            )
            for (role, outlier), row in mine.items()
        )
        groups.append(Group(source, lines, source))
    return Table("data", "Data", "What was given.", columns, tuple(groups))


def collapse_table(facts: StudyFacts) -> Table | None:
    """Neural-collapse metrics of every network."""
    rows = list(facts.of_kind("collapse"))
    if not rows:
        return None
    caption = "Of the training features; every number is 0 at full collapse, smaller is nearer to it."
    return _wide("collapse", "Neural collapse", caption, rows, first="Projection", known={}, by_projection=True)


def proximity_table(facts: StudyFacts) -> Table | None:
    """How far every outlier set lies from the inliers."""
    rows = list(facts.of_kind("proximity"))
    if not rows:
        return None
    metrics = list(dict.fromkeys(row.metric for row in rows))
    sets = list(dict.fromkeys((row.source, row.outlier) for row in rows))
    several = len({source for source, _ in sets}) > 1
    columns = [Column("Outlier set", number=False), Column("Regime", number=False)]
    columns += [Column(_words(name)) for name in metrics]
    lines = []
    for source, outlier in sets:
        mine = [row for row in rows if (row.source, row.outlier) == (source, outlier)]
        found = {name: _mean([row.estimate for row in mine if row.metric == name]) for name in metrics}
        cells = [
            Cell(f"{source} · {outlier}" if several else outlier),
            Cell(facts.regime(source, outlier) or "not given"),
        ]
        lines.append(Line((*cells, *(number_cell(found.get(name), "plain") for name in metrics))))
    caption = "Distances of the outlier sets from the inliers; smaller is closer."
    return Table("proximity", "How far the outlier sets lie", caption, tuple(columns), (Group("", tuple(lines)),))


def certificate_table(facts: StudyFacts) -> Table | None:
    """AUC, AAUC and GAUC of every method on every set."""
    rows = list(facts.of_kind("certificate"))
    if not rows:
        return None
    order = ("accuracy", "auc", "aauc", "gauc", "guaranteed_auc_band", "zero_gradient_share")
    names = sorted(
        dict.fromkeys(row.metric for row in rows), key=lambda n: order.index(n) if n in order else len(order)
    )
    known = {"auc": "AUC", "aauc": "AAUC", "gauc": "GAUC", "accuracy": "Accuracy", "zero_gradient_share": "Zero gradients",
             "guaranteed_auc_band": "GAUC band"}  # fmt: skip
    percents = {"accuracy", "zero_gradient_share"}
    columns = [Column("Model", number=False)] + [Column(known.get(name, name.replace("_", " "))) for name in names]
    groups = []
    for outlier in dict.fromkeys(row.outlier for row in rows if row.outlier):
        lines = []
        for source in dict.fromkeys(row.source for row in rows):
            # A number without a set, such as the accuracy, belongs to the model and stands with each set.
            found = {row.metric: row.estimate for row in rows if row.source == source and row.outlier in ("", outlier)}
            if any(row.source == source and row.outlier == outlier for row in rows):
                cells = [number_cell(found.get(name), "percent" if name in percents else "number") for name in names]
                lines.append(Line((Cell(source), *cells)))
        groups.append(Group(outlier, tuple(lines)))
    caption = (
        "AUC: unattacked. AAUC: the outliers were attacked to look confident; another attack may do better. GAUC: no attack "
        "within the radius can do better, certified. So GAUC ≤ AAUC ≤ AUC must hold on the same samples."
    )
    return Table("certificates", "Certificates", caption, tuple(columns), tuple(groups))


def failure_table(facts: StudyFacts) -> Table | None:
    """Cells that ended with an error."""
    if not facts.failures:
        return None
    columns = (Column("Cell", number=False), Column("Error", number=False), Column("Key", number=False))
    lines = tuple(Line((Cell(f.what), Cell(f.error), Cell(f.key[:12]))) for f in facts.failures)
    return Table(
        "failures",
        "Failures",
        "Cells that ended with an error; running the study again tries them again.",
        columns,
        (Group("", lines),),
    )


def hash_table(facts: StudyFacts) -> Table | None:
    """Data files and their fingerprints."""
    found = {(cell.source, name, value) for cell in facts.cells for name, value in cell.fingerprints.items()}
    if not found:
        return None
    columns = (Column("Model", number=False), Column("File", number=False), Column("SHA-256", number=False))
    lines = tuple(Line((Cell(source), Cell(name), Cell(value))) for source, name, value in sorted(found))
    caption = "Fingerprints of the files that were read."
    return Table("fingerprints", "Fingerprints", caption, columns, (Group("", lines),), name=1)


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


def _wide(
    key: str, title: str, caption: str, rows: Sequence[Row], *, first: str, known: Mapping[str, str],
    styles: Mapping[str, str] | None = None, by_projection: bool = False,
) -> Table:  # fmt: skip
    """One line per source and name, one column per metric, means over the seeds."""
    metrics = sorted(
        dict.fromkeys(row.metric for row in rows), key=lambda n: list(known).index(n) if n in known else len(known)
    )
    groups = []
    for source in dict.fromkeys(row.source for row in rows):
        mine = [row for row in rows if row.source == source]
        lines = []
        for name in dict.fromkeys(row.projection if by_projection else row.name for row in mine):
            cells = [Cell(name)]
            for metric in metrics:
                found = [
                    r.estimate
                    for r in mine
                    if r.metric == metric and (r.projection if by_projection else r.name) == name
                ]
                cells.append(number_cell(_mean(found), (styles or {}).get(metric, "plain")))
            lines.append(Line(tuple(cells)))
        groups.append(Group(source, tuple(lines), source))
    columns = [Column(first, number=False), *(Column(known.get(name, _words(name))) for name in metrics)]
    return Table(key, title, caption, tuple(columns), tuple(groups))


def _words(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")


def _mean(found: Sequence[Estimate]) -> Estimate | None:
    values = [number.value for number in found if np.isfinite(number.value)]
    if not values:
        return None
    if len(set(values)) == 1:
        return found[0]
    return Estimate(
        float(np.mean(values)), min(values), max(values), 1.0, len(values), f"range over {len(values)} seeds"
    )
