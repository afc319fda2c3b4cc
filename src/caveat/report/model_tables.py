"""The tables about models and data: decisions, accuracy, prediction sets, distances, collapse, roles, provenance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caveat.evaluation.records import Collapse, Left, Proximity
from caveat.report import words
from caveat.report.method_tables import number_cell
from caveat.report.tables import Cell, Column, Group, Line, Table
from caveat.report.verdicts import letters_of
from caveat.report.view import View, ranged, regime_place
from caveat.results import Estimate, Promise

__all__ = [
    "caught_table", "collapse_table", "data_table", "decision_table", "failure_table", "fingerprint_table",
    "left_out_table", "model_rank_table", "model_table", "outlier_set_table", "proximity_table", "reliability_table",
    "set_table",
]  # fmt: skip

_QUESTIONS = {
    "accuracy": ("Accuracy", "percent"), "aurc": ("AURC × 1000", "scaled"), "augrc": ("AUGRC × 1000", "scaled"),
    "auroc_of_errors": ("AUROC of errors", "number"), "auroc": ("AUROC of outliers", "number"),
}  # fmt: skip
_USES = {
    "train": "fit scores that learn", "calibration": "thresholds, sets and risk; nobody looks before",
    "inlier": "measure, and choose the score", "outlier": "measure, and choose the score",
    "confirm": "share caught, after the decision",
}  # fmt: skip


def decision_table(view: View) -> Table | None:
    """One line per model and seed: score, threshold, promises and what was measured."""
    lines = []
    for unit in view.units:
        d = view.decision(unit)
        if d is None:
            continue
        shares = [c.share.value for c in d.caught]
        cells = [
            Cell(unit_name(view, unit)), Cell(str(d.method)), Cell(f"{d.threshold:.4g}", d.threshold),
            Cell(_mark(d.false_alarms)), number_cell(d.measured_false_alarms, "percent"),
            Cell(_mark(d.errors)), number_cell(d.measured_errors, "percent"),
            Cell("–") if d.sets is None else number_cell(d.sets.coverage, "percent"),
            Cell("–") if not shares else Cell(
                words.percent(float(np.mean(shares))), float(np.mean(shares)),
                f"[{words.percent(min(shares))}, {words.percent(max(shares))}]",
            ),
        ]  # fmt: skip
        lines.append(Line(tuple(cells)))
    if not lines:
        return None
    f = view.findings
    columns = (
        Column("Model", number=False), Column("Score", number=False), Column("Threshold"),
        Column(f"≤ {words.level(f.false_alarm)}", "false alarms", number=False), Column("False alarms", "measured"),
        Column(f"≤ {words.level(f.risk)}", "errors among accepted", number=False), Column("Errors", "measured"),
        Column("Coverage", "measured"), Column("Caught", "mean and range of the sets"),
    )  # fmt: skip
    caption = f"✓: promised with {words.level(1 - f.delta)} confidence. !: too few calibration samples to promise."
    return Table("decisions", "Decision of every model", caption, columns, (Group("", tuple(lines)),))


def _mark(promise: Promise | None) -> str:
    return "–" if promise is None else "✓" if promise.holds else "!"


def unit_name(view: View, unit: tuple[str, int]) -> str:
    """The model, and the seed where it has several."""
    model, seed = unit
    return f"{model}, seed {seed}" if sum(m == model for m, _ in view.units) > 1 else model


def caught_table(view: View) -> Table | None:
    """Share of every outlier set that is rejected."""
    groups = []
    for unit in view.units:
        d = view.decision(unit)
        if d is not None and d.caught:
            order = sorted(d.caught, key=lambda c: (c.confirmed, regime_place(c.regime), c.outlier))
            lines = tuple(
                Line((Cell(c.outlier), Cell(c.regime or "not given"), number_cell(c.share, "percent"),
                      Cell(f"{c.share.n:,}", float(c.share.n)),
                      Cell("confirmed" if c.confirmed else "also used to choose")))
                for c in order
            )  # fmt: skip
            groups.append(Group("" if view.single else unit_name(view, unit), lines))
    columns = (Column("Outlier set", number=False), Column("Regime", number=False), Column("Caught"),
               Column("Samples"), Column("Role", number=False))  # fmt: skip
    caption = f"Share at or above the threshold, {words.level(1 - view.delta)} Clopper-Pearson."
    return Table("caught", "Share of each outlier set caught", caption, columns, tuple(groups)) if groups else None


def model_table(view: View) -> Table | None:
    """The models themselves: accuracy and calibration."""
    names = {"accuracy": ("Accuracy", "percent"), "ece": ("ECE", "percent"), "brier": ("Brier", "plain"),
             "nll": ("NLL", "plain")}  # fmt: skip
    facts = {unit: f for unit in view.units if (f := view.facts(unit)) is not None}
    shown = [name for name in names if any(getattr(f, name) is not None for f in facts.values())]
    if not shown:
        return None
    lines = []
    for model in view.models:
        mine = [f for (name, _), f in facts.items() if name == model]
        if mine:
            label = model if len(view.models) > 1 else "the model"
            lines.append(Line((Cell(label), *(number_cell(mean_of([getattr(f, n) for f in mine]), names[n][1])
                                              for n in shown))))  # fmt: skip
    caption = (
        "On the inliers. Except for accuracy, smaller is better. Brackets: interval of one seed, range of several."
    )
    columns = (Column("Model", number=False), *(Column(names[name][0]) for name in shown))
    return Table("models", "Accuracy and calibration", caption, columns, (Group("", tuple(lines)),))


def model_rank_table(view: View) -> Table | None:
    """Which models differ, by each question; models that share a letter cannot be told apart."""
    found = view.findings.model_ranking
    if found is None or not found.rankings:
        return None
    first = next(iter(found.rankings.values()))
    lines = []
    for model in first.methods:
        cells = [Cell(model)]
        for question, ranking in found.rankings.items():
            style = _QUESTIONS[question][1]
            value, letters = (ranking.values or {})[model], letters_of(ranking)[model]
            cells += [Cell(words.STYLES[style](value), value), Cell(f"{ranking.rank(model)} {letters}")]
        lines.append(Line(tuple(cells)))
    columns = [Column("Model", number=False)]
    for question in found.rankings:
        columns += [Column(_QUESTIONS[question][0]), Column("Rank", "and ties", number=False)]
    rows = "On the same rows" if first.posthoc == "mcnemar" else f"Over {words.count(first.n_blocks, 'seed')}"
    tests = words.listing(list(dict.fromkeys(ranking.test_name() for ranking in found.rankings.values())))
    score = f" The score is {found.method} for all but accuracy." if found.method else ""
    caption = (f"{rows}. Rank: 1 + the number of significantly better models. Models that share a letter cannot be "
               f"told apart ({tests}, at {words.level(first.alpha)} for each question).{score}")  # fmt: skip
    return Table("model-ranks", "Which models differ", caption, tuple(columns), (Group("", tuple(lines)),))


def reliability_table(view: View) -> Table | None:
    """The bins of the reliability diagram."""
    groups = []
    for model in view.models:
        curve = view.curve("reliability", model, "", "model")
        if curve is not None:
            lines = tuple(
                Line((Cell(words.percent(x), x), number_cell(Estimate(y, low, high, 1 - view.delta, 0, ""), "percent")))
                for x, y, low, high in zip(*(c.tolist() for c in curve), strict=True)
                if np.isfinite(y)
            )
            groups.append(Group(view.named(model), lines, view.named(model)))
    columns = (Column("Mean confidence"), Column("Accuracy", "with its interval"))
    caption = "Bins of equal width that hold samples."
    return Table("reliability-bins", "Reliability", caption, columns, tuple(groups), name=-1) if groups else None


def set_table(view: View) -> Table | None:
    """Prediction sets of inliers: coverage, size, adaptivity."""
    groups = []
    for model in view.models:
        lines = []
        for s in view.sets(model):
            if not s.block.outlier:
                values = [Estimate(v, np.nan, np.nan, np.nan, s.n, "") for v in
                          (s.promised, s.mean_size, s.empty, s.t_ss, s.t_cv, s.sscv)]  # fmt: skip
                styles = ("percent", "plain", "percent", "plain", "plain", "plain")
                rest = [number_cell(v, style) for v, style in zip(values, styles, strict=True)]
                lines.append(Line((Cell(s.set_method), rest[0], number_cell(s.coverage, "percent"), Cell(s.verdict),
                                   *rest[1:])))  # fmt: skip
        if lines:
            groups.append(Group(view.named(model), tuple(lines)))
    if not groups:
        return None
    columns = (Column("Sets", number=False), Column("Promised"), Column("Coverage", "measured"),
               Column("Verdict", number=False), Column("Mean size"), Column("Empty"), Column("T-SS"), Column("T-CV"),
               Column("SSCV"))  # fmt: skip
    caption = (
        f"At alpha = {view.alpha:g}. T-SS: how far set size follows difficulty, from -1 to 1, larger is better. T-CV "
        "and SSCV: worst gap between coverage and promise over groups of equal difficulty and of equal size."
    )
    return Table("sets", "Prediction sets", caption, columns, tuple(groups))


def outlier_set_table(view: View) -> Table | None:
    """Mean size of the prediction sets of outliers."""
    lines = [Line((Cell(view.headed(model, s.block.outlier)), Cell(s.set_method),
                   Cell(words.plain(s.mean_size), s.mean_size), Cell(words.percent(s.empty), s.empty)))
             for model in view.models for s in view.sets(model) if s.block.outlier]  # fmt: skip
    if not lines:
        return None
    columns = (Column("Outlier set", number=False), Column("Sets", number=False), Column("Mean size"), Column("Empty"))
    caption = "Nothing is promised about outliers."
    return Table("outlier-sets", "Prediction sets of outliers", caption, columns, (Group("", tuple(lines)),))


def proximity_table(view: View) -> Table | None:
    """How far every outlier set lies from the training data."""
    names = {"frechet": "Fréchet", "mmd": "MMD", "centroid": "Centroid"}
    found: dict[tuple[str, str, str, str], list[Proximity]] = {}
    for p in view.findings.of(Proximity):
        found.setdefault((p.block.model, p.block.outlier, p.block.regime, p.space), []).append(p)
    lines = [Line((Cell(view.headed(model, outlier)), Cell(regime or "not given"), Cell(space),
                   *(number_cell(_plain_mean([getattr(p, n) for p in rows]), "plain") for n in names)))
             for (model, outlier, regime, space), rows in found.items()]  # fmt: skip
    if not lines:
        return None
    columns = (*(Column(n, number=False) for n in ("Outlier set", "Regime", "Space")), *map(Column, names.values()))
    caption = "Distances of the outlier sets from the training data; smaller is closer."
    return Table("proximity", "Distance of the outlier sets", caption, columns, (Group("", tuple(lines)),))


def collapse_table(view: View) -> Table | None:
    """Neural-collapse metrics of every network."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for c in view.findings.of(Collapse):
        found.setdefault((c.block.model, c.projection), {}).setdefault(c.quantity, []).append(c.value)
    if not found:
        return None
    names = list(dict.fromkeys(q for values in found.values() for q in values))
    lines = [Line((Cell(view.headed(model, projection)),
                   *(number_cell(_plain_mean(values.get(n, [])), "plain") for n in names)))
             for (model, projection), values in found.items()]  # fmt: skip
    columns = (Column("Projection", number=False), *(Column(_words(name)) for name in names))
    caption = "Of the training features. Every number is 0 at full collapse. Brackets: range over seeds."
    return Table("collapse", "Neural collapse", caption, columns, (Group("", tuple(lines)),))


