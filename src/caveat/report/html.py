"""One evaluation as one HTML file: no network, no scripts needed, the same bytes for the same evaluation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final

from caveat import _files
from caveat.report import figures, words
from caveat.report.page import render_page
from caveat.report.svg import LINES, Line, Panel
from caveat.study import Evaluation, Ranked

__all__ = ["render_html", "write_html"]


def write_html(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write the report of an evaluation to ``path``, whole or not at all.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from caveat import Outputs, study
    >>> rng = np.random.default_rng(0)
    >>> sure = Outputs(logits=rng.normal(size=(50, 3)) + 5 * np.eye(3)[rng.integers(3, size=50)])
    >>> unsure = Outputs(logits=rng.normal(size=(50, 3)))
    >>> result = study.evaluate(train=None, inlier=sure, outliers={"noise": unsure}, title="Three classes")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "report.html"
    ...     write_html(result, path)
    ...     "<h1>Three classes</h1>" in path.read_text(encoding="utf-8")
    True
    """
    page = render_html(evaluation)
    with _files.replacing_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


def render_html(evaluation: Evaluation) -> str:
    """The report of an evaluation as one self-contained HTML page."""
    leaders = [line.score for line in evaluation.ranking[: figures.MOST_LINES]]
    return render_page(
        "report.html.j2",
        styles=("report.css",),
        scripts=("tables.js", "report.js"),
        title=evaluation.title,
        e=evaluation,
        rows=_rows(evaluation),
        sole_best=len(evaluation.ranking) > 1 and not evaluation.tied,
        legend=[LegendEntry(line, name) for line, name in zip(LINES, leaders, strict=False)],
        drawn=words.drawn(len(leaders), len(evaluation.ranking)),
        rocs=_rocs(evaluation, leaders),
        histograms=_histograms(evaluation),
        risks=_risks(evaluation, leaders),
        coverage=None if evaluation.sets is None else figures.coverage_panel(evaluation.sets, key="coverage"),
        set_panels=_set_panels(evaluation),
    )


@final
@dataclass(frozen=True)
class LegendEntry:
    """A score and how its curves are drawn."""

    line: Line
    name: str


@final
@dataclass(frozen=True)
class Row:
    """One line of the ranking with what the table says about it."""

    ranked: Ranked
    tied: bool  # with the best; of the best, whether any other is


def _rows(evaluation: Evaluation) -> list[Row]:
    first, *rest = evaluation.ranking
    return [Row(first, bool(evaluation.tied)), *(Row(line, line.tied_with_best) for line in rest)]


def _rocs(evaluation: Evaluation, leaders: list[str]) -> list[Panel]:
    return [
        figures.roc_panel(
            {name: (evaluation.strangeness[name]["inlier"], evaluation.strangeness[name][outlier]) for name in leaders},
            {name: evaluation.detection(name, outlier).auroc for name in leaders},
            key=f"roc-{i}",
            outlier=outlier,
            tpr=evaluation.tpr,
        )
        for i, outlier in enumerate(evaluation.outliers)
    ]


def _histograms(evaluation: Evaluation) -> list[Panel]:
    found = []
    for i, line in enumerate(evaluation.ranking):
        values = evaluation.strangeness[line.score]
        outliers = {name: values[name] for name in evaluation.outliers}
        areas = {name: evaluation.detection(line.score, name).auroc for name in outliers}
        found.append(figures.histogram_panel(values["inlier"], outliers, areas, key=f"hist-{i}", score=line.score))
    return found


def _risks(evaluation: Evaluation, leaders: list[str]) -> list[Panel]:
    failures = {failure.score: failure for failure in evaluation.misclassifications if failure.score in leaders}
    if not failures:
        return []
    curves = {name: failures[name].curve for name in leaders}
    areas = {name: failures[name].augrc for name in leaders}
    return [
        figures.risk_panel(curves, areas, key=f"risk-{kind}", selective=kind == "selective")
        for kind in ("generalised", "selective")
    ]


def _set_panels(evaluation: Evaluation) -> list[Panel]:
    if evaluation.sets is None:
        return []
    groups = {"Inliers": evaluation.sets.sizes} | dict(evaluation.sets.outlier_sizes)
    return [
        figures.set_size_panel(sizes, key=f"sizes-{i}", name=name) for i, (name, sizes) in enumerate(groups.items())
    ]
