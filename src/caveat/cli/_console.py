"""Where commands print, and how they show progress."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from caveat.evaluation.evaluation import Progress as Tell

_ANY_WIDTH = 100_000  # columns: wider than any table


def console() -> Console:
    """Standard output. Names and paths are printed as they are: brackets are not markup, colons not emoji."""
    return Console(markup=False, highlight=False, emoji=False)


def error_console() -> Console:
    """Standard error, likewise."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def help_of(command: Callable[..., None]) -> str:
    """A docstring with each paragraph in one line, so that a terminal breaks it where it is narrow."""
    return "\n\n".join(" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n"))


def say(sentence: str) -> None:
    """A sentence on standard output, in one line however long it is."""
    console().print(sentence, soft_wrap=True)


def show_table(
    headings: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None, *,
    right: Collection[str] = (), unbroken: Collection[str] = (), **look: Any,
) -> None:  # fmt: skip
    """Rows under headings: columns of ``right`` end together, those of ``unbroken`` stay in one line.

    No word is cut, so that paths and addresses can be copied. Where a terminal is too narrow for that, each row becomes
    a paragraph.
    """
    table = Table(title=title, title_justify="left", **look)
    names, lines = list(headings), [list(row) for row in rows]
    for heading in names:
        justify: Any = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, no_wrap=heading in unbroken, overflow="fold")
    for row in lines:
        table.add_row(*row)
    out = console()
    columns = list(zip(names, *lines, strict=True))
    wanted = [max(cell_len(line) for cell in column for line in cell.splitlines() or [""]) for column in columns]
    words = [max((cell_len(word) for cell in column for word in cell.split()), default=1) for column in columns]
    least = [wanted[i] if names[i] in unbroken else words[i] for i in range(len(names))]
    frame = Measurement.get(out, out.options.update(width=_ANY_WIDTH), table).maximum - sum(wanted)
    spare = out.width - frame - sum(least)
    if spare < 0:
        _show_paragraphs(names, lines, title, out.width)
        return
    if sum(wanted) > sum(least) + spare:  # rich would cut words of one column to make room for another
        asked = [most - few for most, few in zip(wanted, least, strict=True)]
        for column, few, more in zip(table.columns, least, asked, strict=True):
            column.width = few + spare * more // sum(asked)
    out.print(table)


def _show_paragraphs(names: list[str], rows: list[list[str]], title: str | None, width: int) -> None:
    if title:
        say(title)
    for row in rows:
        head, *cells = (" ".join(cell.split()) for cell in row)
        named = (f"{name}: {cell}" if name else cell for name, cell in zip(names[1:], cells, strict=True) if cell)
        text = " | ".join([head, *named])
        say(textwrap.fill(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))


def say_error(kind: str, sentence: str, *, style: str = "red") -> None:
    """A sentence on standard error after a colored word that names its kind."""
    error_console().print(Text.assemble((f"{kind}:", style), " ", sentence), soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[Tell]:
    """A progress bar on standard error that vanishes when the work is done; nothing where that is not a terminal."""
    out = error_console()
    if not out.is_terminal:  # a disabled bar of rich before 14.3 still ends with an empty line
        yield lambda what, done, steps: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int, steps: int) -> None:
            bar.update(task, description=what, completed=done, total=steps)

        yield tell
