"""The tables about methods: ranking, regimes, every number, errors, points of the curves, papers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from caveat.report import words
from caveat.report.ranks import rows_of
from caveat.report.tables import Cell, Column, Group, Table, make_table, number_cell
from caveat.report.verdicts import ERRORS, METRICS, Verdict, letters_of
from caveat.report.view import Place, View, families
from caveat.results import Estimate
from caveat.scores import catalogue

__all__ = [
    "curve_table", "errors_table", "numbers_table", "ranking_table", "regime_table", "score_table",
]  # fmt: skip

MOST_ROWS = 4000  # of the table of every number


def ranking_table(view: View, verdict: Verdict | None, *, chosen: str = "") -> Table | None:
    """Every method from the best, with its intervals and the letters of its ties."""
    if verdict is None:
        return None
    comparison = verdict.comparison
    letters, alone = letters_of(comparison), len(verdict.top) == 1 and verdict.tells
    lines = []
    for name, thick, thin in rows_of(view, verdict):
        rank = comparison.rank(name)
        label = Cell(f"{name} (chosen)" if name == chosen else name, strong=alone and rank == 1)
        cells: list[Cell | str] = [Cell(str(rank), float(rank)), label, view.family(name)]
        if not verdict.paired:
            cells.append(Cell(f"{comparison.average_ranks[name]:.2f}", comparison.average_ranks[name]))
        cells.append(number_cell(thick))
        guaranteed = thin if verdict.paired else view.guaranteed(verdict.places, name)
        cells.append("not given" if guaranteed is None else Cell(words.interval(guaranteed), guaranteed.lower))
        lines.append((*cells, letters[name]))
    value = "AUROC of errors" if verdict.regime == ERRORS else "Mean AUROC"
    shown = f"{words.level(1 - view.delta)} DeLong" if verdict.paired else "middle half of the blocks"
    average = [] if verdict.paired else [Column("Average rank")]
    columns = [Column("Rank"), "Method", "Reads", *average, Column(value, shown), Column("Guaranteed", "for any n"),
               "Tied"]  # fmt: skip
    caption = (f"Rank: 1 + the number of significantly better methods. {comparison.legend()} "
               "Each guaranteed interval holds for this one number, and decides no rank.")  # fmt: skip
    return make_table("ranking", "Ranking", caption, columns, lines, name=1)


def regime_table(view: View, order: Sequence[str]) -> Table | None:
    """Mean AUROC of every method in every regime."""
    regimes = {r: [p for p in view.places if view.regime(p.model, p.outlier) == r] for r in view.regime_names}
    mean = view.mean_auroc if view.single else partial(view.mean, metric="auroc")
    lines = [(name, *(number_cell(mean(places, name)) for places in regimes.values())) for name in order]
    columns = ("Method", *(Column(r, words.count(len(p), "block"), regime=r) for r, p in regimes.items()))
    brackets = f"{words.level(1 - view.delta)} intervals (DeLong)" if view.single else "range of the blocks"
    caption = f"Mean AUROC. Brackets: {brackets}."
    return make_table("regimes", "AUROC by regime", caption, columns, lines if regimes else ())


def numbers_table(view: View, order: Sequence[str]) -> Table | None:
    """Every metric of every method, by model and outlier set; means over seeds."""
    sets = [(model, outlier) for model in view.models for outlier in view.outliers(model)]
    shown = order[: max(10, MOST_ROWS // max(1, len(sets)))]
    metrics = [m for m in METRICS if any(getattr(r, m, None) for t in (view.detections, view.selectives)
                                         for (place, _), r in t.items() if place.outlier)]  # fmt: skip
    notes, groups = words.Notes(), []
    for model, outlier in sets:
        places = [p for p in view.places if (p.model, p.outlier) == (model, outlier)]
        lines = []
        for name in shown:
            means = {metric: view.mean(places, name, metric) for metric in metrics}
            lines.append((name, *(number_cell(mean, METRICS[metric].style, mark=notes.mark(mean))
                                  for metric, mean in means.items())))  # fmt: skip
        regime = view.regime(model, outlier)
        heading = " · ".join(part for part in (view.named(model), outlier, regime) if part)
        groups.append(Group(heading, lines, view.named(model), regime))
    brackets = f"{words.level(1 - view.delta)} intervals" if view.single else "interval of one seed, range of several"
    caption = f"Brackets: {brackets}. Two rates share the name FPR@95; the headings say what each counts."
    if len(shown) < len(order):
        caption += f" The {len(shown)} leading methods of {len(order)}; the store holds all of them."
    columns = ("Method", *(Column(METRICS[m].name, METRICS[m].meaning) for m in metrics))
    title = "Every number, by outlier set"
    return make_table("numbers", title, caption, columns, groups=groups, notes=notes.lines)


def errors_table(view: View, verdict: Verdict | None) -> Table | None:
    """How well every method warns of the model's own errors."""
    places = [Place(model, seed, "") for model, seed in view.units]
    metrics = {"auroc_of_errors": ("AUROC of errors", "number"), "augrc": ("AUGRC × 1000", "scaled"),
               "aurc": ("AURC × 1000", "scaled")}  # fmt: skip
    shown = [m for m in metrics if any(view.number(p, name, m) for p in places for name in view.methods)]
    letters = {} if verdict is None else letters_of(verdict.comparison)
    order = [*(() if verdict is None else verdict.order), *(n for n in view.methods if n not in letters)]
    lines = [(name, *(number_cell(view.mean(places, name, m), metrics[m][1]) for m in shown), letters.get(name, "–"))
             for name in order]  # fmt: skip
    columns = ("Method", *(Column(metrics[m][0]) for m in shown), "Tied")
    caption = "How well a score warns of wrong answers on inliers. For AUGRC and AURC smaller is better."
    if verdict is not None:
        caption += f" {verdict.comparison.legend()}"
    return make_table("errors", "The model's own errors", caption, columns, lines if shown else ())


def curve_table(view: View, order: Sequence[str], kind: str) -> Table | None:
    """A curve at a few points: outliers caught at given false-alarm rates, or errors at given coverages."""
    roc = kind == "roc"
    at = (0.01, 0.05, 0.1, 0.2) if roc else (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
    groups = []
    for model in view.models:
        for outlier in view.outliers(model) if roc else [""]:
            lines = []
            for name in order:
                if (curve := view.curve(kind, model, outlier, name)) is not None:
                    x, *ys = curve
                    points = [[float(np.interp(a, x, y)) for y in ys] for a in at]
                    cells = (number_cell(Estimate(y, low, high, 1 - view.delta, 0, ""), "percent")
                             for y, low, high in points)  # fmt: skip
                    lines.append((name, *cells))
            heading = view.headed(model, outlier) if outlier else view.named(model)
            groups.append(Group(heading, lines, view.named(model)))
    columns = ("Method", *(Column(words.level(a), "inliers rejected" if roc else "answered") for a in at))
    if roc:
        title, caption = "ROC curves at four rates", "Outliers caught, with the band of all thresholds at once."
    else:
        title, caption = "Risk-coverage curves at six points", "Errors among the answered."
    return make_table(f"{kind}-points", title, caption, columns, groups=groups)


def score_table(view: View) -> Table | None:
    """What each score reads, and the paper it comes from."""
    reads = families()
    present = {method.score for method in view.methods.values()}
    lines = [(e.name, reads[e.name], e.summary, e.paper) for e in catalogue() if e.name in present]
    return make_table("scores", "Scores and their papers", "", ("Score", "Reads", "What it is", "Paper"), lines)
