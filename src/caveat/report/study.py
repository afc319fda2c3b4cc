"""A study as a report: one page that stands alone, and its tables in Markdown and LaTeX."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from caveat import __version__, _files
from caveat.errors import InputError
from caveat.report import study_figures as figures
from caveat.report import study_model_figures as model_figures
from caveat.report import study_model_tables as model_tables
from caveat.report import study_rank_figures as rank_figures
from caveat.report import study_tables as tables
from caveat.report import study_words
from caveat.report.page import render_page
from caveat.report.study_facts import Block, CellFacts, FailureFacts, StudyFacts, gather
from caveat.report.study_figures import Placed
from caveat.report.study_verdicts import ERRORS, Verdict, compared_metrics, judge
from caveat.report.svg import LINES, Panel
from caveat.report.tables import Table, latex_page, markdown_page
from caveat.study import Store, StudyResults
from caveat.study.measuring import Progress

__all__ = ["StudyFiles", "read_study", "render_study", "write_study"]

CURVE_BYTES = 2_400_000  # that the curves of all offered methods may take
HISTOGRAM_BYTES = 1_200_000
_ONE_CURVE, _ONE_HISTOGRAM = 2200, 6000  # bytes, about


@final
@dataclass(frozen=True)
class StudyFiles:
    """Where a report was written."""

    html: Path
    markdown: Path
    latex: Path


def write_study(
    study: str | os.PathLike[str] | Store | StudyResults,
    out: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    progress: Progress | None = None,
) -> StudyFiles:
    """Write ``report.html``, ``tables.md`` and ``tables.tex`` of a study, each whole or not at all.

    Parameters
    ----------
    study
        The folder of a store, the store, or what :func:`caveat.study.run` returned.
    out
        Folder for the files; default the folder of the store.
    title
        Default the title of the plan.
    progress
        Told what is being done.
    """
    tell = progress or (lambda what, done, steps: None)
    tell("reading the store", 0, 3)
    if isinstance(study, Store):
        study = StudyResults(study)
    results = study if isinstance(study, StudyResults) else StudyResults.read(study)
    facts = read_study(results)
    if title is not None:
        facts = replace(facts, title=title)
    folder = results.store.folder if out is None else Path(out)
    found = StudyFiles(folder / "report.html", folder / "tables.md", folder / "tables.tex")
    tell("comparing and drawing", 1, 3)
    page, marked, typeset = render_study(facts)
    tell("writing", 2, 3)
    for path, text in ((found.html, page), (found.markdown, marked), (found.latex, typeset)):
        with _files.replacing_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return found


def read_study(results: StudyResults) -> StudyFacts:
    """Everything that a report prints, from the cells of a store in the order of the plan."""
    plan = results.plan
    if plan.task is not None and "kind" not in next(iter(results.rows()), {"kind": ""}):
        folder = results.store.folder
        raise InputError(
            f"{folder} holds rows of a task in columns of its own, which have no report. Write them with "
            f"StudyResults.read('{folder}').to_csv('rows.csv') and rank them with caveat compare."
        )
    columns = results.columns()
    if not columns:
        raise InputError(f"{results.store.folder} has nothing to report: none of its cells has a result. "
                         "Run caveat study on it first.")  # fmt: skip
    said = list(results.facts())
    failures = results.failures
    return gather(
        columns,
        title=results.title,
        alpha=plan.alpha,
        delta=plan.delta,
        cells=[
            CellFacts(
                str(cell["key"]), str(cell.get("label") or cell["key"]),
                str((cell.get("params") or {}).get("source", "")), float(cell.get("seconds") or 0.0),
                {name: str(version) for name, version in (cell.get("versions") or {}).items()},
                {name: str(print_) for name, print_ in (cell.get("fingerprints") or {}).items()},
                int(cell.get("seed") or 0),
            )
            for cell in said
        ],
        failures=[FailureFacts(f.key, f.label or f.key, f"{f.error}: {f.message}") for f in failures],
        missing=len(results.missing) - len(failures),
        notes=[*results.notes, *(f"{cell.get('label')}: {cell['skipped']}." for cell in said if cell.get("skipped"))],
        about=plan.about,
        plan=plan.text,
    )  # fmt: skip


def render_study(facts: StudyFacts) -> tuple[str, str, str]:
    """The page, and the same tables in Markdown and LaTeX; the same store gives the same bytes."""
    verdicts = all_verdicts(facts)
    metrics = [name for name in compared_metrics(facts) if (name, "", "all") in verdicts]
    leading = metrics[0] if metrics else ""
    overall = verdicts.get((leading, "", "all"))
    errors = next((v for m in ("augrc", "aurc") if (v := verdicts.get((m, "", ERRORS))) is not None), None)
    ranked = overall or errors  # a study without outlier sets still says who warns of errors
    order = ranked.order if ranked is not None else tuple(method.label for method in facts.methods)
    # What is left out of the comparison for want of a number still has the numbers it has.
    listed = (*order, *(method.label for method in facts.methods if method.label not in set(order)))
    offered = listed[: max(len(LINES), CURVE_BYTES // (_ONE_CURVE * max(1, 2 * len(facts.sets))))]
    found: dict[str, Table | None] = {
        "ranking": None if overall is None else tables.ranking_table(facts, overall),
        "regimes": tables.by_regime_table(facts, verdicts, leading) if leading else None,
        "metrics": tables.by_metric_table(facts, verdicts, order),
        "numbers": tables.sets_of_numbers(facts, listed),
        "models": model_tables.model_table(facts),
        "sets": model_tables.set_table(facts),
        "outlier_sets": model_tables.outlier_set_table(facts),
        "certificates": model_tables.certificate_table(facts),
        "collapse": model_tables.collapse_table(facts),
        "proximity": model_tables.proximity_table(facts),
        "data": model_tables.data_table(facts),
        "failures": model_tables.failure_table(facts),
    }
    written = [table for table in found.values() if table is not None]
    key = hashlib.sha256("".join(sorted(cell.key for cell in facts.cells)).encode()).hexdigest()[:16]
    page = render_page(
        "study.html.j2",
        styles=("report.css", "study.css"),
        scripts=("tables.js", "study.js"),
        title=facts.title,
        facts=facts,
        tables=found,
        say=study_words,
        overall=overall,
        regimes=[v for name in facts.regime_names if (v := verdicts.get((leading, "", name))) is not None],
        errors=errors,
        cannot=study_words.cannot_be_said(facts, verdicts, leading),
        families=list(dict.fromkeys(method.family for method in facts.methods)),
        cliques=_cliques(verdicts, metrics, order),
        differences=_differences(facts, verdicts, leading),
        legend=list(enumerate(offered[: len(LINES)])),
        offered=list(enumerate(offered)),
        rocs=figures.roc_panels(facts, offered),
        risks=figures.risk_panels(facts, offered),
        histograms=_histograms(facts, listed),
        set_panels=[*model_figures.difficulty_panels(facts), *model_figures.size_panels(facts)],
        set_names=list(dict.fromkeys(row.name for row in facts.of_kind("sets", "adaptivity"))),
        certificate_panels=model_figures.certificate_panels(facts),
        bound_panels=model_figures.upper_bound_panels(facts),
        collapse_panels=model_figures.collapse_panels(facts),
        fingerprints=model_tables.hash_table(facts),
        papers=_papers(facts),
        versions=_versions(facts),
        version=__version__,
        key=key,
    )
    return page, markdown_page(facts.title, written), latex_page(facts.title, written)


def all_verdicts(facts: StudyFacts) -> dict[tuple[str, str, str], Verdict]:
    """Every comparison of a report: each metric over each regime, and the leading metric on each source."""
    found = {}
    metrics = compared_metrics(facts)
    for metric in metrics:
        for regime in (*facts.regime_names, "all", ERRORS):
            if regime == ERRORS and metric not in ("aurc", "augrc"):
                continue  # the model's errors are judged by risk
            found[metric, "", regime] = judge(facts, metric, regime=regime)
    if metrics and len(facts.sources) > 1:
        for source in facts.sources:
            for regime in (*facts.regime_names, "all"):
                found[metrics[0], source, regime] = judge(facts, metrics[0], regime=regime, source=source)
    return {key: verdict for key, verdict in found.items() if verdict is not None}


def _cliques(
    verdicts: dict[tuple[str, str, str], Verdict], metrics: Sequence[str], order: Sequence[str]
) -> list[Panel]:
    panels = []
    for i, metric in enumerate(metrics):
        columns = [v for (name, _, _), v in verdicts.items() if name == metric and len(v.order) > 1]
        if any(v.tells for v in columns):
            panels.append(rank_figures.clique_panel(columns, key=f"cliques-{i}", order=order))
    return panels


def _differences(facts: StudyFacts, verdicts: dict[tuple[str, str, str], Verdict], metric: str) -> list[Placed]:
    found = []
    for regime in ("all", *facts.regime_names):
        verdict = verdicts.get((metric, "", regime))
        panel = None if verdict is None else rank_figures.critical_difference_panel(verdict, key=f"cd-{regime}")
        if panel is not None:
            found.append(Placed(panel, "", "" if regime == "all" else regime))
    return found


def _histograms(facts: StudyFacts, order: Sequence[str]) -> list[Placed]:
    """Histograms of the leading methods, as many as there is room for, in the order of the ranking."""
    most = max(6, HISTOGRAM_BYTES // (_ONE_HISTOGRAM * max(1, len(facts.sources))))
    found: list[Placed] = []
    for source in facts.sources:
        regimes = {outlier: facts.regime(source, outlier) for name, outlier in facts.sets if name == source}
        for label in order[:most] if regimes else ():
            histogram = facts.histograms.get((source, label))
            if histogram is not None:
                blocks = {outlier: Block(source, histogram.seed, outlier) for outlier in regimes}
                areas = {outlier: figures.area_of_seed(facts, block, label) for outlier, block in blocks.items()}
                title = f"{source}: {label}" if len(facts.sources) > 1 else label
                panel = figures.histogram_panel(histogram, areas, regimes, key=f"hist-{len(found)}", title=title)
                found.append(Placed(panel, source))
    return found


def _papers(facts: StudyFacts) -> list[tuple[str, str]]:
    """Score -> where it comes from, for those of the study that the catalogue has."""
    from caveat.scores import catalogue

    present = {method.score for method in facts.methods}
    return [(entry.name, entry.paper) for entry in catalogue() if entry.name in present]


def _versions(facts: StudyFacts) -> list[tuple[str, str]]:
    found: dict[str, set[str]] = {}
    for cell in facts.cells:
        for name, version in cell.versions.items():
            found.setdefault(name, set()).add(version)
    return [(name, ", ".join(sorted(versions))) for name, versions in sorted(found.items()) if versions != {""}]