def data_table(view: View) -> Table | None:
    """Which data played which role."""
    groups = []
    for unit in view.units:
        lines = tuple(
            Line((Cell(d.block.outlier or {"inlier": "test"}.get(d.role, d.role)), Cell(d.role),
                  Cell(_USES[d.role]), Cell(f"{d.n:,}", float(d.n)), Cell(d.fields)))
            for d in view.data(unit)
        )  # fmt: skip
        if lines:
            groups.append(Group("" if view.single else unit_name(view, unit), lines, "" if view.single else unit[0]))
    if not groups:
        return None
    columns = (Column("Data", number=False), Column("Role", number=False), Column("Used to", number=False),
               Column("Samples"), Column("Fields", number=False))  # fmt: skip
    caption = "A random half of the inliers calibrated, the other half measured." if view.findings.split else ""
    return Table("data", "Data and roles", caption, columns, tuple(groups))


def left_out_table(view: View) -> Table | None:
    """Scores that were not computed, and why."""
    reasons: dict[str, set[str]] = {}
    for left in view.findings.of(Left):
        reasons.setdefault(left.reason, set()).add(str(left.method))
    lines = tuple(Line((Cell(", ".join(sorted(names))), Cell(reason))) for reason, names in sorted(reasons.items()))
    columns = (Column("Scores", number=False), Column("Reason", number=False))
    return Table("left-out", "Scores that were left out", "", columns, (Group("", lines),)) if lines else None


