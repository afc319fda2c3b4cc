"""``write_report``: an evaluation, a study, certificates or the check of a guard as files."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final

from caveat._internal.checks import as_kind
from caveat._internal.files import replacing_file
from caveat.errors import InputError
from caveat.evaluation import Evaluation
from caveat.evaluation.evaluation import Progress
from caveat.evaluation.findings import Findings
from caveat.report.page import render_report

if TYPE_CHECKING:
    from caveat.guard.replay import Replay

__all__ = ["ReportFiles", "write_report"]

_SOURCES = "Findings, an Evaluation, a Replay, or the results of a study"


class Results(Protocol):
    """What has findings and lies in a folder, such as the results of a study."""

    @property
    def folder(self) -> Path: ...

    def findings(self) -> Findings: ...


@final
@dataclass(frozen=True)
class ReportFiles:
    """Where a report was written.

    Parameters
    ----------
    html
        The page.
    markdown, latex
        Its tables.

    Examples
    --------
    >>> files = ReportFiles(Path("out/report.html"), Path("out/tables.md"), Path("out/tables.tex"))
    >>> files.html.name
    'report.html'
    """

    html: Path
    markdown: Path
    latex: Path


def write_report(
    source: Findings | Replay | Evaluation | Results,
    folder: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    name: str = "report",
    progress: Progress | None = None,
) -> ReportFiles:
    """Write the page, and its tables in Markdown and LaTeX, each completely or not at all.

    Parameters
    ----------
    source
        Findings, an evaluation, the check of a guard, or the results of a study (``experiments.StudyResults`` of the
        laboratory).
    folder
        Where to write; default the folder of the results.
    title
        Heading; default that of the evaluation or plan.
    name
        Name of the page without ``.html``. The tables are ``tables.md`` and ``tables.tex``, after another name
        ``name.md`` and ``name.tex``.
    progress
        Called with each step.

    Returns
    -------
    ReportFiles
        Paths of the page and of its tables.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from caveat import Outputs, evaluate
    >>> result = evaluate(inlier=Outputs(logits=np.random.default_rng(0).normal(size=(600, 3))), scores=["msp"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(result, folder).html.name
    'report.html'
    """
    tell = progress or (lambda what, done, steps: None)
    tell("reading", 0, 3)
    findings, default = _findings(source)
    if folder is None and default is None:
        raise InputError("folder must be given: only the results of a study have a folder of their own.")
    target = Path(folder) if folder is not None else default
    assert target is not None
    if title is not None:
        findings = replace(findings, title=title)
    tables = "tables" if name == "report" else name
    files = ReportFiles(target / f"{name}.html", target / f"{tables}.md", target / f"{tables}.tex")
    tell("drawing", 1, 3)
    texts = render_report(findings)
    tell("writing", 2, 3)
    for path, text in zip((files.html, files.markdown, files.latex), texts, strict=True):
        with replacing_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return files


def _findings(source: Findings | Replay | Evaluation | Results) -> tuple[Findings | Replay, Path | None]:
    if isinstance(source, Findings):
        return source, None
    if isinstance(source, Evaluation):
        return source.findings(), None
    if hasattr(source, "findings") and hasattr(source, "folder"):
        return source.findings(), source.folder
    from caveat.guard.replay import Replay  # loads the guard, which other reports do not need

    return as_kind(source, Replay, "source", what=_SOURCES), None
