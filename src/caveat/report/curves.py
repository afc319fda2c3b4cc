"""ROC and risk-coverage curves, reliability diagrams, sizes of prediction sets and how they follow difficulty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from caveat.report.chart import SLOTS, Axis, Chart, Panel, slot_of
from caveat.report.view import View
from caveat.report.words import number, percent, plain

__all__ = [
    "difficulty_panels",
    "drawn_first",
    "reliability_panels",
    "risk_panels",
    "roc_panels",
    "set_names",
    "size_panels",
]

Floats = NDArray[np.float64]
SIZE = (340, 260)
SET_SIZE = (340, 240)


def drawn_first(order: Sequence[str], used: Sequence[str]) -> tuple[str, ...]:
    """An order of methods in which those of the decision are among the first six, which are drawn.

    >>> drawn_first(["a", "b", "c", "d", "e", "f", "g", "h"], ["b", "h"])
    ('a', 'b', 'c', 'd', 'e', 'h', 'f', 'g')
    """
    missing = [name for name in dict.fromkeys(used) if name not in order[:SLOTS]]
    first = [name for name in order[:SLOTS] if name in used or name in order[: SLOTS - len(missing)]]
    while len(first) + len(missing) > SLOTS:
        first.remove([name for name in first if name not in used][-1])
    return (*first, *missing, *(name for name in order if name not in {*first, *missing}))


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
            half = [
                f"{name} {percent(float(np.interp(0.8, *curves[name][:2])))}" for name in offered[:6] if name in curves
            ]
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


def set_names(view: View) -> list[str]:
    """Methods of prediction sets."""
    return list(dict.fromkeys(s.set_method for model in view.models for s in view.sets(model)))


def size_panels(view: View) -> list[Panel]:
    """How large the sets of inliers are; with one set method, those of all outliers too."""
    panels: list[Panel] = []
    for model in view.models:
        sets = view.sets(model)
        groups = {s.set_method: s.sizes for s in sets if not s.block.outlier}
        if not groups:
            continue
        outside = [s for s in sets if s.block.outlier]
        if len(groups) == 1 and outside:
            groups = {"inliers": next(iter(groups.values())), "outliers": np.average([s.sizes for s in outside], axis=0,
                                                             weights=[s.n for s in outside])}  # fmt: skip
        last = max(int(np.flatnonzero(shares > 0).max(initial=1)) for shares in groups.values())
        top = max(float(shares.max()) for shares in groups.values())
        step = max(1, last // 8)
        chart = Chart(
            f"sizes-{len(panels)}",
            Axis(-0.6, last + 0.6, "Classes in the set", ticks=[(float(i), str(i)) for i in range(0, last + 1, step)]),
            Axis(0, min(1.0, 1.1 * top), "Share of samples", percent=True), SET_SIZE,
        )  # fmt: skip
        width, texts = 0.8 / len(groups), []
        for i, (name, shares) in enumerate(groups.items()):
            for size, value in enumerate(shares[: last + 1].tolist()):
                if value > 0:
                    start, tip = size - 0.4 + i * width, f"{name}: {percent(value)} of the sets hold {size}"
                    chart.bar(start, 0, start + width, value, cls=f"bar slot-{i % SLOTS + 1}", tip=tip)
                    texts.append(f"{name} {size}: {percent(value)}")
        title = view.headed(model, f"Set size{': inliers and outliers' if 'outliers' in groups else ''}")
        panels.append(chart.panel(title, f"Sizes of the prediction sets. {'; '.join(texts)}.", model=model))
    return panels


def difficulty_panels(view: View) -> list[Panel]:
    """Mean set size and coverage from the hardest to the easiest tenth, one line per set method."""
    panels: list[Panel] = []
    for model in view.models:
        for kind, label in (("size_by_difficulty", "Mean set size"), ("coverage_by_difficulty", "Coverage")):
            curves = {
                name: curve for name in set_names(view) if (curve := view.curve(kind, model, "", name)) is not None
            }
            values = np.concatenate([curve[1] for curve in curves.values()]) if curves else np.array([])
            if np.isfinite(values).sum() < 2:
                continue
            share, bins = kind.startswith("coverage"), max(curve[0].size for curve in curves.values())
            low = min(1 - view.alpha - 0.02, float(np.nanmin(values))) if share else 0.0
            ticks = [(0.0, "hardest"), (bins - 1.0, "easiest")]
            chart = Chart(
                f"difficulty-{len(panels)}", Axis(-0.25, bins - 0.75, "Tenths of the inliers", ticks=ticks),
                Axis(low, 1.0 if share else 1.1 * float(np.nanmax(values)) or 1.0, label, percent=share), SET_SIZE,
            )  # fmt: skip
            if share:
                chart.rule(chart.x.low, 1 - view.alpha, chart.x.high, 1 - view.alpha, cls="promise")
            texts, write = [], percent if share else plain
            for i, (name, (x, y, *_)) in enumerate(curves.items()):
                slot = i % SLOTS + 1
                chart.series(i, name, chart.curve(x, y), slot=slot)
                for a, b in zip(x.tolist(), y.tolist(), strict=True):
                    if np.isfinite(b):
                        chart.dot(a, b, f"{name}, bin {a + 1:g}: {write(b)}", cls=f"dot slot-{slot}", radius=3)
                texts.append(f"{name}: {', '.join(write(b) for b in y.tolist())}")
            about = f"{label} by difficulty, hardest first. {'; '.join(texts)}."
            panels.append(chart.panel(view.headed(model, f"{label} by difficulty"), about, model=model))
    return panels


def _share(label: str) -> Axis:
    return Axis(0, 1, label, percent=True)
