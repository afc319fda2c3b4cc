"""Small SVG charts that a script can bring to life: they say where their axes lie, and each series carries its name.

Lines are drawn in tenths of a pixel with relative steps, which keeps hundreds of curves in a page small. Colors,
dashes and fonts come from the page (``page.css``), in light, dark and print.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["SLOTS", "Axis", "Chart", "Panel", "nice_ticks", "slot_of"]

Floats = NDArray[np.float64]
FINE = 10  # drawing units per pixel
SLOTS = 6  # line styles that a reader can tell apart


def slot_of(place: int) -> int:
    """Line style of the i-th series: the first six are drawn, the others (0) when a reader asks for them."""
    return place + 1 if place < SLOTS else 0


@final
@dataclass(frozen=True)
class Panel:
    """One picture with its heading and its text alternative; ``model`` and ``regime`` are for the filters."""

    title: str
    description: str
    svg: str
    model: str = ""
    regime: str = ""
    width: float = 0.0


@final
@dataclass(frozen=True)
class Axis:
    """One axis: its ends, its label and its ticks; ``percent`` writes shares as percentages."""

    low: float
    high: float
    label: str = ""
    percent: bool = False
    ticks: Sequence[tuple[float, str]] | None = None

    def marks(self) -> Sequence[tuple[float, str]]:
        """Where the ticks are and what they say."""
        if self.ticks is not None:
            return self.ticks
        values = nice_ticks(self.low, self.high)
        if self.percent:
            return [(value, self.write(value)) for value in values]
        digits = max((len(f"{value:.6g}".partition(".")[2]) for value in values), default=0)
        return [(value, f"{value:.{digits}f}".replace("-", "−")) for value in values]

    def write(self, value: float) -> str:
        text = f"{100 * value:.4g} %" if self.percent else f"{value:.4g}"
        return text.replace("-", "−")


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two ends.

    >>> nice_ticks(0, 1), nice_ticks(0, 0.37)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 0.1, 0.2, 0.3])
    """
    rough = (high - low) / (most - 1)
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [round(float(i * step), 10) for i in range(first, last + 1)]


