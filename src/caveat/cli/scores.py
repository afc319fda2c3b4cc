"""``caveat scores``: the catalogue."""

from __future__ import annotations

from rich import box
from rich.table import Table

from caveat.cli._console import console, say
from caveat.scores import catalogue
from caveat.scores.catalogue import MODEL_BOUND

__all__ = ["scores"]


def scores() -> None:
    """List every score: what it needs, what it costs per sample, where it comes from."""
    out = console()
    wide = out.width >= 120
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", *(["what it is"] if wide else []), "needs", "learns from", "cost", "paper"):
        table.add_column(heading, no_wrap=heading == "name" or (wide and heading == "cost"), overflow="fold")
    for entry in catalogue():
        summary = [entry.summary] if wide else []
        learns = ", ".join(entry.fits_on) or "-"
        names = "\n".join([entry.name, *(f"({alias})" for alias in entry.also_known_as)])
        table.add_row(names, *summary, ", ".join(entry.needs), learns, entry.cost, entry.paper)
    out.print(table)
    bound = ", ".join(f"{name} ({how})" for name, how in MODEL_BOUND.items())
    say("In brackets: also known as; these names work too. Cost per sample: C classes, D features, N training rows.")
    say(f"Ask the model itself: {bound}.")
