"""The tables about models and data: decisions, accuracy, prediction sets, distances, collapse, roles, provenance."""

from __future__ import annotations

import math

import numpy as np

from caveat.evaluation.records import ClassFacts, Collapse, File, Left, Note, Proximity, Tuning
from caveat.report import words
from caveat.report.tables import Cell, Column, Group, Table, count_cell, make_table, number_cell
from caveat.report.verdicts import letters_of
from caveat.report.view import View, mean_of, regime_place
from caveat.results import Estimate

__all__ = [
    "caught_table", "class_table", "collapse_table", "data_table", "decision_table", "failure_table",
    "file_table", "fingerprint_table", "left_out_table", "model_rank_table", "model_table", "note_table",
    "outlier_set_table",
    "proximity_table", "reliability_table", "set_table", "tuning_table",
]  # fmt: skip

_QUESTIONS = {
    "accuracy": ("Accuracy", "percent"), "aurc": ("AURC × 1000", "scaled"), "augrc": ("AUGRC × 1000", "scaled"),
    "auroc_of_errors": ("AUROC of errors", "number"), "auroc": ("AUROC of outliers", "number"),
}  # fmt: skip
_CLASSES = 30  # rows of the table of classes
_USES = {
    "train": "fit scores that learn", "tuning": "choose temperature and parameters; sets no threshold",
    "calibration": "thresholds, sets and risk; nobody looks before",
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
        marks = {promise.what: judgment.mark for promise, judgment in zip(d.promises, d.judgments, strict=True)}
        lines.append((
            view.unit_name(unit) or unit[0], str(d.method),
            Cell("none", math.inf) if math.isinf(d.threshold) else Cell(f"{d.threshold:.4g}", d.threshold),
            marks["false alarms"], number_cell(d.measured_false_alarms, "percent"),
            marks.get("errors among the accepted", "–"),
            "none accepted" if d.ungated_errors is not None else number_cell(d.measured_errors, "percent"),
            "–" if d.sets is None else number_cell(d.sets.coverage, "percent"),
            "–" if not shares else Cell(
                words.percent(float(np.mean(shares))), float(np.mean(shares)),
                f"[{words.percent(min(shares))}, {words.percent(max(shares))}]",
            ),
        ))  # fmt: skip
    f = view.findings
    columns = (
        "Model", "Score", Column("Threshold"), Column(f"≤ {words.level(f.false_alarm)}", "false alarms", number=False),
        Column("False alarms", "measured"), Column(f"≤ {words.level(f.risk)}", "errors among accepted", number=False),
        Column("Errors", "measured"), Column("Coverage", "measured"), Column("Caught", "mean and range of the sets"),
    )  # fmt: skip
    caption = (
        f"✓: promised with {words.level(1 - f.delta)} confidence, and the test rows agree as chance allows. ✗: "
        "promised, but contradicted by the test rows. –: not judged. !: the calibration samples cannot carry a promise."
    )
    return make_table("decisions", "Decision of every model", caption, columns, lines)


def note_table(view: View) -> Table | None:
    """Warnings that were given while it was measured."""
    lines = [(view.unit_name((n.block.model, n.block.seed)) or "evaluation", n.text) for n in view.findings.of(Note)]
    return make_table("notes", "Notes", "", ("Where", "Note"), lines)


def file_table(view: View) -> Table | None:
    """The files that were read."""
    lines = [(f"{f.role} {f.block.outlier}".strip() if f.role != "inlier" else "test", f.path, count_cell(f.n),
              f.sha256[:12] or "not computed") for f in view.findings.of(File)]  # fmt: skip
    return make_table("files", "Files", "Rows that were read, and the first 12 digits of the SHA-256 of the file.",
                      ("Role", "File", Column("Rows"), "SHA-256"), lines, name=1)  # fmt: skip


def caught_table(view: View) -> Table | None:
    """Share of every outlier set that is rejected."""
    groups = []
    for unit in view.units:
        d = view.decision(unit)
        order = () if d is None else sorted(d.caught, key=lambda c: (c.confirmed, regime_place(c.regime), c.outlier))
        lines = [(c.outlier, c.regime or "not given", number_cell(c.share, "percent"), count_cell(c.share.n),
                  "confirmed" if c.confirmed else "also used to choose") for c in order]  # fmt: skip
        groups.append(Group(view.unit_name(unit), lines))
    columns = ("Outlier set", "Regime", Column("Caught"), Column("Samples"), "Role")
    caption = f"Share at or above the threshold, {words.level(1 - view.delta)} Clopper-Pearson."
    return make_table("caught", "Share of each outlier set caught", caption, columns, groups=groups)


def model_table(view: View) -> Table | None:
    """The models themselves: accuracy and calibration."""
    names = {"accuracy": ("Accuracy", "percent"), "ece": ("ECE", "percent"), "brier": ("Brier", "plain"),
             "nll": ("NLL", "plain")}  # fmt: skip
    facts = {unit: f for unit in view.units if (f := view.facts(unit)) is not None}
    shown = [name for name in names if any(getattr(f, name) is not None for f in facts.values())]
    lines = []
    for model in view.models:
        mine = [f for (name, _), f in facts.items() if name == model]
        if mine and shown:
            numbers = (number_cell(mean_of([getattr(f, name) for f in mine]), names[name][1]) for name in shown)
            lines.append((view.named(model) or "the model", *numbers))
    caption = (
        "On the inliers. Except for accuracy, smaller is better. Brackets: interval of one seed, range of several."
    )
    columns = ("Model", *(Column(names[name][0]) for name in shown))
    return make_table("models", "Accuracy and calibration", caption, columns, lines)


def model_rank_table(view: View) -> Table | None:
    """Which models differ, by each question; models that share a letter cannot be told apart."""
    models = view.findings.model_ranking
    if models is None or not models.rankings:
        return None
    first = next(iter(models.rankings.values()))
    lines = []
    for model in first.methods:
        cells: list[Cell | str] = [model]
        for question, ranking in models.rankings.items():
            style = _QUESTIONS[question][1]
            value, letters = (ranking.values or {})[model], letters_of(ranking)[model]
            cells += [Cell(words.STYLES[style](value), value), f"{ranking.rank(model)} {letters}"]
        lines.append(tuple(cells))
    columns: list[Column | str] = ["Model"]
    for question in models.rankings:
        columns += [Column(_QUESTIONS[question][0]), Column("Rank", "and ties", number=False)]
    rows = "On the same rows" if first.posthoc == "mcnemar" else f"Over {words.count(first.n_blocks, 'seed')}"
    tests = words.listing(list(dict.fromkeys(ranking.test_name() for ranking in models.rankings.values())))
    score = f" The score is {models.method} for all but accuracy." if models.method else ""
    caption = (f"{rows}. Rank: 1 + the number of significantly better models. Models that share a letter cannot be "
               f"told apart ({tests}, at {words.level(first.alpha)} for each question).{score}")  # fmt: skip
    return make_table("model-ranks", "Which models differ", caption, columns, lines)


def reliability_table(view: View) -> Table | None:
    """The bins of the reliability diagram."""
    groups = []
    for model in view.models:
        curve = view.curve("reliability", model, "", "model")
        points = () if curve is None else zip(*(part.tolist() for part in curve), strict=True)
        lines = [(Cell(words.percent(x), x), number_cell(Estimate(y, low, high, 1 - view.delta, 0, ""), "percent"))
                 for x, y, low, high in points if np.isfinite(y)]  # fmt: skip
        groups.append(Group(view.named(model), lines, view.named(model)))
    columns = (Column("Mean confidence"), Column("Accuracy", "with its interval"))
    caption = "Bins of equal width that hold samples."
    return make_table("reliability-bins", "Reliability", caption, columns, groups=groups, name=-1)


def set_table(view: View) -> Table | None:
    """Prediction sets of inliers: coverage, size, adaptivity."""
    groups = []
    for model in view.models:
        lines = [
            (s.set_method, number_cell(s.promised, "percent"), number_cell(s.coverage, "percent"), s.verdict,
             number_cell(s.mean_size, "plain"), number_cell(s.empty, "percent"),
             *(number_cell(value, "plain") for value in (s.t_ss, s.t_cv, s.sscv)))
            for s in view.sets(model) if not s.block.outlier
        ]  # fmt: skip
        groups.append(Group(view.named(model), lines))
    numbers = map(Column, ("Mean size", "Empty", "T-SS", "T-CV", "SSCV"))
    columns = ("Sets", Column("Promised"), Column("Coverage", "measured"), "Verdict", *numbers)
    caption = (
        f"At alpha = {view.alpha:g}. T-SS: how far set size follows difficulty, from -1 to 1, larger is better. T-CV "
        "and SSCV: worst gap between coverage and promise over groups of equal difficulty and of equal size."
    )
    return make_table("sets", "Prediction sets", caption, columns, groups=groups)


def class_table(view: View) -> Table | None:
    """Accuracy and coverage of one model within each class; of many classes, those with the lowest accuracy."""
    facts = next(iter(view.findings.of(ClassFacts)), None)
    if facts is None or not view.single:
        return None
    shares: dict[str, dict[str, Estimate]] = {}
    for name, metric, share in facts.shares():
        shares.setdefault(name, {})[metric] = share
    worst = sorted(shares, key=lambda name: shares[name]["class_accuracy"].value)
    shown = list(shares) if len(shares) <= _CLASSES else worst[:_CLASSES]
    metrics = ["class_accuracy", *(["class_coverage"] if facts.covered is not None else [])]
    lines = [(name, count_cell(shares[name]["class_accuracy"].n),
              *(number_cell(shares[name][metric], "percent") for metric in metrics)) for name in shown]  # fmt: skip
    columns = ("Class", Column("Samples"), Column("Accuracy"), Column("Coverage", f"sets by {facts.set_method}"))
    caption = f"Of the inliers of each class, {words.level(1 - view.delta)} Clopper-Pearson."
    if facts.covered is not None:
        caption += " Coverage is promised over all classes together, not within each."
    if len(shares) > _CLASSES:
        caption += f" The {_CLASSES} of {len(shares)} classes with the lowest accuracy."
    return make_table("classes", "Class by class", caption, columns[: 2 + len(metrics)], lines)


def outlier_set_table(view: View) -> Table | None:
    """Mean size of the prediction sets of outliers."""
    lines = [(view.headed(model, s.block.outlier), s.set_method, number_cell(s.mean_size, "plain"),
              number_cell(s.empty, "percent"))
             for model in view.models for s in view.sets(model) if s.block.outlier]  # fmt: skip
    columns = ("Outlier set", "Sets", Column("Mean size"), Column("Empty"))
    caption = "Nothing is promised about outliers."
    return make_table("outlier-sets", "Prediction sets of outliers", caption, columns, lines)


def proximity_table(view: View) -> Table | None:
    """How far every outlier set lies from the training data."""
    names = {"frechet": "Fréchet", "mmd": "MMD", "centroid": "Centroid"}
    if any(not np.isnan(p.text) for p in view.findings.of(Proximity)):
        names["text"] = "Text"
    by_set: dict[tuple[str, str, str, str], list[Proximity]] = {}
    for p in view.findings.of(Proximity):
        by_set.setdefault((p.block.model, p.block.outlier, p.block.regime, p.space), []).append(p)
    lines = [(view.headed(model, outlier), regime or "not given", space,
              *(number_cell(mean_of([getattr(p, n) for p in rows]), "plain") for n in names))
             for (model, outlier, regime, space), rows in by_set.items()]  # fmt: skip
    columns = ("Outlier set", "Regime", "Space", *map(Column, names.values()))
    caption = "Distances of the outlier sets from the training data; smaller is closer."
    return make_table("proximity", "Distance of the outlier sets", caption, columns, lines)


def collapse_table(view: View) -> Table | None:
    """Neural-collapse metrics of every network."""
    by_network: dict[tuple[str, str], dict[str, list[float]]] = {}
    for c in view.findings.of(Collapse):
        by_network.setdefault((c.block.model, c.projection), {}).setdefault(c.quantity, []).append(c.value)
    names = list(dict.fromkeys(name for values in by_network.values() for name in values))
    lines = [(view.headed(model, projection), *(number_cell(mean_of(values.get(n, [])), "plain") for n in names))
             for (model, projection), values in by_network.items()]  # fmt: skip
    columns = ("Projection", *(Column(name[:1].upper() + name[1:].replace("_", " ")) for name in names))
    caption = "Of the training features. Every number is 0 at full collapse. Brackets: range over seeds."
    return make_table("collapse", "Neural collapse", caption, columns, lines)


def data_table(view: View) -> Table | None:
    """Which data played which role."""
    groups = []
    for unit in view.units:
        lines = [(d.block.outlier or ("test" if d.role == "inlier" else d.role), d.role, _USES[d.role],
                  count_cell(d.n), d.fields) for d in view.data(unit)]  # fmt: skip
        groups.append(Group(view.unit_name(unit), lines, "" if view.single else unit[0]))
    caption = "A random half of the inliers calibrated, the other half measured." if view.findings.split else ""
    columns = ("Data", "Role", "Used to", Column("Samples"), "Fields")
    return make_table("data", "Data and roles", caption, columns, groups=groups)


def tuning_table(view: View) -> Table | None:
    """Settings of the scores that were chosen before measuring."""
    groups = []
    for unit in view.units:
        mine = [t for t in view.findings.of(Tuning) if (t.block.model, t.block.seed) == unit and (t.chosen or t.caveat)]
        lines = [(str(t.method), t.text, "–" if np.isnan(t.augrc) else number_cell(t.augrc, "scaled"),
                  count_cell(t.tried), count_cell(t.n), t.caveat) for t in mine]  # fmt: skip
        groups.append(Group(view.unit_name(unit), lines))
    columns = ("Score", "Chosen", Column("AUGRC × 1000", "errors, tuning rows"), Column("Tried"), Column("Tuning rows"),
               "Note")  # fmt: skip
    caption = (
        "The temperature has the smallest negative log-likelihood, the other settings the smallest AUGRC of "
        "misclassification on the tuning rows, which set no threshold. That AUGRC flatters the score."
    )
    return make_table("tuning", "Settings that were chosen", caption, columns, groups=groups)


def left_out_table(view: View) -> Table | None:
    """Scores that were not computed, and why."""
    reasons: dict[str, set[str]] = {}
    for left in view.findings.of(Left):
        reasons.setdefault(left.reason, set()).add(str(left.method))
    lines = [(", ".join(sorted(names)), reason) for reason, names in sorted(reasons.items())]
    return make_table("left-out", "Scores and metrics that were left out", "", ("Names", "Reason"), lines)


def failure_table(view: View) -> Table | None:
    """Cells that ended with an error."""
    lines = [(f.label, f.error, f.key[:12]) for f in view.findings.failures]
    return make_table("failures", "Failures", "Run the study again to retry these cells.", ("Cell", "Error", "Key"),
                      lines)  # fmt: skip


def fingerprint_table(view: View) -> Table | None:
    """Data files and their fingerprints."""
    lines = sorted({pair for cell in view.findings.cells for pair in cell.fingerprints.items()})
    return make_table("fingerprints", "Fingerprints of the files", "", ("File", "SHA-256"), lines)
