"""One page for evaluation, study and certificates: first screen, curves, sets, all numbers, roles, notes, repeat."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from caveat.evaluation.findings import Findings
from caveat.evaluation.records import Certificate, Left, Run
from caveat.report import certificates, curves, method_tables, model_tables
from caveat.report.chart import SLOTS, Panel
from caveat.report.first_screen import Verdicts, cards, subtitle
from caveat.report.groups import GROUP_LEAD, backbones, group_panels, group_table
from caveat.report.histograms import ridge_panel
from caveat.report.notes import notes_of
from caveat.report.ranks import clique_panel, critical_difference_panel
from caveat.report.skeleton import Section, fill_page
from caveat.report.tables import Table, latex_page, markdown_page
from caveat.report.verdicts import ERRORS, METRICS, judge_all
from caveat.report.view import View

if TYPE_CHECKING:
    from caveat.guard.replay import Replay

__all__ = ["render_report"]

CURVE_BYTES = 2_400_000  # that the curves of all offered methods may take
HISTOGRAM_BYTES = 1_200_000
_OF_GROUPS = ("ranking", "regimes", "errors", "models", "proximity", "collapse", "left_out", "scores")  # of a matrix
_ONE_CURVE, _ONE_HISTOGRAM = 2200, 6000  # bytes, about


def render_report(findings: Findings | Replay) -> tuple[str, str, str]:
    """The page, and its tables in Markdown and LaTeX. The same findings give the same bytes.

    Parameters
    ----------
    findings
        ``Evaluation.findings()``, ``StudyResults.findings()``, or the check of a guard.

    Returns
    -------
    tuple of three str
        The page in HTML, and the tables in Markdown and LaTeX.

    Examples
    --------
    >>> import numpy as np
    >>> from caveat import Outputs
    >>> from caveat.evaluation import evaluate
    >>> rng = np.random.default_rng(0)
    >>> sure = Outputs(logits=rng.normal(size=(200, 3)) + 5 * np.eye(3)[rng.integers(3, size=200)])
    >>> noise = Outputs(logits=rng.normal(size=(50, 3)))
    >>> result = evaluate(inlier=sure, outliers={"noise": noise}, scores=["msp", "energy"], title="Three classes")
    >>> page, markdown, latex = render_report(result.findings())
    >>> "<h1>Three classes</h1>" in page, markdown.splitlines()[0]
    (True, '# Three classes')
    """
    if not isinstance(findings, Findings):
        from caveat.report.guard_check import render_check  # loads the guard, which other reports do not need

        return render_check(findings)
    view = View(findings)
    verdicts = judge_all(view)
    order = _order(view, verdicts)
    tables = _tables(view, verdicts, order)
    chosen = view.decision(view.units[0]) if view.single and view.units else None
    n_sets = len(set(view.regimes))
    offered = order[: max(SLOTS, CURVE_BYTES // (_ONE_CURVE * max(1, 2 * n_sets)))]
    if chosen is not None:  # the scores of both rules are always drawn
        used = [str(method) for method in (chosen.method, chosen.confidence) if method is not None]
        offered = list(curves.drawn_first(order, used))[: max(len(offered), SLOTS)]
    page = fill_page(
        title=findings.title,
        about=findings.about,
        subtitle=subtitle(view),
        cards=cards(view, verdicts),
        study=not view.single,
        sections=_sections(view, verdicts, offered, tables),
        offered=offered,
        set_names=curves.set_names(view),
        models=view.models if len(view.models) > 1 and not view.groups else (),  # its columns are groups
        regimes=view.regime_names if len(view.models) > 1 and len(view.regime_names) > 1 else (),
        notes=notes_of(view, verdicts),
        repeat=_repeat(view),
        provenance=[t for t in (model_tables.failure_table(view), model_tables.fingerprint_table(view)) if t],
        plan=findings.plan,
    )
    written = [*tables.values(), *([t] if (t := model_tables.failure_table(view)) else [])]
    return page, markdown_page(findings.title, written), latex_page(findings.title, written)


def _order(view: View, verdicts: Verdicts) -> list[str]:
    """Methods from the best; those without a rank keep their numbers and come last."""
    ranked = verdicts.get(("auroc", "", "all")) or verdicts.get(("augrc", "", ERRORS))
    order = () if ranked is None else ranked.order
    return [*order, *(name for name in view.methods if name not in set(order))]


def _tables(view: View, verdicts: Verdicts, order: Sequence[str]) -> dict[str, Table]:
    """Every table of a page, in order; the same are written in Markdown and LaTeX."""
    overall, errors = verdicts.get(("auroc", "", "all")), verdicts.get(("augrc", "", ERRORS))
    decision = view.decision(view.units[0]) if view.single and view.units else None
    chosen = str(decision.method) if decision else ""
    tables = {
        "decisions": model_tables.decision_table(view),
        "notes": model_tables.note_table(view),
        "model_ranks": model_tables.model_rank_table(view),
        "caught": model_tables.caught_table(view),
        "ranking": method_tables.ranking_table(view, overall, chosen=chosen),
        "regimes": method_tables.regime_table(view, order),
        "numbers": method_tables.numbers_table(view, order),
        "errors": method_tables.errors_table(view, errors),
        "roc": method_tables.curve_table(view, order[:SLOTS], "roc"),
        "risk": method_tables.curve_table(view, order[:SLOTS], "risk"),
        # A page about certificates alone has the accuracy in its first line.
        "models": model_tables.model_table(view) if view.methods or not view.findings.of(Certificate) else None,
        "reliability": model_tables.reliability_table(view),
        "sets": model_tables.set_table(view),
        "classes": model_tables.class_table(view),
        "outlier_sets": model_tables.outlier_set_table(view),
        "certificates": certificates.certificate_table(view),
        "proximity": model_tables.proximity_table(view),
        "collapse": model_tables.collapse_table(view),
        "data": model_tables.data_table(view),
        "files": model_tables.file_table(view),
        "tuning": model_tables.tuning_table(view),
        "left_out": model_tables.left_out_table(view),
        "scores": method_tables.score_table(view),
    }
    if view.groups:  # one row per network and set would be a file, not a page: results.csv has it
        tables = {"groups": group_table(view, verdicts)} | {name: tables[name] for name in _OF_GROUPS}
    return {name: table for name, table in tables.items() if table is not None}


def _sections(view: View, verdicts: Verdicts, offered: Sequence[str], tables: dict[str, Table]) -> list[Section]:
    def of(*names: str) -> tuple[Table, ...]:
        return tuple(tables[name] for name in names if name in tables)

    sections = [*_tie_sections(view, verdicts, offered, of("groups"))]
    sections.append(Section("model-ranks", "Models", tables=of("model_ranks"), open=True))
    sections.append(Section("roc", "ROC curves", "The band holds at all thresholds at once, for these outliers.",
                         tuple(curves.roc_panels(view, offered)), tables=of("roc"), legend="methods"))  # fmt: skip
    sections.append(Section(
        "risk", "Errors and abstaining",
        "Risk: errors among the answers, from the lowest score up. Reliability: accuracy should equal confidence.",
        (*curves.risk_panels(view, offered, errors=True), *curves.reliability_panels(view)),
        tuple(curves.risk_panels(view, offered, errors=False, key="risk-out")), "With outliers counted as errors",
        of("risk", "models", "classes", "reliability"), "methods",
    ))  # fmt: skip
    sections.append(_histogram_section(view, offered))
    sections.append(Section(
        "sets", "Prediction sets", "The line is the promise. Difficulty: how easily noise changes the answer.",
        (*curves.size_panels(view), *curves.difficulty_panels(view)), tables=of("sets", "outlier_sets"), legend="sets",
    ))  # fmt: skip
    if "certificates" in tables:
        sections.append(Section(
            "certificates", "Certificates",
            "Upper bounds of the confidence on outliers, and confidence on inliers (grey). The line is the mean bound.",
            (*(certificates.certificate_panels(view) if view.methods else ()), *certificates.bound_panels(view)),
            tuple(certificates.class_panels(view)), "Confidence by class of the outliers",
            of("certificates") if view.methods else (),
        ))  # fmt: skip
    sections.append(Section("numbers", "All numbers", tables=of(
        "" if view.single else "decisions", "caught", "ranking", "regimes", "numbers", "errors", "tuning",
        "left_out", "scores",
    )))  # fmt: skip
    sections.append(Section("data", "Data and roles", tables=of("files", "data"), open=view.single))
    sections.append(Section("geometry", "Features and distances", tables=of("proximity", "collapse")))
    return [s for s in sections if s.panels or s.folded or s.tables]


def _tie_sections(view: View, verdicts: Verdicts, order: Sequence[str], of_groups: tuple[Table, ...]) -> list[Section]:
    if view.single:
        return []
    if view.groups:
        panels = group_panels(view, verdicts, order)
        return [Section("cliques", "Best groups by in-distribution set, backbone and regime", GROUP_LEAD,
                        tuple(panels[: len(backbones(view))]), tuple(panels[len(backbones(view)) :]),
                        "By other metrics", of_groups, natural=True)]  # fmt: skip
    differences = [critical_difference_panel(v, key=f"cd-{regime}") for regime in ("all", *view.regime_names)
                   if (v := verdicts.get(("auroc", "", regime))) is not None and not v.paired]  # fmt: skip
    maps = []
    for i, metric in enumerate(METRICS):
        columns = [v for (name, _, _), v in verdicts.items() if name == metric and len(v.order) > 1]
        if any(v.tells for v in columns):
            maps.append(clique_panel(columns, key=f"cliques-{i}", order=order))
    return [
        Section("differences", "Critical differences", "Average ranks, best on the left. A bar joins tied methods.",
                tuple(differences[:1]), tuple(differences[1:]), "By regime", natural=True),
        Section("cliques", "Best groups by regime",
                "Connected dots: the best method and those tied with it. Hollow dots: a paired test within one model.",
                tuple(maps[:1]), tuple(maps[1:]), "By other metrics", natural=True),
    ]  # fmt: skip


def _histogram_section(view: View, order: Sequence[str]) -> Section:
    """The chosen score of every model with its threshold; the others one at a time."""
    shown: list[Panel | None] = []
    others: list[Panel | None] = []
    units = [next(unit for unit in view.units if unit[0] == model) for model in view.models]
    most = max(SLOTS, HISTOGRAM_BYTES // (_ONE_HISTOGRAM * max(1, len(units))))
    for i, unit in enumerate(units):
        decision = view.decision(unit)
        chosen = "" if decision is None else str(decision.method)
        threshold = float("nan") if decision is None else decision.threshold
        if view.places:  # otherwise the first screen shows it already
            shown.append(ridge_panel(view, unit, chosen, key=f"chosen-{i}", threshold=threshold))
        panels = [ridge_panel(view, unit, name, key=f"hist-{i}-{j}") for j, name in enumerate(order[:most])
                 if name != chosen]  # fmt: skip
        open_panels = 2 if view.single and view.places else 0
        shown, others = [*shown, *panels[:open_panels]], [*others, *panels[open_panels:]]
    lead = (
        "Inliers are filled, each outlier set is a line. Dashed: the threshold of the chosen score, which comes first."
    )
    return Section("histograms", "Score histograms", lead, tuple(p for p in shown if p is not None),
                   tuple(p for p in others if p is not None), "Another score", pick=True)  # fmt: skip


def _repeat(view: View) -> list[str]:
    """How to repeat the measurement: settings, software, files."""
    f = view.findings
    versions: dict[str, set[str]] = {}
    for cell in f.cells:
        for name, version in cell.versions.items():
            versions.setdefault(name, set()).add(version)
    made = ", ".join(
        f"{name} {' and '.join(sorted(numbers))}" for name, numbers in sorted(versions.items()) if numbers != {""}
    )
    seeds = ", ".join(str(seed) for seed in sorted({seed for _, seed in view.units}))
    settings = {"false_alarm": f.false_alarm, "risk": f.risk, "alpha": f.alpha, "delta": f.delta}
    chosen = [f"{name} = {value:g}" for name, value in settings.items() if math.isfinite(value)]
    lines = [f"Settings: {', '.join(chosen)}, seed = {seeds}."]
    lines += [f"Software: {made}."] if made else []
    if f.plan:
        key = hashlib.sha256("".join(sorted(cell.key for cell in f.cells)).encode()).hexdigest()[:16]
        lines += [f"Study key {key}. Run: caveat study plan.toml, then caveat report on its folder."]
    elif runs := f.of(Run):
        lines += [f"Measured on {run.date} by: {run.command}" for run in runs]
    elif view.methods:
        lines += ["Run: caveat evaluate on the same files, or caveat.evaluate on the same outputs."]
    reasons = {f"left out ({left.reason})." for left in f.of(Left)}
    return lines + [note for note in f.notes if not any(note.endswith(reason) for reason in reasons)]
