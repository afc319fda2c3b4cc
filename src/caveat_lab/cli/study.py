"""``caveat study``: run a plan into a store, or go on where an earlier run stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caveat.cli._console import say
from caveat_lab.cli._following import name_failures, run_plan

if TYPE_CHECKING:
    from caveat_lab.experiments import Plan

__all__ = ["study"]


def study(
    plan: Annotated[Path, typer.Argument(help="The plan (.toml). docs/studies.md shows every key.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default: runs/ and the plan's name.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, in place of --jobs.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and their state, and stop.")] = False,
) -> None:
    """Run a plan. Finished cells are kept; rerun the command to resume. The folder gets results.csv and .parquet.

    Exit code 0: every cell succeeded. 1: some cells failed; they are listed. 2: the plan or the store is not usable.
    130: stopped by Ctrl-C.
    """
    from caveat_lab.experiments import Plan

    read = Plan.read(plan)
    folder = out if out is not None else default_folder(plan)
    if dry_run:
        _list(read, folder)
        return
    results = run_plan(read, folder, jobs=jobs, scheduler=scheduler)
    for note in results.notes:
        say(note)
    name_failures(results.failures, folder)
    say(f"{len(results.finished)} of {len(results.cells)} cells done, {len(results.failures)} failed.")
    say(f"Table: {results.save_tables()}")
    say(f"Store: {folder}")
    if results.missing:
        raise typer.Exit(1)


def default_folder(plan: Path) -> Path:
    """``runs/x`` for ``x.toml`` and for ``x/plan.toml``."""
    return Path("runs") / (plan.resolve().parent.name if plan.stem == "plan" else plan.stem)


def _list(plan: Plan, folder: Path) -> None:
    from caveat_lab.experiments import Store
    from caveat_lab.experiments.expansion import expand

    cells, notes = expand(plan)
    store = Store(folder)
    for cell in cells:
        failed = store.failure(cell.key) is not None
        state = "done" if store.has(cell.key) else "failed" if failed else "to do"
        say(f"{state:6} {cell.key[:12]} {cell.label}")
    done = sum(store.has(cell.key) for cell in cells)
    say(f"{len(cells)} cells, {done} of them done.")
    for note in notes:
        say(note)
