"""``caveat study``: run a plan into a store, or go on where an earlier run stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from caveat.cli._console import console, error_console

if TYPE_CHECKING:
    from caveat.study import Plan, StudyProgress, StudyResults

__all__ = ["study"]

_LINE_EVERY = 5.0  # seconds between lines where there is no terminal
_MOST_FAILURES = 10  # named at the end; the store has all of them


def study(
    plan: Annotated[Path, typer.Argument(help="The plan (.toml). docs/studies.md shows every key.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default: runs/ and the plan's name.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, in place of --jobs.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the cells and how far they are.")] = False,
) -> None:
    """Run a plan; what is finished already is kept, so that a stopped run goes on by the same command.

    Exit code 0: every cell succeeded. 1: some failed, and are named. 2: the plan or the store is not usable. 130:
    stopped by Ctrl-C.
    """
    from caveat.study import Plan, run

    read = Plan.read(plan)
    folder = out if out is not None else default_folder(plan)
    if dry_run:
        _list(read, folder)
        return
    try:
        with _display(read.title) as tell:
            results = run(read, store=folder, jobs=jobs, scheduler=scheduler, progress=tell)
    except KeyboardInterrupt:
        _say(f"Stopped. What is finished is kept in {folder}; the same command goes on from there.")
        raise typer.Exit(130) from None
    _summary(results, folder)
    if results.missing:
        raise typer.Exit(1)


def default_folder(plan: Path) -> Path:
    """``runs/x`` for ``x.toml`` and for ``x/plan.toml``."""
    return Path("runs") / (plan.resolve().parent.name if plan.stem == "plan" else plan.stem)


def _list(plan: Plan, folder: Path) -> None:
    from caveat.study import Store
    from caveat.study.expansion import expand

    cells, notes = expand(plan)
    store = Store(folder)
    for cell in cells:
        failed = store.failure(cell.key) is not None
        state = "done" if store.has(cell.key) else "failed" if failed else "to do"
        _say(f"{state:6} {cell.key[:12]} {cell.label}")
    done = sum(store.has(cell.key) for cell in cells)
    _say(f"{len(cells)} cells, {done} of them done.")
    for note in notes:
        _say(note)


def _summary(results: StudyResults, folder: Path) -> None:
    failures = results.failures
    for note in results.notes:
        _say(note)
    for failure in failures[:_MOST_FAILURES]:
        error_console().print(
            f"[red]failed:[/] {escape(f'{failure.label}: {failure.error}: {failure.message}')}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    if len(failures) > _MOST_FAILURES:
        _say(f"{len(failures) - _MOST_FAILURES} more failures in {folder / 'failures'}.")
    _say(f"{len(results.finished)} of {len(results.cells)} cells done, {len(failures)} failed.")
    _say(f"Store: {folder}")


def _say(sentence: str) -> None:
    console().print(sentence, highlight=False, markup=False, soft_wrap=True)


# -- while it runs ----------------------------------------------------------------------------------------------------


@contextmanager
def _display(title: str) -> Iterator[Callable[[StudyProgress], None]]:
    """A table that follows the run on a terminal; now and then a line elsewhere. Both on standard error."""
    screen = error_console()
    if not screen.is_terminal:
        yield _lines()
        return
    latest: list[tuple[StudyProgress, float]] = []

    def picture() -> RenderableType:
        if not latest:
            return ""
        state, told = latest[0]
        return progress_table(title, replace(state, seconds=state.seconds + time.perf_counter() - told))

    def tell(state: StudyProgress) -> None:
        latest[:] = [(state, time.perf_counter())]

    with Live(get_renderable=picture, console=screen, transient=True, refresh_per_second=4):
        yield tell


def progress_table(title: str, state: StudyProgress) -> Table:
    """How far a run is: counts, time, and the cells under way."""
    table = Table(title=escape(title), title_justify="left", show_header=True, expand=False)
    for name in ("cells", "done", "failed", "left", "elapsed", "remaining"):
        table.add_column(name, justify="right")
    done = state.already + state.done
    table.add_row(
        str(state.total), str(done), f"[red]{state.failed}[/]" if state.failed else "0",
        str(state.total - done - state.failed), clock(state.seconds),
        "" if state.left is None else clock(state.left),
    )  # fmt: skip
    table.caption = "\n".join(escape(f"… {label}") for label in state.running) or None
    table.caption_justify = "left"
    return table


def _lines() -> Callable[[StudyProgress], None]:
    last, begun = -_LINE_EVERY, False

    def tell(state: StudyProgress) -> None:
        nonlocal last, begun
        latest, now = state.latest, time.perf_counter()
        ended = state.already + state.done + state.failed
        if latest is not None and latest.status == "failed":
            what = f"failed {latest.label}: {latest.error}"
        elif latest is None:
            if begun:
                return
            begun, what = True, f"{state.already} done before" if state.already else "starting"
        elif now - last >= _LINE_EVERY or ended == state.total:
            what = f"{latest.status} {latest.label}"
        else:
            return
        last = now
        left = "" if state.left is None or ended == state.total else f", {clock(state.left)} left"
        error_console().print(f"[{ended}/{state.total}] {what}{left}", highlight=False, markup=False, soft_wrap=True)

    return tell


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
