"""The tables about methods: ranking, regimes, every number, errors, points of the curves, papers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caveat.report import words
from caveat.report.forest import rows_of
from caveat.report.tables import Cell, Column, Group, Line, Table
from caveat.report.verdicts import ERRORS, METRICS, Verdict, letters_of
from caveat.report.view import Place, View, families
from caveat.results import Estimate
from caveat.scores import catalogue

__all__ = [
    "curve_table", "errors_table", "number_cell", "numbers_table", "ranking_table", "regime_table", "score_table",
]  # fmt: skip

MOST_ROWS = 4000  # of the table of every number


def number_cell(found: Estimate | None, style: str = "number", *, strong: bool = False, mark: str = "") -> Cell:
    """A number with its interval."""
    if found is None or not np.isfinite(found.value):
        return Cell("not measured")
    bounds = words.interval(found, style) if np.isfinite([found.lower, found.upper]).all() else ""
    return Cell(words.STYLES[style](found.value), found.value, bounds, strong, mark)


def ranking_table(view: View, verdict: Verdict, *, chosen: str = "") -> Table:
    """Every method from the best, with its intervals and the letters of its ties."""
    comparison = verdict.comparison
    letters, alone = letters_of(comparison), len(verdict.top) == 1 and verdict.tells
    lines = []
    for name, thick, thin in rows_of(view, verdict):
        rank, family = comparison.rank(name), view.family(name)
        label = Cell(f"{name} (chosen)" if name == chosen else name, strong=alone and rank == 1)
        cells = [Cell(str(rank), float(rank)), label, Cell(family)]
        if not verdict.paired:
            cells.append(Cell(f"{comparison.average_ranks[name]:.2f}", comparison.average_ranks[name]))
        cells.append(number_cell(thick))
        guaranteed = thin if verdict.paired else view.guaranteed(verdict.places, name)
        cells.append(Cell("not given") if guaranteed is None else Cell(words.interval(guaranteed), guaranteed.lower))
        lines.append(Line((*cells, Cell(letters[name])), family))
    value = "AUROC of errors" if verdict.regime == ERRORS else "Mean AUROC"
    shown = f"{words.level(1 - view.delta)} DeLong" if verdict.paired else "middle half of the blocks"
    columns = [Column("Rank"), Column("Method", number=False), Column("Reads", number=False)]
    columns += [] if verdict.paired else [Column("Average rank")]
    columns += [Column(value, shown), Column("Guaranteed", "for any n"), Column("Tied", number=False)]
    caption = (f"Rank: 1 + the number of significantly better methods. {comparison.legend()} "
               "Each guaranteed interval holds for this one number, and decides no rank.")  # fmt: skip
    return Table("ranking", "Ranking", caption, tuple(columns), (Group("", tuple(lines)),), name=1)


def regime_table(view: View, order: Sequence[str]) -> Table | None:
    """Mean AUROC of every method in every regime."""
    if not view.regime_names:
        return None
    regimes = {r: [p for p in view.places if view.regime(p.model, p.outlier) == r] for r in view.regime_names}
    lines = [Line((Cell(name), *(number_cell(_mean_auroc(view, places, name)) for places in regimes.values())))
             for name in order]  # fmt: skip
    columns = (Column("Method", number=False), *(Column(r, words.count(len(p), "block"), regime=r)
                                                 for r, p in regimes.items()))  # fmt: skip
    brackets = f"{words.level(1 - view.delta)} intervals (DeLong)" if view.single else "range of the blocks"
    caption = f"Mean AUROC. Brackets: {brackets}."
    return Table("regimes", "AUROC by regime", caption, columns, (Group("", tuple(lines)),))


def _mean_auroc(view: View, places: Sequence[Place], name: str) -> Estimate | None:
    return view.mean_auroc(places, name) if view.single else view.mean(places, name, "auroc")


def numbers_table(view: View, order: Sequence[str]) -> Table | None:
    """Every metric of every method, by model and outlier set; means over seeds."""
    sets = [(model, outlier) for model in view.models for outlier in view.outliers(model)]
    if not sets:
        return None
    shown = order[: max(10, MOST_ROWS // len(sets))]
    metrics = [m for m in METRICS if any(getattr(r, m, None) for t in (view.detections, view.selectives)
                                         for (place, _), r in t.items() if place.outlier)]  # fmt: skip
    notes, groups = words.Notes(), []
    for model, outlier in sets:
        places = [p for p in view.places if (p.model, p.outlier) == (model, outlier)]
        lines = []
        for name in shown:
            cells, family = [Cell(name)], view.family(name)
            for metric in metrics:
                found = view.mean(places, name, metric)
                mark = "" if found is None else notes.mark(found)
                cells.append(number_cell(found, METRICS[metric].style, mark=mark))
            lines.append(Line(tuple(cells), family))
        regime = view.regime(model, outlier)
        heading = " · ".join([*([model] if len(view.models) > 1 else []), outlier, *([regime] if regime else [])])
        groups.append(Group(heading, tuple(lines), view.named(model), regime))
    brackets = f"{words.level(1 - view.delta)} intervals" if view.single else "interval of one seed, range of several"
    caption = f"Brackets: {brackets}. Two rates share the name FPR@95; the headings say what each counts."
    if len(shown) < len(order):
        caption += f" The {len(shown)} leading methods of {len(order)}; the store holds all of them."
    columns = (Column("Method", number=False), *(Column(METRICS[m].name, METRICS[m].meaning) for m in metrics))
    return Table("numbers", "Every number, by outlier set", caption, columns, tuple(groups), tuple(notes.lines))


def errors_table(view: View, verdict: Verdict | None) -> Table | None:
    """How well every method warns of the model's own errors."""
    places = [Place(model, seed, "") for model, seed in view.units]
    metrics = {"auroc_of_errors": ("AUROC of errors", "number"), "augrc": ("AUGRC × 1000", "scaled"),
               "aurc": ("AURC × 1000", "scaled")}  # fmt: skip
    shown = [m for m in metrics if any(view.number(p, name, m) for p in places for name in view.methods)]
    if not shown:
        return None
    letters = {} if verdict is None else letters_of(verdict.comparison)
    order = [*(() if verdict is None else verdict.order), *(n for n in view.methods if n not in letters)]
    lines = [Line((Cell(name), *(number_cell(view.mean(places, name, m), metrics[m][1]) for m in shown),
                   Cell(letters.get(name, "–"))), view.family(name)) for name in order]  # fmt: skip
    columns = (Column("Method", number=False), *(Column(metrics[m][0]) for m in shown), Column("Tied", number=False))
    caption = "How well a score warns of wrong answers on inliers. For AUGRC and AURC smaller is better."
    if verdict is not None:
        caption += f" {verdict.comparison.legend()}"
    return Table("errors", "The model's own errors", caption, columns, (Group("", tuple(lines)),))


