"""``caveat data``: which data sets are installed, and where to get the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from caveat.cli._console import console, say, show_table
from caveat.cli._required import demanding

__all__ = ["data"]

_INK = " .:-=+*#%@"  # from paper to full ink

data = typer.Typer(no_args_is_help=True, help="Data sets: which are installed, and where to get the others.")


@data.command("list")
def list_sets() -> None:
    """List the known data sets: which are installed, where they were found, and where to get the others."""
    from rich import box

    from caveat_lab.data import KNOWN, data_folders
    from caveat_lab.data.finding import places

    folders, wide = data_folders(), console().width >= 120
    lines = []
    for entry in KNOWN.values():
        installed = {split: (form.note, files[0]) for split, form, files in places(entry)}
        inside = entry.inside is not None or entry.kind == "table"
        whole = inside or (bool(installed) and set(entry.sizes) <= set(installed))
        where = [_shown(path, folders) + (f" ({note})" if note else "") for note, path in installed.values()]
        where += [] if whole and not inside else [f"from {entry.home}"]
        rows = ", ".join(f"{split} {n:,}" for split, n in entry.sizes.items())
        about = (entry.what, entry.shape, rows) if wide else (entry.shape,)
        here = "yes" if whole else ", ".join(installed) or "no"
        lines.append((entry.name, *about, here, "; ".join(dict.fromkeys(where))))
    headings = ("name", *(("what it is", "shape", "rows") if wide else ("shape",)), "here", "where")
    caption = (f"Looked in {', '.join(map(str, folders))}. CAVEAT_DATA names the folder of your own copies; nothing is "
               "downloaded.")  # fmt: skip
    show_table(headings, lines, unbroken=("name", "shape"), box=box.SIMPLE_HEAD)
    say(caption)


def _shown(path: Path, folders: tuple[Path, ...]) -> str:
    """A path as seen from the data folder it lies in."""
    return next((str(path.relative_to(folder)) for folder in folders if path.is_relative_to(folder)), str(path))


@data.command()
@demanding
def show(
    name: Annotated[str, typer.Argument(help="A set of images from the list.")],
    split: Annotated[str | None, typer.Option(help="Which part; needed where there are several.")] = None,
    count: Annotated[int, typer.Option(min=1, max=50, help="How many images.")] = 3,
) -> None:
    """Draw the first images of a data set as text, with their classes."""
    from caveat_lab.data import load

    images = load(name, split)
    values = ", ".join(f"{side}" for side in images.pixels.shape)
    say(f"{name}: ({values}) {images.pixels.dtype}, {len(set(images.labels.tolist()))} classes")
    for image, label in zip(images[:count].inputs(), images.labels[:count].tolist(), strict=True):
        say(f"\nclass {images.classes[label] if images.classes else label}")
        for line in image.mean(axis=0):
            say("".join(_INK[min(int(value * len(_INK)), len(_INK) - 1)] * 2 for value in line))
