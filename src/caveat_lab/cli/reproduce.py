"""``caveat reproduce``: run a study of a paper's table or figure, and compare with the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caveat.cli._console import progress_bar, say, show_table
from caveat.errors import InputError
from caveat_lab.cli._following import name_failures, run_plan

if TYPE_CHECKING:
    from caveat_lab.papers.agreement import Agreement
    from caveat_lab.papers.reproductions import Reproduction

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which one; --list shows them.")] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="Show all: paper, table, data, time, how the last run compares.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; default runs/NAME. A run there is resumed.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, in place of --jobs.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute everything, also what the study keeps from earlier runs.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Write tables, figures and comparison into the study's own folder.")
    ] = False,
    docs: Annotated[
        Path | None, typer.Option(help="Write the page of all reproductions to this file, and stop.")
    ] = None,
) -> None:
    """Reproduce a table or figure of a paper, and compare with the published numbers.

    Runs the study's plan into runs/NAME, writes its tables and figures to runs/NAME/summary, and prints our
    numbers next to the published ones, with the reason for every difference. Exit code 1 if a part of the study failed.
    """
    from caveat._internal.files import replacing_file
    from caveat_lab.papers.reproductions import find_reproduction, reproduction_page, reproductions

    if show_list:
        _show_list(reproductions())
        return
    if docs is not None:
        with replacing_file(docs) as temporary:
            temporary.write_text(reproduction_page(reproductions()), encoding="utf-8")
        say(f"Written: {docs}")
        return
    if name is None:
        raise InputError("name one of the reproductions; caveat reproduce --list shows them.")
    one = find_reproduction(name)
    one.check_data()
    folder = out or Path("runs") / one.name
    rows = _run(one, folder, jobs=jobs, scheduler=scheduler, fresh=fresh)
    written = one.folder if update else folder / "summary"
    before = one.committed
    with progress_bar() as tell:
        tell("tables and figures", 0, 1)
        agreement = one.summarize(rows, written)
    _show(one, agreement)
    if before is not None and not update:
        _show_change(before, agreement)
    say(f"Tables and figures: {written}")


def _run(one: Reproduction, folder: Path, *, jobs: int, scheduler: str | None, fresh: bool) -> list[dict[str, Any]]:
    """All rows of the finished study; stops with exit code 1 and the reasons where a cell failed."""
    from caveat_lab.experiments import Plan

    results = run_plan(Plan.read(one.fresh_plan if fresh else one.plan), folder, jobs=jobs, scheduler=scheduler)
    if results.missing:
        name_failures(results.failures, folder)
        say(f"{len(results.missing)} of {len(results.cells)} cells failed: nothing is compared. The others are "
             f"kept in {folder}: fix the cause and rerun the command.")  # fmt: skip
        raise typer.Exit(1)
    return list(results.rows())


def _show_list(all_of_them: tuple[Reproduction, ...]) -> None:
    rows = [
        (one.name, f"{one.cite}: {one.reproduces}", _data(one), one.time,
         one.committed.sentence if one.committed else "not yet run")
        for one in all_of_them
    ]  # fmt: skip
    headings = ("name", "paper, table or figure", "data", "time", "ours and published")
    show_table(headings, rows, "caveat reproduce NAME", unbroken=("name",), show_lines=True)
    for file in dict.fromkeys(file for one in all_of_them for file in one.missing):
        say(f"{file.name} is missing. {file.what} {file.origin}")
    say("The last column is of the run whose tables the study keeps; docs/reproduction.md explains every difference.")


def _data(one: Reproduction) -> str:
    """Whether the data are here; the names of files that are not."""
    if not one.data:
        return "none needed"
    if not one.missing:
        return f"{len(one.data)} files, here" if len(one.data) > 1 else "1 file, here"
    return "missing: " + ", ".join(file.name for file in one.missing)


def _show(one: Reproduction, agreement: Agreement) -> None:
    headings = ("part", "compared", "agree", "counts as agreement", "largest difference")
    parts = [(part.title, str(part.compared), str(part.agree), part.rule,
              "" if part.largest is None else f"{part.largest:.3g}") for part in agreement.parts]  # fmt: skip
    show_table(headings, parts, f"{one.title}: {one.reproduces}")
    checks = [
        ("=" if check.agrees else "differs", check.what, check.published, check.ours,
         "" if check.agrees else check.why or "not explained")
        for part in agreement.parts for check in part.checks
    ]  # fmt: skip
    if checks:
        title = "Published and ours, where they differ or are findings in words"
        show_table(("", "what", "published", "ours", "why"), checks, title)
    say(f"{agreement.sentence}.")
    for sentence in one.differs:
        say(f"- {sentence}")


def _show_change(before: Agreement, now: Agreement) -> None:
    """Whether this run says the same as the one that the study keeps."""
    if before == now:
        say("The same comparison as in the committed run.")
        return
    old = {check.what: check for part in before.parts for check in part.checks}
    changed = [check for part in now.parts for check in part.checks if old.get(check.what) != check]
    say(f"Not the same as the committed run ({before.sentence}):")
    for check in changed[:20]:
        was = f"{old[check.what].ours}" if check.what in old else "not among those shown"
        say(f"  {check.what}: {check.ours}, was {was}")