def curve_table(view: View, order: Sequence[str], kind: str) -> Table | None:
    """A curve at a few points: outliers caught at given false-alarm rates, or errors at given coverages."""
    roc = kind == "roc"
    at = (0.01, 0.05, 0.1, 0.2) if roc else (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
    groups = []
    for model in view.models:
        for outlier in view.outliers(model) if roc else [""]:
            lines = []
            for name in order:
                curve = view.curve(kind, model, outlier, name)
                if curve is not None:
                    x, *ys = curve
                    points = [[float(np.interp(a, x, y)) for y in ys] for a in at]
                    cells = (number_cell(Estimate(y, low, high, 1 - view.delta, 0, ""), "percent")
                             for y, low, high in points)  # fmt: skip
                    lines.append(Line((Cell(name), *cells)))
            if lines:
                groups.append(Group(view.headed(model, outlier) if outlier or len(view.models) > 1 else "",
                                    tuple(lines), view.named(model)))  # fmt: skip
    if not groups:
        return None
    columns = (Column("Method", number=False),
               *(Column(words.level(a), "inliers rejected" if roc else "answered") for a in at))  # fmt: skip
    if roc:
        title, caption = "ROC curves at four rates", "Outliers caught, with the band of all thresholds at once."
    else:
        title, caption = "Risk-coverage curves at six points", "Errors among the answered."
    return Table(f"{kind}-points", title, caption, columns, tuple(groups))


def score_table(view: View) -> Table | None:
    """What each score reads, and the paper it comes from."""
    reads = families()
    present = {method.score for method in view.methods.values()}
    lines = tuple(Line((Cell(e.name), Cell(reads[e.name]), Cell(e.summary), Cell(e.paper)))
                  for e in catalogue() if e.name in present)  # fmt: skip
    if not lines:
        return None
    columns = tuple(Column(name, number=False) for name in ("Score", "Reads", "What it is", "Paper"))
    return Table("scores", "Scores and their papers", "", columns, (Group("", lines),))
