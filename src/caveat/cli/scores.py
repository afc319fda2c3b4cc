"""``caveat scores``: the catalogue."""

from __future__ import annotations

from rich import box
from rich.table import Table

from caveat.cli._console import console
from caveat.scores import catalogue
from caveat.scores.catalogue import MODEL_BOUND

__all__ = ["scores"]


def scores() -> None:
    """List every score: what it needs, what it costs per sample, where it comes from."""
    out = console()
    bound = ", ".join(f"{name} ({how})" for name, how in MODEL_BOUND.items())
    caption = f"Cost per sample: C classes, D features, N training rows.\nAsk the model itself: {bound}."
    table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left")
    wide = out.width >= 120
    for heading in ("name", *(["what it is"] if wide else []), "needs", "learns from", "cost", "paper"):
        table.add_column(heading, no_wrap=heading in ("name", "cost"))
    for entry in catalogue():
        summary = [entry.summary] if wide else []
        learns = ", ".join(entry.fits_on) or "-"
        table.add_row(entry.name, *summary, ", ".join(entry.needs), learns, entry.cost, entry.paper)
    out.print(table)
