"""Where commands print, and how they show progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from caveat.evaluation.evaluation import Progress as Tell

__all__ = ["console", "error_console", "progress_bar", "say", "say_error"]


def console() -> Console:
    """Standard output. Names and paths are printed as they are: brackets in them are no markup, colons no emoji."""
    return Console(markup=False, highlight=False, emoji=False)


def error_console() -> Console:
    """Standard error, likewise."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def say(sentence: str) -> None:
    """A sentence on standard output, in one line however long it is."""
    console().print(sentence, soft_wrap=True)


def say_error(kind: str, sentence: str, *, style: str = "red") -> None:
    """A sentence on standard error after a coloured word that says what kind it is."""
    error_console().print(Text.assemble((f"{kind}:", style), " ", sentence), soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[Tell]:
    """A progress bar on standard error that vanishes when the work is done; nothing where that is not a terminal."""
    out = error_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int, steps: int) -> None:
            bar.update(task, description=what, completed=done, total=steps)

        yield tell