def failure_table(view: View) -> Table | None:
    """Cells that ended with an error."""
    lines = tuple(Line((Cell(f.label), Cell(f.error), Cell(f.key[:12]))) for f in view.findings.failures)
    columns = tuple(Column(heading, number=False) for heading in ("Cell", "Error", "Key"))
    caption = "Run the study again to retry these cells."
    return Table("failures", "Failures", caption, columns, (Group("", lines),)) if lines else None


def fingerprint_table(view: View) -> Table | None:
    """Data files and their fingerprints."""
    pairs = sorted({pair for cell in view.findings.cells for pair in cell.fingerprints.items()})
    lines = tuple(Line((Cell(name), Cell(value))) for name, value in pairs)
    columns = (Column("File", number=False), Column("SHA-256", number=False))
    return Table("fingerprints", "Fingerprints of the files", "", columns, (Group("", lines),)) if lines else None


def mean_of(found: Sequence[Estimate | None]) -> Estimate | None:
    """The only estimate, or the mean of several with their range."""
    present = [e for e in found if e is not None and np.isfinite(e.value)]
    return None if not present else present[0] if len(present) == 1 else ranged([e.value for e in present])


def _plain_mean(values: Sequence[float]) -> Estimate | None:
    return mean_of([Estimate(v, np.nan, np.nan, np.nan, 1, "") for v in values])


def _words(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")
