"""Progress bars on standard error: shown if asked for, by default only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager, suppress
from typing import Any

Tell = Callable[[str, int, Mapping[str, float]], None]  # where, steps done, numbers to show
_PAUSE = 0.2  # seconds between two updates, so that drawing costs little


def _shown(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress


def tracked(items: Iterable[Any], what: str, progress: bool | None) -> Iterator[Any]:
    """The items, with a bar that counts them."""
    if not _shown(progress):
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    total = None
    if isinstance(items, Sized):
        with suppress(TypeError):  # a DataLoader has a length only if its data set has one
            total = len(items)
    yield from track(items, what, total=total, console=Console(stderr=True), transient=True)


@contextmanager
def training_bar(steps: int, progress: bool | None) -> Iterator[Tell]:
    """A bar with the loss and the time left, moved by calls of the function that it gives."""
    if not _shown(progress):
        yield lambda where, done, numbers: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text, numbers_column = TextColumn("{task.description}"), TextColumn("{task.fields[numbers]}")
    columns = (text, BarColumn(), numbers_column, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps, numbers="")
        last = 0.0

        def tell(where: str, done: int, numbers: Mapping[str, float]) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _PAUSE or done >= steps:
                last = now
                shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
                bar.update(task, description=where, completed=done, numbers=shown)

        yield tell
