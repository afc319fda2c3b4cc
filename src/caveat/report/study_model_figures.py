"""The pictures about the models of a study: prediction sets, neural collapse, certificates."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from caveat.report.chart import Axis, Chart
from caveat.report.study_facts import Row, StudyFacts
from caveat.report.study_figures import MOST_LINES, Floats, Placed, headed
from caveat.report.study_model_tables import certified_model
from caveat.report.words import number, percent, plain, shorten

__all__ = ["certificate_panels", "collapse_panels", "difficulty_panels", "size_panels", "upper_bound_panels"]


def difficulty_panels(facts: StudyFacts) -> list[Placed]:
    """Set size and coverage by difficulty, one line per kind of set."""
    wanted = {"size_by_difficulty": "Mean set size", "coverage_by_difficulty": "Coverage"}
    found: list[Placed] = []
    for source, metric, rows in _curve_rows(facts, wanted):
        share = metric.startswith("coverage")
        values = [row.estimate.value for row in rows if np.isfinite(row.estimate.value)]
        bins = sorted({row.x for row in rows})
        if not values or len(bins) < 2:
            continue
        low = min(1 - facts.alpha - 0.02, *values) if share else 0.0
        ticks = [(x, f"{x:g}") for x in bins[:: max(1, len(bins) // 8)]]
        ticks[0] = (ticks[0][0], "hardest")
        chart = Chart(
            f"difficulty-{len(found)}", Axis(bins[0] - 0.25, bins[-1] + 0.25, "Bins from hard to easy", ticks=ticks),
            Axis(low, 1.0 if share else 1.1 * max(values) or 1.0, wanted[metric], percent=share),
        )  # fmt: skip
        if share:
            chart.rule(chart.x.low, 1 - facts.alpha, chart.x.high, 1 - facts.alpha, cls="promise")
        said = []
        for i, name in enumerate(dict.fromkeys(row.name for row in rows)):
            mine = sorted((row.x, row.estimate.value) for row in rows if row.name == name)
            x, y = (np.asarray(column) for column in zip(*mine, strict=True))
            chart.series(i, name, chart.curve(x, y), slot=i % MOST_LINES + 1)
            write = percent if share else plain
            for a, b in mine:
                chart.dot(a, b, f"{name}, bin {a:g}: {write(b)}", cls=f"dot slot-{i % MOST_LINES + 1}", radius=3)
            said.append(f"{name}: {', '.join(write(b) for b in y.tolist())}")
        about = f"{wanted[metric]} by difficulty, hardest first. {'; '.join(said)}."
        found.append(Placed(chart.panel(headed(facts, source, wanted[metric]), about), source))
    return found


def size_panels(facts: StudyFacts) -> list[Placed]:
    """How large the sets of inliers are."""
    found: list[Placed] = []
    for source, _, given in _curve_rows(facts, {"size_hist": "Share of samples"}):
        rows = [row for row in given if not row.outlier]
        if not rows:
            continue
        top = max(row.estimate.value for row in rows)
        last = max((row.x for row in rows if row.estimate.value > 0), default=1.0)
        names = list(dict.fromkeys(row.name for row in rows))
        ticks = [(float(x), f"{x:g}") for x in np.arange(0, last + 1, max(1, last // 8))]
        chart = Chart(
            f"sizes-{len(found)}",
            Axis(-0.6, last + 0.6, "Classes in the set", ticks=ticks),
            Axis(0, min(1.0, 1.1 * top) or 1.0, "Share of inliers", percent=True),
        )  # fmt: skip
        width = 0.8 / len(names)
        said = []
        for i, name in enumerate(names):
            for row in rows:
                if row.name == name and row.estimate.value > 0 and row.x <= last:
                    left = row.x - 0.4 + i * width
                    (x1, y1), (x2, y2) = chart.at(left, 0), chart.at(left + width, row.estimate.value)
                    tip = f"{name}: {percent(row.estimate.value)} of the sets hold {row.x:g}"
                    chart.add(_rect(x1, y2, x2 - x1, y1 - y2, tip, f"bar slot-{i % MOST_LINES + 1}", i, name))
            shares = ", ".join(
                f"{r.x:g}: {percent(r.estimate.value)}" for r in rows if r.name == name and r.estimate.value > 0
            )
            said.append(f"{name}: {shares}")
        about = f"Sizes of the prediction sets of inliers. {'; '.join(said)}."
        found.append(Placed(chart.panel(headed(facts, source, "Set size"), about), source))
    return found


def collapse_panels(facts: StudyFacts) -> list[Placed]:
    """One strip per quantity of neural collapse: a dot per network and projection."""
    rows = list(facts.of_kind("collapse"))
    found: list[Placed] = []
    sources = list(dict.fromkeys(row.source for row in rows))
    names = list(dict.fromkeys((row.source, row.projection) for row in rows))
    for metric in dict.fromkeys(row.metric for row in rows):
        mine = [row for row in rows if row.metric == metric and np.isfinite(row.estimate.value)]
        if not mine:
            continue
        top = max(row.estimate.value for row in mine)
        chart = Chart(
            f"collapse-{len(found)}", Axis(0, 1.08 * top or 1.0, "0 is full collapse"),
            Axis(0, len(names), ticks=[(len(names) - 0.5 - i, _network(n, sources)) for i, n in enumerate(names)]),
            size=(340, 24 * len(names) + 54), margins=(6, 18, 42, 120),
        )  # fmt: skip
        for row in mine:
            y = len(names) - 0.5 - names.index((row.source, row.projection))
            tip = f"{row.source}, {row.projection}: {plain(row.estimate.value)}"
            chart.dot(row.estimate.value, y, tip, cls=f"dot slot-{sources.index(row.source) % MOST_LINES + 1}")
        said = "; ".join(f"{row.source}, {row.projection} {plain(row.estimate.value)}" for row in mine)
        title = metric.replace("_", " ")
        found.append(Placed(chart.panel(title[0].upper() + title[1:], f"{title} of the training features: {said}.")))
    return found


def certificate_panels(facts: StudyFacts) -> list[Placed]:
    """GAUC, AAUC and AUC of every model, one picture per outlier set."""
    rows = [row for row in facts.of_kind("certificate") if row.metric in ("auc", "aauc", "gauc") and row.outlier]
    models = list(dict.fromkeys((row.source, row.name) for row in rows))
    labels = [certified_model(facts, *model) for model in models]
    found: list[Placed] = []
    for outlier in dict.fromkeys(row.outlier for row in rows):
        chart = Chart(
            f"certificate-{len(found)}", Axis(0, 1, "AUC"),
            Axis(0, len(models), ticks=[(len(models) - 0.5 - i, shorten(label, 16)) for i, label in enumerate(labels)]),
            size=(340, 26 * len(models) + 54), margins=(6, 18, 42, 110),
        )  # fmt: skip
        said = []
        for i, ((source, radius), label) in enumerate(zip(models, labels, strict=True)):
            y = len(models) - 0.5 - i
            value: dict[str, float] = {}
            for metric in ("auc", "aauc", "gauc"):
                key = (source, radius, outlier, metric)
                mine = [r.estimate.value for r in rows if (r.source, r.name, r.outlier, r.metric) == key]
                if mine:
                    value[metric] = float(np.mean(mine))
            if not value:
                continue
            chart.rule(min(value.values()), y, max(value.values()), y, cls="span")
            for slot, (metric, where) in enumerate(value.items(), start=1):
                chart.dot(where, y, f"{label}: {metric.upper()} {number(where)}", cls=f"dot slot-{slot} {metric}")
            said.append(f"{label} " + ", ".join(f"{m.upper()} {number(v)}" for m, v in value.items()))
        found.append(Placed(chart.panel(outlier, f"Certificates against {outlier}. {'; '.join(said)}.")))
    return found


def upper_bound_panels(facts: StudyFacts) -> list[Placed]:
    """Certified upper bounds of the confidence on outliers, before the confidence on inliers."""
    rows = list(facts.of_kind("confidence"))
    first = min((row.seed for row in rows), default=0)
    samples: dict[tuple[str, str, str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row.seed == first:
            key = (row.source, row.name, row.metric, row.outlier)
            samples.setdefault(key, []).append((row.x, row.estimate.value))
    found: list[Placed] = []
    for (source, radius, metric, outlier), pairs in samples.items():
        if metric != "upper_bound" or len(pairs) < 2:
            continue
        edges, shares = _histogram(pairs)
        inside = _histogram(samples.get((source, radius, "inlier", ""), []))
        top = max(float(shares.max()), float(inside[1].max(initial=0)))
        chart = Chart(
            f"bound-{len(found)}", Axis(float(edges[0]), float(edges[-1]), "Confidence"),
            Axis(0, 1.08 * top or 1.0, "Share of samples", percent=True), size=(340, 180),
        )  # fmt: skip
        if inside[1].size:
            steps = np.repeat(inside[0], 2)[1:-1]
            behind = chart.area(steps, np.zeros(steps.size), np.repeat(inside[1], 2))
            chart.fine(behind, cls="ghost")
        steps = np.repeat(edges, 2)[1:-1]
        chart.series(0, "outliers, upper bound", chart.curve(steps, np.repeat(shares, 2)), slot=2)
        middle = float((shares * (edges[:-1] + edges[1:]) / 2).sum() / max(shares.sum(), 1e-12))
        label = certified_model(facts, source, radius)
        about = f"Histogram of certified upper bounds of the confidence of {label} on {outlier}; mean {number(middle)}."
        found.append(Placed(chart.panel(f"{label}: {outlier}", about)))
    return found


def _histogram(pairs: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Edges and shares; the last pair is the right edge and has no share."""
    ordered = np.asarray(sorted(pairs, key=lambda pair: pair[0]), dtype=np.float64).reshape(-1, 2)
    return ordered[:, 0], ordered[:-1, 1]


def _rect(x: float, y: float, width: float, height: float, tip: str, cls: str, series: int, name: str) -> str:
    said = html.escape(tip)
    return (
        f'<rect class="{cls}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" data-tip="{said}" '
        f'data-series="{series}" data-name="{html.escape(name)}"><title>{said}</title></rect>'
    )


def _curve_rows(facts: StudyFacts, wanted: Mapping[str, str]) -> list[tuple[str, str, list[Row]]]:
    """Rows with an x by source and quantity, of the first seed."""
    rows = [row for row in facts.of_kind("sets", "adaptivity") if row.metric in wanted and np.isfinite(row.x)]
    found = []
    for source, metric in dict.fromkeys((row.source, row.metric) for row in rows):
        mine = [row for row in rows if (row.source, row.metric) == (source, metric)]
        seed = min(row.seed for row in mine)
        found.append((source, metric, [row for row in mine if row.seed == seed]))
    return found


def _network(name: tuple[str, str], sources: Sequence[str]) -> str:
    source, projection = name
    return shorten(f"{source}, {projection}" if len(sources) > 1 else projection, 18)
