"""How a run of a study is followed: a live table on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from caveat.cli._console import error_console, say, say_error

if TYPE_CHECKING:
    from rich.console import RenderableType

    from caveat_lab.experiments import Failure, Plan, StudyProgress, StudyResults

_LINE_EVERY = 5.0  # seconds between lines where there is no terminal
_MOST_FAILURES = 10  # named at the end; the store has all of them


@contextmanager
def following(title: str) -> Iterator[Callable[[StudyProgress], None]]:
    """A table that follows the run on a terminal; now and then a line elsewhere. Both on standard error."""
    screen = error_console()
    if not screen.is_terminal:
        yield _lines()
        return
    from rich.live import Live

    latest: list[tuple[StudyProgress, float]] = []

    def picture() -> RenderableType:
        if not latest:
            return Text(f"{title}: looking at the plan and its files …")
        state, moment = latest[0]
        return progress_table(title, replace(state, seconds=state.seconds + time.perf_counter() - moment))

    def tell(state: StudyProgress) -> None:
        latest[:] = [(state, time.perf_counter())]

    with Live(get_renderable=picture, console=screen, transient=True, refresh_per_second=4):
        yield tell


def run_plan(plan: Plan, folder: Path, *, jobs: int, scheduler: str | None) -> StudyResults:
    """Run a plan into a store and follow it; Ctrl-C ends with exit code 130 and a hint."""
    from caveat_lab.experiments import run

    try:
        with following(plan.title) as tell:
            return run(plan, store=folder, jobs=jobs, scheduler=scheduler, progress=tell)
    except KeyboardInterrupt:
        say(f"Stopped. Finished cells are kept in {folder}; rerun the command to resume.")
        raise typer.Exit(130) from None


def progress_table(title: str, state: StudyProgress) -> Table:
    """How far a run is: counts, time, and the cells under way."""
    table = Table(title=Text(title), title_justify="left", show_header=True, expand=False)
    for name in ("cells", "done", "failed", "left", "elapsed", "remaining"):
        table.add_column(name, justify="right")
    done = state.already + state.done
    table.add_row(
        str(state.total), str(done), Text(str(state.failed), style="red" if state.failed else ""),
        str(state.total - done - state.failed), clock(state.seconds),
        "" if state.left is None else clock(state.left),
    )  # fmt: skip
    table.caption = Text("\n".join(f"… {label}" for label in state.running)) if state.running else None
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
        error_console().print(f"[{ended}/{state.total}] {what}{left}", soft_wrap=True)

    return tell


def name_failures(failures: Sequence[Failure], folder: Path) -> None:
    """Which cells failed and why, on standard error; of many, the first. One line per reason."""
    reasons: dict[str, list[str]] = {}
    for failure in failures:
        kind = "" if failure.error == "InputError" else f"{failure.error}: "  # its message says all
        reasons.setdefault(f"{kind}{failure.message}", []).append(failure.label)
    for reason, labels in list(reasons.items())[:_MOST_FAILURES]:
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        say_error("failed", f"{labels[0]}{more}: {reason}")
    if len(reasons) > _MOST_FAILURES:
        left = sum(len(labels) for labels in list(reasons.values())[_MOST_FAILURES:])
        say_error("failed", f"{left} more, see {folder / 'failures'}")


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
