"""``caveat report``: a study as one page, and its tables for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from caveat.cli._console import progress_bar, say
from caveat.cli._named import check_folder

__all__ = ["report"]


def report(
    study: Annotated[Path, typer.Argument(help="Folder that caveat study wrote.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the files; default: the study's own.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report; default: that of the plan.")] = None,
) -> None:
    """Write report.html, tables.md and tables.tex of a study: the best methods, the ties and the decisions.

    Nothing is computed again and the data are not needed. The page opens without a network and prints well.
    """
    from caveat.report import write_report
    from caveat_lab.experiments import StudyResults

    if out is not None:
        check_folder(out)
    with progress_bar() as tell:
        files = write_report(StudyResults.read(study), out, title=title, progress=tell)
    for name, path in (("Report", files.html), ("Tables", files.markdown), ("LaTeX", files.latex)):
        say(f"{name + ':':<8}{path}")
