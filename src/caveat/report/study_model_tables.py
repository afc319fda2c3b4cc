"""The tables about the models of a study: accuracy, sets, collapse, distances, certificates, data, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from caveat.report.study_facts import Row, StudyFacts
from caveat.report.study_tables import number_cell
from caveat.report.tables import Cell, Column, Group, Line, Table
from caveat.report.words import level
from caveat.results import Estimate

__all__ = [
    "certificate_table", "certified_model", "collapse_table", "data_table", "failure_table", "hash_table",
    "model_table", "outlier_set_table", "proximity_table", "set_table",
]  # fmt: skip

_RANGE = "range over"


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
        f"Prediction sets of inliers at alpha = {facts.alpha:g}. T-SS: how far mean set size follows difficulty, from "
        "-1 to 1, larger is better. T-CV and SSCV: worst gap between coverage and promise over groups of equal "
        "difficulty and of equal size; smaller is better."
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
    names = {row.outlier: row.outlier for row in rows}
    return _wide("outlier-sets", "Prediction sets of outliers", caption, flat, first="Sets", known=names)


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
    """How far every outlier set lies from the training data."""
    rows = list(facts.of_kind("proximity"))
    if not rows:
        return None
    metrics = list(dict.fromkeys(row.metric for row in rows))
    sets = list(dict.fromkeys((row.source, row.outlier) for row in rows))
    several = len({source for source, _ in sets}) > 1
    columns = [Column("Outlier set", number=False), Column("Regime", number=False)]
    columns += [Column({"frechet": "Fréchet", "mmd": "MMD"}.get(name, _words(name))) for name in metrics]
    lines = []
    for source, outlier in sets:
        mine = [row for row in rows if (row.source, row.outlier) == (source, outlier)]
        found = {name: _mean([row.estimate for row in mine if row.metric == name]) for name in metrics}
        cells = [
            Cell(f"{source} · {outlier}" if several else outlier),
            Cell(facts.regime(source, outlier) or mine[0].regime or "not given"),
        ]
        lines.append(Line((*cells, *(number_cell(found.get(name), "plain") for name in metrics))))
    caption = _with_brackets("Distances of the outlier sets from the training data; smaller is closer.", rows)
    return Table("proximity", "How far the outlier sets lie", caption, tuple(columns), (Group("", tuple(lines)),))


def certificate_table(facts: StudyFacts) -> Table | None:
    """AUC, AAUC and GAUC of every model at every radius, by outlier set."""
    rows = list(facts.of_kind("certificate"))
    if not rows:
        return None
    known = {
        "accuracy": "Accuracy", "auc": "AUC", "aauc": "AAUC", "gauc": "GAUC", "guaranteed_auc_band": "Guaranteed GAUC",
        "conservative_gauc": "Conservative GAUC", "gfpr95_inlier_positive": "Certified outliers accepted",
        "mean_confidence": "Mean confidence", "mean_upper_bound": "Mean upper bound",
        "zero_gradient_share": "No gradient",
    }  # fmt: skip
    names = _ordered(rows, known)
    percents = {"accuracy", "zero_gradient_share", "gfpr95_inlier_positive"}
    columns = [Column("Model", number=False), *(Column(known.get(name, _words(name))) for name in names)]
    groups = []
    for outlier in dict.fromkeys(row.outlier for row in rows if row.outlier):
        lines = []
        for source, radius in dict.fromkeys((row.source, row.name) for row in rows if row.outlier == outlier):
            of_model = [row for row in rows if (row.source, row.name) == (source, radius)]
            cells = [Cell(certified_model(facts, source, radius))]
            for name in names:
                mine = [row for row in of_model if row.metric == name and row.outlier == outlier]
                # A number without a set, such as the accuracy, belongs to the model and stands with each set.
                mine = mine or [row for row in of_model if row.metric == name == "accuracy"]
                found = _mean([row.estimate for row in mine])
                cells.append(number_cell(found, "percent" if name in percents else "number"))
            lines.append(Line(tuple(cells)))
        groups.append(Group(outlier, tuple(lines)))
    caption = (
        "AUC: unattacked. AAUC: the outliers were attacked to look confident; another attack may do better. GAUC: no "
        "attack within the radius can do better, certified. So GAUC ≤ AAUC ≤ AUC must hold on the same samples."
    )
    return Table("certificates", "Certificates", _with_brackets(caption, rows), tuple(columns), tuple(groups))


def certified_model(facts: StudyFacts, source: str, radius: str) -> str:
    """A model, and the radius of its certificates where there are several."""
    radii = {row.name for row in facts.of_kind("certificate")}
    return f"{source} {radius}".rstrip() if len(radii) > 1 else source


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
    found: dict[tuple[str, str, str], set[int]] = {}
    for cell in facts.cells:
        for name, value in cell.fingerprints.items():
            found.setdefault((cell.source, name, value), set()).add(cell.seed)
    if not found:
        return None
    columns = tuple(Column(heading, number=False) for heading in ("Model", "File", "Seed", "SHA-256"))
    lines = []
    for (source, name, value), seeds in sorted(found.items(), key=lambda item: (*item[0][:2], min(item[1]))):
        lines.append(Line((Cell(source), Cell(name), Cell(", ".join(map(str, sorted(seeds)))), Cell(value))))
    caption = "Fingerprints of the files that were read."
    return Table("fingerprints", "Fingerprints", caption, columns, (Group("", tuple(lines)),), name=1)


def _wide(
    key: str, title: str, caption: str, rows: Sequence[Row], *, first: str, known: Mapping[str, str],
    styles: Mapping[str, str] | None = None, by_projection: bool = False,
) -> Table:  # fmt: skip
    """One line per source and name, one column per metric, means over the seeds."""
    metrics = _ordered(rows, known)
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
    return Table(key, title, _with_brackets(caption, rows), tuple(columns), tuple(groups))


def _with_brackets(caption: str, rows: Sequence[Row]) -> str:
    """The caption, and what the brackets are where there are any: of several seeds, or of the only one."""
    seeds: dict[tuple[str, ...], list[Estimate]] = {}
    for row in rows:
        key = (row.source, row.name, row.projection, row.outlier, row.metric)
        seeds.setdefault(key, []).append(row.estimate)
    found = [mean for estimates in seeds.values() if (mean := _mean(estimates)) is not None and _bracketed(mean)]
    ranges = {mean.n for mean in found if mean.method.startswith(_RANGE)}
    levels = sorted({mean.level for mean in found if not mean.method.startswith(_RANGE)})
    said = [f"{_RANGE} {max(ranges)} seeds"] if ranges else []
    said += [f"{' and '.join(map(level, levels))} intervals"] if levels else []
    return f"{caption} Brackets: {'; else '.join(said)}." if said else caption


def _ordered(rows: Sequence[Row], known: Mapping[str, str]) -> list[str]:
    """The metrics of rows, those that are known first and in their order."""
    order = {name: i for i, name in enumerate(known)}
    return sorted(dict.fromkeys(row.metric for row in rows), key=lambda name: order.get(name, len(order)))


def _words(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")


def _mean(found: Sequence[Estimate]) -> Estimate | None:
    values = [number.value for number in found if np.isfinite(number.value)]
    if not values:
        return None
    if len(values) == 1 or (len(set(values)) == 1 and not any(map(_bracketed, found))):
        return next(number for number in found if np.isfinite(number.value))
    return Estimate(float(np.mean(values)), min(values), max(values), 1.0, len(values), f"{_RANGE} {len(values)} seeds")


def _bracketed(number: Estimate) -> bool:
    return bool(np.isfinite([number.value, number.lower, number.upper]).all())
