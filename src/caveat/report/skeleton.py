"""The skeleton of every page: one template, style and script, filled with cards and sections."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, final

from caveat.report.chart import SLOTS, Panel
from caveat.report.tables import Table

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Section", "fill_page"]


@final
@dataclass(frozen=True)
class Section:
    """A part of the page below the first screen. ``folded`` panels and ``tables`` are behind a click."""

    key: str
    title: str
    lead: str = ""
    panels: tuple[Panel, ...] = ()
    folded: tuple[Panel, ...] = ()
    fold_title: str = ""
    tables: tuple[Table, ...] = ()
    legend: str = ""  # "methods": switches for the curves; "sets": names of the set methods
    open: bool = False  # tables are shown
    natural: bool = False  # pictures at their own width
    pick: bool = False  # the folded panels are shown one at a time


def fill_page(
    *,
    title: str,
    subtitle: Sequence[str],
    cards: Sequence[Sequence[Any]],
    sections: Sequence[Section],
    notes: Sequence[tuple[str, str]],
    repeat: Sequence[str],
    about: str = "",
    study: bool = False,
    offered: Sequence[str] = (),
    set_names: Sequence[str] = (),
    models: Sequence[str] = (),
    regimes: Sequence[str] = (),
    provenance: Sequence[Table] = (),
    plan: str = "",
) -> str:
    """The page as HTML. Cards are listed by column; everything that a user named is escaped by the template."""
    script = _file("page.js")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title, about=about, subtitle=subtitle, cards=cards, study=study, sections=sections,
            offered=list(enumerate(offered)), slots=SLOTS, set_names=set_names, models=models, regimes=regimes,
            notes=notes, repeat=repeat, provenance=provenance, plan=plan, style=_file("page.css"), script=script,
            # Only this script may run, whatever the names on the page hold.
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )  # fmt: skip


def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_file), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"breakable": _breakable, "options": _options}
    return environment


def _breakable(name: str) -> str:
    """A name that may break where its words end, not only where the line does."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(?<=[_\-./])(?=[^_\-./])", "<wbr>", str(escape(name))))


def _options(text: str) -> str:
    """Text with the options of a command set as code, so that they do not break."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"--[a-z]+", r"<code>\g<0></code>", str(escape(text))))


def _file(name: str) -> str:
    return (files("caveat.report") / "templates" / name).read_text(encoding="utf-8")
