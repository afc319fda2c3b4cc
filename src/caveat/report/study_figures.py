"""The curves and histograms of a study. They draw what the store holds and measure nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from caveat.report.chart import Axis, Chart
from caveat.report.study_facts import REGIMES, Block, Curve, Histogram, StudyFacts
from caveat.report.svg import LINES, Panel
from caveat.report.words import number as write_number
from caveat.report.words import shorten

__all__ = [
    "MOST_LINES", "Placed", "area_of", "area_of_seed", "headed", "histogram_panel", "risk_panels", "roc_panels",
]  # fmt: skip

MOST_LINES = len(LINES)
Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Placed:
    """A picture and what it belongs to, for the filters."""

    panel: Panel
    source: str = ""
    regime: str = ""


def roc_panels(facts: StudyFacts, offered: Sequence[str]) -> list[Placed]:
    """ROC curves with their guaranteed bands, one picture per source and outlier set; the first six are drawn."""
    found: list[Placed] = []
    places = {name: i for i, name in enumerate(offered)}
    for source, outlier in facts.sets:
        curves = _of(facts, "roc", source, outlier, offered)
        if not curves:
            continue
        chart = Chart(f"roc-{len(found)}", _titled("Inliers rejected"), _titled("Outliers caught"))
        chart.rule(0, 0, 1, 1)
        said: list[str] = []
        for name, curve in reversed(curves.items()):
            content = chart.curve(curve.x, curve.value)
            if np.isfinite(curve.lower).all() and np.isfinite(curve.upper).all():
                content = chart.area(curve.x, curve.lower, curve.upper) + content
            place = places[name]
            area = area_of(facts, source, outlier, name)
            chart.series(place, name, content, slot=_slot(place), said=f"{name}: AUROC {area}")
            if _slot(place):
                said.insert(0, f"{name} {area}")
        regime = facts.regime(source, outlier)
        about = f"ROC curves against {outlier}: outliers caught over inliers rejected. AUROC: {'; '.join(said)}."
        found.append(Placed(chart.panel(headed(facts, source, outlier), about), source, regime))
    return found


def risk_panels(facts: StudyFacts, offered: Sequence[str]) -> list[Placed]:
    """Selective risk over coverage: against each outlier set (outliers are errors), and of the model's own errors."""
    found: list[Placed] = []
    places = {name: i for i, name in enumerate(offered)}
    errors = [(source, "") for source in facts.sources]
    for source, outlier in [*errors, *facts.sets]:
        curves = _of(facts, "risk", source, outlier, offered)
        if not curves:
            continue
        settled = [curve.value[curve.x >= 0.05] for name, curve in curves.items() if _slot(places[name])]
        top = 1.08 * max((float(np.nanmax(part)) for part in settled if part.size), default=1.0) or 1.0
        chart = Chart(
            f"risk-{len(found)}", _titled("Share of samples answered"),
            Axis(0, min(1.0, top), "Errors among the answered", percent=True),
        )  # fmt: skip
        for name, curve in reversed(curves.items()):
            place = places[name]
            chart.series(place, name, chart.curve(curve.x, curve.value), slot=_slot(place))
        title = headed(facts, source, outlier) if outlier else headed(facts, source, "the model's own errors")
        drawn = ", ".join(name for name in curves if _slot(places[name]))
        what = f"outliers of {outlier} count as errors" if outlier else "wrong answers on inliers"
        about = f"Selective risk over the share of samples answered, least strange first; {what}. Drawn: {drawn}."
        found.append(Placed(chart.panel(title, about), source, facts.regime(source, outlier)))
    return found


def histogram_panel(
    histogram: Histogram, areas: Mapping[str, str], regimes: Mapping[str, str], *, key: str, title: str
) -> Panel:
    """Strangeness of inliers (filled) behind that of each outlier set (outlined), from near to far, on one axis."""
    order = {name: i for i, name in enumerate((*REGIMES, ""))}
    names = sorted((n for n in histogram.shares if n), key=lambda n: order.get(regimes.get(n, ""), 9))
    bins, rows = histogram.edges.size - 1, len(names)
    inside = histogram.shares.get("", np.zeros(bins))
    step = max(1, bins // 5)
    ticks = [(float(i), f"{histogram.edges[i]:.3g}".replace("-", "−")) for i in range(0, bins + 1, step)]
    chart = Chart(
        key, Axis(0, bins, "Strangeness (larger is stranger)", ticks=ticks), Axis(0, max(rows, 1), ticks=()),
        size=(400, 58 * max(rows, 1) + 48), margins=(4, 14, 42, 14),
    )  # fmt: skip
    edges = np.repeat(np.arange(bins + 1.0), 2)[1:-1]
    for i, name in enumerate(names):
        base, share = float(rows - 1 - i), histogram.shares[name]
        scale = 0.66 / max(float(inside.max()), float(share.max()), 1e-12)
        behind = chart.area(edges, np.full(edges.size, base), base + scale * np.repeat(inside, 2))
        front = chart.curve(edges, base + scale * np.repeat(share, 2))
        regime = regimes.get(name, "")
        label = f"{shorten(name, 30)}{f' · {regime}' if regime else ''}: AUROC {areas.get(name, 'not measured')}"
        chart.fine(behind, cls="ghost")
        chart.fine(front, cls=f"outline {regime or 'none'}")
        chart.rule(0, base, bins, base)
        x, y = chart.at(0, base + 0.74)
        chart.text(x, y, label)
    said = "; ".join(f"{name} {areas.get(name, '')}" for name in names)
    return chart.panel(title, f"Histograms of {title}, inliers behind each outlier set. AUROC: {said}.")


def _of(facts: StudyFacts, kind: str, source: str, outlier: str, offered: Sequence[str]) -> dict[str, Curve]:
    """Curves by method, in the order of the ranking."""
    found = {name: facts.curves.get((kind, source, outlier, name)) for name in offered}
    return {name: curve for name, curve in found.items() if curve is not None}


def area_of(facts: StudyFacts, source: str, outlier: str, label: str) -> str:
    """Mean AUROC over the seeds."""
    found = [facts.numbers.get((block, label, "auroc")) for block in facts.blocks_of(source, outlier)]
    values = [number.value for number in found if number is not None]
    return write_number(float(np.mean(values))) if values else "not measured"


def area_of_seed(facts: StudyFacts, block: Block, label: str) -> str:
    """AUROC of one seed, beside a picture of that seed."""
    found = facts.numbers.get((block, label, "auroc"))
    return "not measured" if found is None else write_number(found.value)


def _slot(place: int) -> int:
    return place + 1 if place < MOST_LINES else 0


def _titled(label: str) -> Axis:
    return Axis(0, 1, label, percent=True)


def headed(facts: StudyFacts, source: str, what: str) -> str:
    return f"{source}: {what}" if len(facts.sources) > 1 else what
