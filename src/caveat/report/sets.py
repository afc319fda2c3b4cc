"""Prediction sets: how large they are, and how size and coverage follow difficulty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caveat.evaluation.records import SetFacts
from caveat.report.chart import SLOTS, Axis, Chart, Panel
from caveat.report.view import View
from caveat.report.words import percent, plain

__all__ = ["difficulty_panels", "set_names", "size_panels"]

SIZE = (340, 240)


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
            groups = {"inliers": next(iter(groups.values())), "outliers": _pooled(outside)}
        last = max(int(np.flatnonzero(shares > 0).max(initial=1)) for shares in groups.values())
        top = max(float(shares.max()) for shares in groups.values())
        step = max(1, last // 8)
        chart = Chart(
            f"sizes-{len(panels)}",
            Axis(-0.6, last + 0.6, "Classes in the set", ticks=[(float(i), str(i)) for i in range(0, last + 1, step)]),
            Axis(0, min(1.0, 1.1 * top), "Share of samples", percent=True), SIZE,
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
                Axis(low, 1.0 if share else 1.1 * float(np.nanmax(values)) or 1.0, label, percent=share), SIZE,
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


def _pooled(sets: Sequence[SetFacts]) -> np.ndarray:
    return np.asarray(np.average([s.sizes for s in sets], axis=0, weights=[s.n for s in sets]))
