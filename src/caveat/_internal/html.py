"""Small HTML for notebooks: a caption, a table, a note. Everything is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence


def small_table(caption: str, rows: Sequence[Sequence[str]], *, head: Sequence[str] = (), note: str = "") -> str:
    """A table whose first column names the row.

    >>> small_table("a < b", [("n", "3")])
    '<table><caption>a &lt; b</caption><tr><th style="text-align:left">n</th><td>3</td></tr></table>'
    """
    parts = [f"<table><caption>{html.escape(caption)}</caption>"]
    if head:
        parts.append(f"<tr>{''.join(f'<th>{html.escape(name)}</th>' for name in head)}</tr>")
    for name, *cells in rows:
        rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        parts.append(f'<tr><th style="text-align:left">{html.escape(name)}</th>{rest}</tr>')
    return "".join([*parts, "</table>", f"<p>{html.escape(note)}</p>" if note else ""])
