"""A study as a report: one page that stands alone, and its tables in Markdown and LaTeX."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from caveat import __version__, _files
from caveat.errors import InputError
from caveat.report import study_figures as figures
from caveat.report import study_rank_figures as rank_figures
from caveat.report import study_tables as tables
from caveat.report import study_words
from caveat.report.page import render_page
from caveat.report.study_facts import CellFacts, FailureFacts, StudyFacts, gather
from caveat.report.study_figures import Placed
from caveat.report.study_verdicts import ERRORS, Verdict, compared_metrics, judge
from caveat.report.svg import LINES, Panel
from caveat.report.tables import Table, latex_page, markdown_page
from caveat.study.schema import COLUMNS
from caveat.study.store import Store

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


def write_study(study: Any, out: str | os.PathLike[str] | None = None, *, title: str | None = None) -> StudyFiles:
    """Write ``report.html``, ``tables.md`` and ``tables.tex`` of a study, each whole or not at all.

    Parameters
    ----------
    study
        The folder of a store, a :class:`caveat.study.Store`, or the results of a run.
    out
        Folder for the files; default the store itself.
    title
        Default the title of the plan.
    """
    store = study if isinstance(study, Store) else Store(getattr(study, "store", study))
    facts = read_study(store)
    if title is not None:
        facts = replace(facts, title=title)
    folder = store.folder if out is None else Path(out)
    found = StudyFiles(folder / "report.html", folder / "tables.md", folder / "tables.tex")
    page, marked, typeset = render_study(facts)
    for path, text in ((found.html, page), (found.markdown, marked), (found.latex, typeset)):
        with _files.replacing_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return found


def read_study(store: Store) -> StudyFacts:
    """Everything that a report prints, from the cells of a store in the order of the plan."""
    import pyarrow as pa

    plan = store.plan()
    parts, cells, failures, missing = [], [], [], 0
    for given in plan["cells"]:
        key = given["key"]
        if (failed := store.failure(key)) is not None:
            failures.append(FailureFacts(key, failed.label or key, f"{failed.error}: {failed.message}"))
        if not store.has(key):
            missing += failed is None
            continue
        cell = store.read(key)
        if all(name in cell.table.column_names for name in COLUMNS):
            parts.append(cell.table.select(list(COLUMNS)))
        said = cell.facts
        cells.append(
            CellFacts(
                key, said.get("label") or key, float(said.get("seconds") or 0.0),
                {"caveat": str(said.get("version", "")), **{k: str(v) for k, v in (said.get("versions") or {}).items()}},
                {k: str(v) for k, v in (said.get("fingerprints") or {}).items()},
            )
        )  # fmt: skip
    if not parts:
        why = "none of its cells is finished" if not cells else "its cells are those of a task with columns of its own"
        raise InputError(f"{store.folder} has nothing to report: {why}. "
                         + ("Run caveat study first." if not cells else "Compare them with caveat compare."))  # fmt: skip
    table = pa.concat_tables(parts)
    text = store.folder / "plan.toml"
    content = plan.get("plan") or {}
    return gather(
        {name: table[name].to_numpy(zero_copy_only=False) for name in COLUMNS},
        title=str(plan.get("title") or "Study"),
        alpha=float(content.get("alpha", 0.1)),
        delta=float(content.get("delta", 0.05)),
        cells=cells,
        failures=failures,
        missing=missing,
        notes=[str(note) for note in plan.get("notes") or ()],
        plan=text.read_text(encoding="utf-8") if text.exists() else "",
    )


def render_study(facts: StudyFacts) -> tuple[str, str, str]:
    """The page, and the same tables in Markdown and LaTeX; the same store gives the same bytes."""
    verdicts = all_verdicts(facts)
    metrics = [name for name in compared_metrics(facts) if (name, "", "all") in verdicts]
    leading = metrics[0] if metrics else ""
    overall = verdicts.get((leading, "", "all"))
    order = overall.order if overall is not None else tuple(method.label for method in facts.methods)
    offered = order[: max(len(LINES), CURVE_BYTES // (_ONE_CURVE * max(1, 2 * len(facts.sets))))]
    found: dict[str, Table | None] = {
        "ranking": None if overall is None else tables.ranking_table(facts, overall),
        "regimes": tables.by_regime_table(facts, verdicts, leading) if leading else None,
        "metrics": tables.by_metric_table(facts, verdicts, order) if leading else None,
        "numbers": tables.sets_of_numbers(facts, order),
        "sets": tables.set_table(facts),
        "certificates": tables.certificate_table(facts),
        "collapse": tables.collapse_table(facts),
        "proximity": tables.proximity_table(facts),
        "failures": tables.failure_table(facts),
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
        errors=next((v for m in ("augrc", "aurc") if (v := verdicts.get((m, "", ERRORS))) is not None), None),
        cannot=study_words.cannot_be_said(facts, verdicts, leading),
        families=list(dict.fromkeys(method.family for method in facts.methods)),
        cliques=_cliques(facts, verdicts, metrics, order),
        differences=_differences(facts, verdicts, leading),
        legend=[(i, line, name) for i, (line, name) in enumerate(zip(LINES, order, strict=False))],
        offered=list(enumerate(offered)),
        rocs=figures.roc_panels(facts, offered),
        risks=figures.risk_panels(facts, offered),
        histograms=_histograms(facts, order),
        set_panels=[*figures.difficulty_panels(facts), *figures.size_panels(facts)],
        set_names=list(dict.fromkeys(row.name for row in facts.of_kind("sets", "adaptivity"))),
        lines=LINES,
        certificate_panels=figures.certificate_panels(facts),
        bound_panels=figures.upper_bound_panels(facts),
        collapse_panels=figures.collapse_panels(facts),
        fingerprints=tables.hash_table(facts),
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
    if len(facts.sources) > 1:
        for source in facts.sources:
            for regime in (*facts.regime_names, "all"):
                found[metrics[0], source, regime] = judge(facts, metrics[0], regime=regime, source=source)
    return {key: verdict for key, verdict in found.items() if verdict is not None}


def _cliques(
    facts: StudyFacts, verdicts: dict[tuple[str, str, str], Verdict], metrics: Sequence[str], order: Sequence[str]
) -> list[Panel]:
    panels = []
    for i, metric in enumerate(metrics):
        columns = [v for (name, _, _), v in verdicts.items() if name == metric and len(v.order) > 1]
        if any(v.by != "nothing" for v in columns):
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
    found = []
    for source in facts.sources:
        regimes = {outlier: regime for (name, outlier), regime in facts.regimes.items() if name == source}
        for label in order[:most]:
            histogram = facts.histograms.get((source, label))
            if histogram is not None:
                areas = {outlier: figures._area(facts, source, outlier, label) for outlier in regimes}
                title = f"{source}: {label}" if len(facts.sources) > 1 else label
                panel = figures.histogram_panel(histogram, areas, regimes, key=f"hist-{len(found)}", title=title)
                found.append(Placed(panel, source))
    return found


def _versions(facts: StudyFacts) -> list[tuple[str, str]]:
    found: dict[str, set[str]] = {}
    for cell in facts.cells:
        for name, version in cell.versions.items():
            found.setdefault(name, set()).add(version)
    return [(name, ", ".join(sorted(versions))) for name, versions in sorted(found.items()) if versions != {""}]