@final
@dataclass(eq=False)
class Chart:
    """A chart under construction; ``panel`` ends it.

    Parameters
    ----------
    key
        Unique in the page.
    x, y
        Axes; an axis without a label and ticks is not drawn.
    size, margins
        Width and height, and top, right, bottom, left around the axes, in pixels at natural size.
    """

    key: str
    x: Axis
    y: Axis
    size: tuple[float, float] = (340, 280)
    margins: tuple[float, float, float, float] = (8, 18, 42, 56)
    _parts: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point."""
        (width, height), (top, right, bottom, left) = self.size, self.margins
        across = (x - self.x.low) / (self.x.high - self.x.low)
        up = (y - self.y.low) / (self.y.high - self.y.low)
        return left + across * (width - left - right), height - bottom - up * (height - top - bottom)

    def add(self, part: str) -> None:
        """SVG as it is; the caller escapes it."""
        self._parts.append(part)

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", cls: str = "") -> None:
        """Text at a pixel."""
        self.add(_label(x, y, text, anchor, f' class="{cls}"' if cls else ""))

    def bar(self, x1: float, y1: float, x2: float, y2: float, *, cls: str, tip: str = "") -> None:
        """A rectangle between two points of the axes; ``tip`` is shown to a pointer."""
        (left, bottom), (right, top) = self.at(x1, y1), self.at(x2, y2)
        left, right, top, bottom = min(left, right), max(left, right), min(top, bottom), max(top, bottom)
        text = html.escape(tip)
        about = f' data-tip="{text}"><title>{text}</title></rect>' if tip else "/>"
        size = f'x="{_px(left)}" y="{_px(top)}" width="{_px(right - left)}" height="{_px(bottom - top)}"'
        self.add(f'<rect class="{cls}" {size}{about}')

    def rule(self, x1: float, y1: float, x2: float, y2: float, *, cls: str = "rule") -> None:
        """A straight line between two points of the axes."""
        (a, b), (c, d) = self.at(x1, y1), self.at(x2, y2)
        self.add(f'<path class="{cls}" d="M{_px(a)} {_px(b)}L{_px(c)} {_px(d)}"/>')

    def curve(self, x: Floats, y: Floats, *, cls: str = "line") -> str:
        """A line through the points, to be put into a series."""
        return f'<path class="{cls}" d="{self._path(x, y)}"/>'

    def area(self, x: Floats, lower: Floats, upper: Floats) -> str:
        """The area between two lines, to be put into a series."""
        around = self._path(np.concatenate([x, x[::-1]]), np.concatenate([upper, lower[::-1]]))
        return f'<path class="area" d="{around}z"/>'

    def fine(self, content: str, *, cls: str) -> None:
        """Curves and areas that belong to no series."""
        self.add(f'<g class="{cls}" transform="scale({1 / FINE:g})">{content}</g>')

    def series(self, number: int, name: str, content: str, *, slot: int, tip: str = "") -> None:
        """Curves of one method; slot 0 is drawn only when a reader asks for it."""
        cls = f"series slot-{slot}" if slot else "series off"
        title = html.escape(tip or name)
        self.add(
            f'<g class="{cls}" data-series="{number}" data-name="{html.escape(name)}"><title>{title}</title>'
            f'<g clip-path="url(#{self.key}-clip)"><g transform="scale({1 / FINE:g})">{content}</g></g></g>'
        )

    def dot(self, x: float, y: float, tip: str, *, cls: str = "dot", radius: float = 4) -> None:
        """A dot that says its value to a pointer."""
        px, py = self.at(x, y)
        self.add(
            f'<circle class="{cls}" cx="{_px(px)}" cy="{_px(py)}" r="{radius:g}" data-tip="{html.escape(tip)}">'
            f"<title>{html.escape(tip)}</title></circle>"
        )

    def panel(self, title: str, description: str, *, model: str = "", regime: str = "") -> Panel:
        """The finished picture."""
        (width, height), (top, right, bottom, left) = self.size, self.margins
        ends = [left, width - right, self.x.low, self.x.high], [height - bottom, top, self.y.low, self.y.high]
        at = " ".join(
            f'data-{name}="{" ".join(f"{end:.10g}" for end in numbers)}"'
            for name, numbers in zip("xy", ends, strict=True)
        )
        units = f'data-percent="{int(self.x.percent)}{int(self.y.percent)}" data-label="{html.escape(self.x.label)}"'
        across, down = _px(width - left - right + 1), _px(height - top - bottom + 3)
        box = f'<rect x="{_px(left)}" y="{_px(top - 2)}" width="{across}" height="{down}"/>'
        named = f'role="img" aria-labelledby="{self.key}-title {self.key}-desc"'
        svg = (
            f'<svg class="figure chart" viewBox="0 0 {width:g} {height:g}" style="--width:{width:g}px" '
            f"{at} {units} {named}>"
            f'<title id="{self.key}-title">{html.escape(title)}</title>'
            f'<desc id="{self.key}-desc">{html.escape(description)}</desc>'
            f'<clipPath id="{self.key}-clip">{box}</clipPath>{self._frame()}{"".join(self._parts)}</svg>'
        )
        return Panel(title, description, svg, model, regime, width)

    def _frame(self) -> str:
        (width, height), (top, right, bottom, left) = self.size, self.margins
        grid, labels = [], []
        for value, text in self.x.marks():
            x = self.at(value, self.y.low)[0]
            grid.append(f"M{_px(x)} {_px(top)}V{_px(height - bottom)}")
            labels.append(_label(x, height - bottom + 16, text, "middle"))
        for value, text in self.y.marks():
            y = self.at(self.x.low, value)[1]
            grid.append(f"M{_px(left)} {_px(y)}H{_px(width - right)}")
            labels.append(_label(left - 6, y + 4, text, "end"))
        if self.x.label:
            labels.append(_label((left + width - right) / 2, height - 6, self.x.label, "middle"))
        if self.y.label:
            middle = (top + height - bottom) / 2
            turned = f' transform="rotate(-90 12 {_px(middle)})"'
            labels.append(_label(12, middle, self.y.label, "middle", turned))
        frame = f"M{_px(left)} {_px(top)}V{_px(height - bottom)}H{_px(width - right)}" if self.y.marks() else ""
        return f'<path class="grid" d="{"".join(grid)}"/><path class="frame" d="{frame}"/>{"".join(labels)}'

    def _path(self, x: Floats, y: Floats) -> str:
        (width, height), (top, right, bottom, left) = self.size, self.margins
        across = (x - self.x.low) / (self.x.high - self.x.low) * (width - left - right) + left
        up = height - bottom - (y - self.y.low) / (self.y.high - self.y.low) * (height - top - bottom)
        points = np.rint(FINE * np.column_stack([across, up])[np.isfinite(up)]).astype(np.int64)
        if points.shape[0] == 0:
            return "M0 0"
        steps = np.diff(points, axis=0)
        steps = steps[(steps != 0).any(axis=1)]
        # Steps in the same direction and of the same size are common in flat parts: one step says them all.
        parts, i, flat = [], 0, steps.tolist()
        while i < len(flat):
            dx, dy = flat[i]
            j = i + 1
            while j < len(flat) and (
                (dy == 0 == flat[j][1] and dx * flat[j][0] > 0) or (dx == 0 == flat[j][0] and dy * flat[j][1] > 0)
            ):
                dx, dy, j = dx + flat[j][0], dy + flat[j][1], j + 1
            parts.append(f"{dx}{dy}" if dy < 0 else f"{dx} {dy}")
            i = j
        joined = "".join(part if part[0] == "-" or not i else " " + part for i, part in enumerate(parts))
        return f"M{points[0, 0]} {points[0, 1]}" + (f"l{joined}" if joined else "")


def _label(x: float, y: float, text: str, anchor: str, extra: str = "") -> str:
    return f'<text x="{_px(x)}" y="{_px(y)}" text-anchor="{anchor}"{extra}>{html.escape(text)}</text>'


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
