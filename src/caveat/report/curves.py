"""ROC curves with their guaranteed bands, risk-coverage curves and reliability diagrams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from caveat.report.chart import Axis, Chart, Panel, slot_of
from caveat.report.view import View
from caveat.report.words import number, percent

__all__ = ["reliability_panels", "risk_panels", "roc_panels"]

Floats = NDArray[np.float64]
SIZE = (340, 260)


def roc_panels(view: View, offered: Sequence[str]) -> list[Panel]:
    """ROC curves with guaranteed bands, one picture per model and outlier set; the first six methods are drawn."""
    panels: list[Panel] = []
    for model in view.models:
        for outlier in view.outliers(model):
            chart = Chart(f"roc-{len(panels)}", _share("Inliers rejected"), _share("Outliers caught"), SIZE)
            chart.rule(0, 0, 1, 1)
            places = [place for place in view.places if (place.model, place.outlier) == (model, outlier)]
            drawn: list[str] = []
            for i, name in reversed(list(enumerate(offered))):
                curve = view.curve("roc", model, outlier, name)
                if curve is None:
                    continue
                x, y, lower, upper = curve
                content = chart.curve(x, y)
                if np.isfinite(lower).all() and np.isfinite(upper).all():
                    content = chart.area(x, lower, upper) + content
                area = view.mean(places, name, "auroc")
                label = f"{name}: AUROC {'not measured' if area is None else number(area.value)}"
                chart.series(i, name, content, slot=slot_of(i), tip=label)
                if slot_of(i):
                    drawn.insert(0, label)
            if drawn:
                about = f"ROC curves against {outlier}: outliers caught over inliers rejected. {'; '.join(drawn)}."
                regime = view.regime(model, outlier)
                panels.append(chart.panel(view.headed(model, outlier), about, model=model, regime=regime))
    return panels


def risk_panels(
    view: View, offered: Sequence[str], *, errors: bool, key: str = "risk", size: tuple[float, float] = SIZE
) -> list[Panel]:
    """Selective risk over coverage: of the model's own errors, or with each outlier set counted as errors."""
    panels: list[Panel] = []
    for model in view.models:
        for outlier in [""] if errors else view.outliers(model):
            curves = {
                name: curve for name in offered if (curve := view.curve("risk", model, outlier, name)) is not None
            }
            if not curves:
                continue
            shown = [curves[name][1][curves[name][0] >= 0.05] for name in offered[:6] if name in curves]
            top = 1.08 * max((float(np.nanmax(part)) for part in shown if part.size), default=1.0) or 1.0
            chart = Chart(
                f"{key}-{len(panels)}", _share("Share of samples answered"),
                Axis(0, min(1.0, top), "Errors among the answered", percent=True), size,
            )  # fmt: skip
            for i, name in reversed(list(enumerate(offered))):
                if name in curves:
                    chart.series(i, name, chart.curve(*curves[name][:2]), slot=slot_of(i))
            what = f"outliers of {outlier} count as errors" if outlier else "wrong answers on inliers"
            half = [f"{name} {percent(_at(curves[name], 0.8))}" for name in offered[:6] if name in curves]
            about = f"Risk over coverage, lowest scores first; {what}. Errors at 80 % answered: {', '.join(half)}."
            title = view.headed(model, outlier or "The model's own errors")
            panels.append(chart.panel(title, about, model=model, regime=view.regime(model, outlier)))
    return panels


def reliability_panels(view: View) -> list[Panel]:
    """Accuracy over confidence, with intervals, of every model."""
    panels: list[Panel] = []
    for model in view.models:
        curve = view.curve("reliability", model, "", "model")
        if curve is None or not np.isfinite(curve[1]).any():
            continue
        chart = Chart(f"reliability-{len(panels)}", _share("Confidence"), _share("Accuracy"), SIZE)
        chart.rule(0, 0, 1, 1)
        texts = []
        for x, y, lower, upper in zip(*curve, strict=True):
            if np.isfinite([x, y]).all():
                bounded = np.isfinite([lower, upper]).all()
                texts.append(f"confidence {percent(x)}, accuracy {percent(y)}"
                            + (f" [{percent(lower)}, {percent(upper)}]" if bounded else ""))  # fmt: skip
                if bounded:
                    chart.rule(x, lower, x, upper, cls="err slot-1")
                chart.dot(x, y, texts[-1], cls="dot slot-1")
        facts = view.facts(next(unit for unit in view.units if unit[0] == model))
        ece = "" if facts is None or facts.ece is None else f", ECE {percent(facts.ece.value)}"
        title = view.headed(model, f"Reliability{ece}")
        panels.append(chart.panel(title, f"Reliability diagram: {'; '.join(texts)}.", model=model))
    return panels


def _at(curve: tuple[Floats, Floats, Floats, Floats], x: float) -> float:
    return float(np.interp(x, curve[0], curve[1]))


def _share(label: str) -> Axis:
    return Axis(0, 1, label, percent=True)
