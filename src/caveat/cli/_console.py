"""Where commands print, and how they show progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from caveat.study.measuring import Progress as Tell

__all__ = ["console", "error_console", "progress_bar"]


def console() -> Console:
    return Console()


def error_console() -> Console:
    return Console(stderr=True)


@contextmanager
def progress_bar() -> Iterator[Tell]:
    """A progress bar on standard error that vanishes when the work is done; nothing where that is not a terminal."""
    out = error_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int, steps: int) -> None:
            bar.update(task, description=what, completed=done, total=steps)

        yield tell
