"""Progress on a terminal: where the run is, how the loss stands, when it will be done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

__all__ = ["Tell", "display"]

Tell = Callable[[str, int, Mapping[str, float]], None]  # where, steps done, numbers to show
_PAUSE = 0.2  # seconds between two updates: drawing must not cost


@contextmanager
def display(steps: int, wanted: bool | None) -> Iterator[Tell]:
    """A bar with the time left on standard error; nothing where that is not a terminal, unless wanted."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda where, done, numbers: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps, numbers="")
        last = 0.0

        def tell(where: str, done: int, numbers: Mapping[str, float]) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < _PAUSE and done < steps:
                return
            last = now
            shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
            bar.update(task, description=where, completed=done, numbers=shown)

        yield tell
