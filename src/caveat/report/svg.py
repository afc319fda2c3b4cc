"""From a matplotlib drawing to a small inline SVG that takes its ink, colours and font from the page around it.

Matplotlib lays out axes and paths. The page decides on colours (light, dark, print), so drawings use stand-in colours
that become CSS variables; names that others chose never pass through matplotlib (which would read ``$`` as
mathematics), so drawings use tokens that become escaped text.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GRID", "INK", "LINES", "MUTED", "Line", "Panel", "panel", "token"]

INK, GRID, MUTED = "#000000", "#000001", "#000002"
LINE_WIDTH = 1.8
_VARIABLES = {INK: "currentColor", GRID: "var(--grid)", MUTED: "var(--muted)"}


@final
@dataclass(frozen=True)
class Line:
    """How one series is drawn: a colour and a dash pattern, so that neither is needed alone."""

    color: str
    variable: str
    dashes: tuple[float, ...]  # in units of the line width; empty: solid

    @property
    def dasharray(self) -> str:
        """The pattern as SVG writes it, for the legend."""
        return ",".join(f"{part * LINE_WIDTH:g}" for part in self.dashes) or "none"


LINES = tuple(
    Line(f"#0001{i:02x}", f"var(--line-{i})", dashes)
    for i, dashes in enumerate([(), (5.0, 1.6), (1.2, 1.4), (5.0, 1.6, 1.2, 1.6), (9.0, 2.2), (2.6, 1.4)], start=1)
)
_VARIABLES |= {line.color: line.variable for line in LINES}


@final
@dataclass(frozen=True)
class Panel:
    """One picture with its heading and its description for those who cannot see it."""

    title: str
    description: str
    svg: str


def token(i: int) -> str:
    """Stands for the i-th of ``panel(texts=...)`` inside a drawing."""
    return f"@{i}@"


def panel(
    draw: Callable[[Axes], None],
    *,
    key: str,
    title: str,
    description: str,
    size: tuple[float, float] = (340, 280),
    margins: tuple[float, float, float, float] = (8, 18, 42, 56),
    texts: tuple[str, ...] = (),
    hovers: Mapping[str, str] | None = None,
) -> Panel:
    """Draw on fresh axes and return the picture; the same input gives the same bytes.

    Parameters
    ----------
    draw
        Draws on the axes it is given.
    key
        Unique in the page; ids inside the picture derive from it.
    title, description
        Heading, and what the picture shows in words.
    size, margins
        Width and height, and top, right, bottom, left around the axes, in pixels at natural size.
    texts
        What the tokens drawn as text stand for.
    hovers
        gid of an artist -> what a pointer resting on it reads.
    """
    import matplotlib as mpl
    import matplotlib.style
    from matplotlib.figure import Figure

    (width, height), (top, right, bottom, left) = size, margins
    # The style of the user's matplotlibrc is for the user's own figures.
    with matplotlib.style.context("default"), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}):
        figure = Figure(figsize=(width / 72, height / 72), facecolor="none")
        box = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
        axes = figure.add_axes(box, facecolor="none")
        axes.tick_params(length=0, labelsize=11, pad=5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(MUTED)
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        draw(axes)
        axes.xaxis.label.set_fontsize(11.5)
        axes.yaxis.label.set_fontsize(11.5)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = _inline(buffer.getvalue(), key=key, title=title, description=description, texts=texts, hovers=hovers or {})
    return Panel(title, description, svg)


def _inline(
    source: str, *, key: str, title: str, description: str, texts: tuple[str, ...], hovers: Mapping[str, str]
) -> str:
    body = source[source.index("<svg") :]
    view = re.search(r'viewBox="[^"]*"', body)
    assert view is not None
    body = body[body.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", body)
    body = re.sub(r"font-family: [^;\"]*;?", "", body)
    body = body.replace("xlink:href", "href")
    for color, variable in _VARIABLES.items():
        body = body.replace(color, variable)
    body = re.sub(r' transform="rotate\(-?0 [^"]*"', "", body)
    body = re.sub(r' ([xy])="([\d.]+)"', lambda found: f' {found[1]}="{_short(found[2])}"', body)
    body = re.sub(r' d="([^"]*)"', lambda found: f' d="{_short_path(found[1])}"', body)
    body = re.sub(r'<path d="[^"]*" style="fill: none"/>', "", body)  # backgrounds, transparent by design
    body = re.sub(r'<g id="[^"]*"/>', "", body)
    body = re.sub(r">\s+<", "><", body)
    # Names come in last and in one pass, so that nothing above can rewrite what is in them.
    body = re.sub(r"@(\d+)@", lambda found: html.escape(texts[int(found[1])]), body)
    body = re.sub(r'<g id="([^"]*)">', lambda found: _group(found[1], hovers), body)
    while "<g></g>" in body:
        body = body.replace("<g></g>", "")
    head = (
        f'<svg class="figure" {view[0]} role="img" aria-labelledby="{key}-title {key}-desc">'
        f'<title id="{key}-title">{html.escape(title)}</title><desc id="{key}-desc">{html.escape(description)}</desc>'
    )
    return head + body.strip()


def _group(gid: str, hovers: Mapping[str, str]) -> str:
    return f'<g class="series"><title>{html.escape(hovers[gid])}</title>' if gid in hovers else "<g>"


def _short(coordinate: str) -> str:
    """To a tenth of a pixel."""
    return f"{float(coordinate):.1f}".removesuffix(".0")


def _short_path(path: str) -> str:
    """The same path to a tenth of a pixel, with one H or V for a run along an axis: a third of the bytes or less.

    >>> _short_path("M 0 10 L 0 4.04 L 5 4.04 L 9.96 4.04 L 12 1 z")
    'M0 10V4H10L12 1z'
    """
    short: list[str] = []
    x = y = ""
    runs_up = False
    for command, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        numbers = [_short(coordinate) for coordinate in rest.split()]
        old_x, old_y = x, y
        if len(numbers) >= 2:
            x, y = numbers[-2:]
        if command != "L" or not old_x or (x != old_x and y != old_y):
            short.append(command + " ".join(numbers))
            continue
        along, place, old = ("H", x, old_x) if y == old_y else ("V", y, old_y)
        if place == old:
            continue
        # A run goes on while it keeps its direction; a path that turns back keeps its furthest point.
        run = short[-1][0] == along and (float(place) > float(old)) == runs_up
        runs_up = float(place) > float(old)
        if run:
            short.pop()
        short.append(along + place)
    return "".join(short)
