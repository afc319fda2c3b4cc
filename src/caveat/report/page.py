"""From a template to one self-contained page: styles and scripts inside, nothing fetched, one hash that may run."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from caveat.report import words

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render_page"]


def render_page(name: str, *, styles: tuple[str, ...], scripts: tuple[str, ...], **content: Any) -> str:
    """The page of a template; ``styles`` and ``scripts`` are files beside it, joined in this order."""
    script = "".join(_template(part) for part in scripts)
    return (
        _environment()
        .get_template(name)
        .render(
            words=words,
            style="".join(_template(part) for part in styles),
            script=script,
            # Only this script may run, whatever the names on the page hold.
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            **content,
        )
    )


def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= words.STYLES | {"level": words.level, "breakable": _breakable}
    return environment


def _breakable(name: str) -> str:
    """A name that may break where its words end, not only where the line does."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(?<=[_\-./])(?=[^_\-./])", "<wbr>", str(escape(name))))


def _template(name: str) -> str:
    return (files("caveat.report") / "templates" / name).read_text(encoding="utf-8")
