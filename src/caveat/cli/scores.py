"""``caveat scores``: the catalogue."""

from __future__ import annotations

from rich import box

from caveat.cli._console import console, say, show_table

__all__ = ["scores"]


def scores() -> None:
    """List every score: what it needs, what it costs per sample, where it comes from."""
    from caveat.scores.catalogue import MODEL_BOUND, catalogue

    wide = console().width >= 120
    rows = []
    for entry in catalogue():
        names = "\n".join([entry.name, *(f"({alias})" for alias in entry.also_known_as)])
        summary, learns = [entry.summary] if wide else [], ", ".join(entry.fits_on) or "-"
        rows.append((names, *summary, ", ".join(entry.needs), learns, entry.cost, entry.paper))
    headings = ("name", *(["what it is"] if wide else []), "needs", "learns from", "cost", "paper")
    show_table(headings, rows, unbroken=("name", "cost") if wide else ("name",), box=box.SIMPLE_HEAD, pad_edge=False,
               padding=(0, 2, 0, 0))  # fmt: skip
    bound = ", ".join(f"{name} ({how})" for name, how in MODEL_BOUND.items())
    say("In brackets: also known as; these names work too. Cost per sample: C classes, D features, N training rows.")
    say(f"Ask the model itself: {bound}.")
