"""Histograms of a score with the threshold drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from caveat.report.chart import Axis, Chart, Panel
from caveat.report.view import Place, Unit, View
from caveat.report.words import number, shorten

__all__ = ["ridge_panel", "steps", "threshold_panel"]

Floats = NDArray[np.float64]


def threshold_panel(view: View, unit: Unit, *, key: str = "threshold") -> Panel | None:
    """The chosen score on inliers and on all outliers together, with the threshold."""
    decision = view.decision(unit)
    histograms = {} if decision is None else view.histogram(unit, str(decision.method))
    if decision is None or "" not in histograms:
        return None
    edges, inside = histograms[""].edges, histograms[""].shares
    weights = {d.block.outlier: d.n for d in view.data(unit) if d.role == "outlier"}
    outside = [(weights.get(name, 1), h.shares) for name, h in histograms.items() if name]
    pooled = np.average([s for _, s in outside], axis=0, weights=[n for n, _ in outside]) if outside else None
    top = max(float(inside.max()), 0.0 if pooled is None else float(pooled.max()))
    chart = Chart(key, _axis(edges, ""), Axis(0, 1.25 * top, ticks=()), size=(480, 236), margins=(4, 22, 24, 22))
    _fill(chart, inside, 0.0, 1.0, "hist inside")
    if pooled is not None:
        _fill(chart, pooled, 0.0, 1.0, "hist outside")
    cut = _position(edges, decision.threshold)
    if cut is not None:
        chart.rule(cut, 0, cut, 1.25 * top, cls="cut")
        x, y = chart.at(cut, 1.18 * top)
        right = x < 300
        text = f"rejected from {decision.threshold:.4g}".replace("-", "−")
        chart.text(x + (6 if right else -6), y + 4, text, anchor="start" if right else "end", cls="strong")
    about = f"Histogram of {decision.method} on inliers{' and on all outliers' if outside else ''}; "
    limit = f"the threshold is {decision.threshold:.6g}." if np.isfinite(decision.threshold) else "without a threshold."
    return chart.panel("Score and threshold", about + limit)


def ridge_panel(view: View, unit: Unit, name: str, *, key: str, threshold: float = np.nan) -> Panel | None:
    """A score on inliers (filled) behind each outlier set (outlined), from near to far, on one axis."""
    histograms = view.histogram(unit, name)
    model, seed = unit
    names = [outlier for outlier in view.outliers(model) if outlier in histograms]
    if "" not in histograms:
        return None
    edges, inside, rows = histograms[""].edges, histograms[""].shares, max(1, len(names))
    chart = Chart(
        key, _axis(edges, "Score (the larger, the stranger)"), Axis(0, rows, ticks=()),
        size=(400, 52 * rows + 48), margins=(4, 14, 42, 14),
    )  # fmt: skip
    texts = []
    for i, outlier in enumerate(names or [""]):
        base, shares = float(rows - 1 - i), histograms[outlier].shares
        scale = 0.66 / max(float(inside.max()), float(shares.max()), 1e-12)
        _fill(chart, inside, base, scale, "hist inside")
        if outlier:
            regime = view.regime(model, outlier)
            x, heights = steps(np.arange(shares.size + 1.0), shares)
            chart.fine(chart.curve(x, base + scale * heights), cls=f"outline {regime or 'none'}")
            area = view.number(Place(model, seed, outlier), name, "auroc")
            value = "not measured" if area is None else number(area.value)
            chart.text(*chart.at(0, base + 0.74), f"{shorten(outlier, 30)}: AUROC {value}")
            texts.append(f"{outlier} {value}")
        chart.rule(0, base, edges.size - 1, base)
    cut = _position(edges, threshold)
    if cut is not None:
        chart.rule(cut, 0, cut, rows, cls="cut")
    about = f"Histograms of {name}: inliers behind each outlier set. AUROC: {'; '.join(texts) or 'none'}."
    if cut is not None:
        about += f" The threshold is {threshold:.6g}."
    return chart.panel(view.headed(model, name), about, model=model)


def _axis(edges: Floats, label: str) -> Axis:
    bins = edges.size - 1
    step = max(1, bins // 5)
    ticks = [(float(i), f"{edges[i]:.3g}".replace("-", "−")) for i in range(0, bins + 1, step)]
    return Axis(0, bins, label, ticks=ticks)


def steps(edges: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """The outline of a histogram."""
    return np.repeat(edges, 2)[1:-1], np.repeat(shares, 2)


def _fill(chart: Chart, shares: Floats, base: float, scale: float, cls: str) -> None:
    x, y = steps(np.arange(shares.size + 1.0), shares)
    chart.fine(chart.area(x, np.full(x.size, base), base + scale * y), cls=cls)


def _position(edges: Floats, value: float) -> float | None:
    """Where a value lies on the axis of bins; None outside it."""
    if not np.isfinite(value) or not edges[0] <= value <= edges[-1]:
        return None
    return float(np.interp(value, edges, np.arange(edges.size)))
