"""Certificates: AUC, AAUC and GAUC of every model, histograms of the bounds, means by class.

Histograms as in Tables 5 to 7 and means by class as in Figure 4 of the appendix of Bitterwolf, Meinke and Hein,
"Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from caveat.evaluation.records import Certificate
from caveat.report.chart import Axis, Chart, Panel
from caveat.report.histograms import steps
from caveat.report.tables import Cell, Column, Group, Table, count_cell, make_table, number_cell
from caveat.report.view import View, mean_of
from caveat.report.words import count, interval, level, listing, number, percent, shorten

__all__ = [
    "bound_panels",
    "certificate_panels",
    "certificate_table",
    "class_panels",
    "rounding",
    "sandwich",
    "strength",
]

Key = tuple[str, str, float]  # model, method, radius
STRONG, WEAK = 0.9, 0.5  # GAUC from which a set counts as told apart, and below which nothing useful is promised
AREAS = ("auc", "aauc", "gauc")
SHARES = ("mean_confidence", "mean_bound", "zero_gradients")


def _models(view: View) -> dict[Key, list[Certificate]]:
    models: dict[Key, list[Certificate]] = {}
    for c in view.findings.of(Certificate):
        models.setdefault((c.block.model, c.method, c.epsilon), []).append(c)
    return models


def _label(view: View, key: Key) -> str:
    model, method, epsilon = key
    keys = list(_models(view))
    parts = [model, *([method] if len({k[1] for k in keys}) > 1 else []),
             *([f"radius {epsilon:g}"] if len({k[2] for k in keys}) > 1 else [])]  # fmt: skip
    return ", ".join(parts)


def sandwich(view: View) -> tuple[bool, str]:
    """Whether GAUC <= AAUC <= AUC holds wherever two of them were measured, and the sentence that says so."""
    certificates = view.findings.of(Certificate)
    broken = []
    for c in certificates:
        same = c.n_attacked == c.n  # areas on different samples may stand in any order
        held = [v for v in (c.gauc, c.aauc if same else math.nan, c.auc) if not math.isnan(v)]
        if any(low > high + 1e-9 for low, high in pairwise(held)):
            broken.append(f"{c.block.model} on {c.block.outlier}")
    if broken:
        return False, (f"GAUC ≤ AAUC ≤ AUC is violated: {listing(broken)}. Either they were not measured on the same "
                       "samples, or a bound is wrong. Do not rely on these certificates.")  # fmt: skip
    return True, f"GAUC ≤ AAUC ≤ AUC holds in all {count(len(certificates), 'comparison')}, as it must."


def strength(view: View) -> list[str]:
    """What each model can promise, in words."""
    sentences = []
    for key, certificates in _models(view).items():
        strong = list(dict.fromkeys(c.block.outlier for c in certificates if c.gauc >= STRONG))
        weak = list(dict.fromkeys(c.block.outlier for c in certificates if c.gauc < WEAK))
        right = certificates[0].accuracy
        parts = [f"{_label(view, key)}{'' if math.isnan(right) else f': accuracy {percent(right)}'}."]
        parts += [f"Certified to tell apart (GAUC of {STRONG:g} or more): {listing(strong)}."] if strong else []
        parts += [f"No useful promise (GAUC below {WEAK:g}): {listing(weak)}."] if weak else []
        sentences.append(" ".join(parts))
    return sentences


def rounding(certificates: Iterable[Certificate]) -> list[str]:
    """What arithmetic the certificates hold in, and what rounding costs them there, in sentences."""
    sentences = []
    by_kind: dict[str, list[Certificate]] = {}
    for c in certificates:
        by_kind.setdefault(c.arithmetic, []).append(c)
    for name, some in by_kind.items():
        lost = sum(c.uncertified for c in some)
        if name == "real":
            sentences.append(
                "Certificates are of the network in real numbers, as in the papers: the rounding of a "
                "deployed model is not in them."
            )
        elif name:
            who = "of nn.in_float64(model): deploy that network" if name == "float64" else (
                f"of the model as it is deployed, in {name}"
            )  # fmt: skip
            sentences.append(f"Certificates are {who}.")
            if slack := [c.slack for c in some if not math.isnan(c.slack)]:
                sentences.append(f"Rounding takes {np.mean(slack):.1g} of the log-confidence on average.")
        if lost:
            whole = sum(c.n for c in some)
            sentences.append(
                f"{count(lost, 'outlier')} of {whole} have no certificate in {name}, since rounding "
                "exceeds its margin; they count as fully confident."
            )
    return sentences


def certificate_table(view: View) -> Table | None:
    """AUC, AAUC and GAUC of every model at every radius, by outlier set; means over seeds."""
    groups = []
    for key, certificates in _models(view).items():
        lines = []
        for outlier in dict.fromkeys(c.block.outlier for c in certificates):
            mine = [c for c in certificates if c.block.outlier == outlier]
            band = mean_of([c.gauc_guaranteed for c in mine])
            areas, shares = ([number_cell(mean_of([getattr(c, name) for c in mine]), style) for name in names]
                             for names, style in ((AREAS, "number"), (SHARES, "percent")))  # fmt: skip
            bounds = "not measured" if band is None else Cell(interval(band), band.lower)
            lines.append((outlier, *areas, bounds, *shares, count_cell(mine[0].n)))
        right = certificates[0].accuracy
        heading = _label(view, key) + ("" if math.isnan(right) else f", accuracy {percent(right)}")
        groups.append(Group(heading, lines, key[0]))
    if not groups:
        return None
    epsilons = sorted({c.epsilon for c in view.findings.of(Certificate)})
    caption = (
        f"Radius {listing([f'{e:g}' for e in epsilons])} in every pixel. AUC: outliers unchanged. AAUC: attacked; a "
        "better attack may lower it. GAUC: certified for every attack within the radius. The band also covers further "
        f"inliers, with {level(1 - view.delta)} confidence. {' '.join(rounding(view.findings.of(Certificate)))}"
    ).strip()
    names = ("AUC", "AAUC", "GAUC", "GAUC band", "Mean confidence", "Mean bound", "Zero gradients", "Samples")
    columns = ("Outlier set", *map(Column, names))
    caveats = tuple(dict.fromkeys(c.caveat for c in view.findings.of(Certificate) if c.caveat))
    notes = tuple(("abcdefghijklmnopqrstuvwxyz"[i % 26], caveat) for i, caveat in enumerate(caveats))
    return make_table("certificates", "Certificates", caption, columns, groups=groups, notes=notes)


def certificate_panels(view: View) -> list[Panel]:
    """GAUC, AAUC and AUC against every outlier set, one picture per model."""
    panels: list[Panel] = []
    for key, certificates in _models(view).items():
        sets = list(dict.fromkeys(c.block.outlier for c in certificates))
        areas = {}
        for outlier in sets:
            mine = [c for c in certificates if c.block.outlier == outlier]
            means = {name: mean_of([getattr(c, name) for c in mine]) for name in AREAS}
            areas[outlier] = {name: mean.value for name, mean in means.items() if mean is not None}
        least = min((v for values in areas.values() for v in values.values()), default=0.0)
        ticks = [(len(sets) - 0.5 - i, shorten(outlier, 22)) for i, outlier in enumerate(sets)]
        chart = Chart(
            f"certificate-{len(panels)}", Axis(0.0 if least < 0.5 else 0.5 if least < 0.9 else 0.9, 1, "AUC"),
            Axis(0, len(sets), ticks=ticks), size=(480, 26 * len(sets) + 50),
            margins=(6, 22, 40, 24 + 6.6 * max(len(text) for _, text in ticks)),
        )  # fmt: skip
        texts = []
        for (outlier, values), (y, _) in zip(areas.items(), ticks, strict=True):
            if values:
                chart.rule(min(values.values()), y, max(values.values()), y, cls="span")
            for slot, (name, value) in enumerate(values.items(), start=1):
                texts.append(f"{outlier}: {name.upper()} {number(value)}")
                chart.dot(value, y, texts[-1], cls=f"dot slot-{slot} {name}", radius=7.5 - 1.5 * slot)
        panels.append(chart.panel(_label(view, key), f"Certificates. {'; '.join(texts)}.", model=key[0]))
    return panels


def bound_panels(view: View) -> list[Panel]:
    """Histograms of the certified upper bounds of the confidence, before the confidence on the inliers (grey)."""
    panels: list[Panel] = []
    for key, certificates in _models(view).items():
        inside = view.histogram((key[0], certificates[0].block.seed), "confidence").get("")
        for c in certificates:
            if c.edges.size < 2 or c.block.seed != certificates[0].block.seed:
                continue
            top = max(float(c.shares.max()), 0.0 if inside is None else float(inside.shares.max())) or 1.0
            chart = Chart(
                f"bound-{len(panels)}", Axis(float(c.edges[0]), float(c.edges[-1]), "Upper bound of the confidence"),
                Axis(0, 1.08 * top, "Share", percent=True), size=(340, 190),
            )  # fmt: skip
            if inside is not None:
                x, heights = steps(inside.edges, inside.shares)
                chart.fine(chart.area(x, np.zeros(x.size), heights), cls="hist grey")
            x, heights = steps(c.edges, c.shares)
            content = chart.area(x, np.zeros(x.size), heights) + chart.curve(x, heights)
            chart.series(0, c.block.outlier, content, slot=1)
            chart.rule(c.mean_bound, 0, c.mean_bound, float(c.shares.max()), cls="promise")
            title = f"{_label(view, key)}: {c.block.outlier}"
            about = f"Certified upper bounds of the confidence, {title}: mean {number(c.mean_bound)}."
            panels.append(chart.panel(title, about, model=c.block.model))
    return panels


def class_panels(view: View) -> list[Panel]:
    """Mean confidence (dot) and mean upper bound (ring) on each class of an outlier set."""
    panels: list[Panel] = []
    for key, certificates in _models(view).items():
        for c in certificates:
            if c.class_confidence is None or c.class_bound is None or not 2 <= len(c.classes) <= 40:
                continue
            ticks = [(float(i), name[:6]) for i, name in enumerate(c.classes)]
            chart = Chart(
                f"classes-{len(panels)}", Axis(-0.5, len(c.classes) - 0.5, "Class", ticks=ticks),
                Axis(0, 1, "Confidence"), size=(max(340, 22 * len(c.classes) + 80), 220),
            )  # fmt: skip
            texts = []
            for i, (name, mean, bound) in enumerate(zip(c.classes, c.class_confidence, c.class_bound, strict=True)):
                chart.rule(i, mean, i, bound, cls="span")
                chart.dot(i, bound, f"{name}: mean upper bound {number(bound)}", cls="dot slot-3 aauc")
                chart.dot(i, mean, f"{name}: mean confidence {number(mean)}", cls="dot slot-1")
                texts.append(f"{name} {number(mean)}, bound {number(bound)}")
            about = f"Mean confidence on each class of {c.block.outlier}: {'; '.join(texts)}."
            panels.append(chart.panel(f"{_label(view, key)}: {c.block.outlier}", about, model=c.block.model))
    return panels
