"""Certificates on one page: the sandwich GAUC ≤ AAUC ≤ AUC, histograms of confidence and its bounds, means by class.

Histograms as in Tables 5 to 7 and means by class as in Figure 4 of the appendix of Bitterwolf, Meinke and Hein,
"Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from caveat._files import replacing_file
from caveat.errors import InputError
from caveat.report.chart import Axis, Chart
from caveat.report.page import render_page
from caveat.report.svg import Panel
from caveat.report.tables import Cell, Column, Group, Line, Table, markdown_page
from caveat.report.words import interval, listing, number, percent
from caveat.study.certification import Certification, SetCertificate

__all__ = ["certificate_markdown", "certificate_table", "render_certificates", "write_certificates"]

_COLUMNS = ("Model", "Accuracy", "AUC", "AAUC", "GAUC", "GAUC band", "Mean confidence", "Mean bound", "Zero gradients")


def write_certificates(
    found: Sequence[Certification], path: str | os.PathLike[str], *, title: str = "Certificates"
) -> None:
    """Write the page to ``path``, whole or not at all."""
    page = render_certificates(found, title=title)
    with replacing_file(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


def render_certificates(found: Sequence[Certification], *, title: str = "Certificates") -> str:
    """One self-contained page about the certificates of one or several models at one radius.

    Examples
    --------
    >>> from caveat.study.certification import SetCertificate
    >>> noise = SetCertificate("noise", clean=np.log([0.2]), upper=np.log([0.3]))
    >>> page = render_certificates([Certification("net", 0.3, 10, np.log([0.9, 0.8]), 1.0, (noise,))])
    >>> "Certified to tell apart (GAUC of 0.9 or more): noise." in page
    True
    """
    if not found:
        raise InputError("found must hold at least one certification, got none.")
    if len(radii := sorted({one.epsilon for one in found})) > 1:
        raise InputError(
            f"all certifications of a page must be of one radius, got {listing([f'{r:g}' for r in radii])}."
        )
    histograms = [panel for i, one in enumerate(found) for panel in _histograms(one, i)]
    return render_page(
        "certificates.html.j2",
        styles=("report.css", "study.css"),
        scripts=("tables.js",),
        title=title,
        epsilon=radii[0],
        sentences=[_sentence(one) for one in found],
        table=certificate_table(found),
        histograms=histograms,
        classes=_class_panels(found),
        caveats=list(dict.fromkeys(s.caveat for one in found for s in one.sets if s.caveat)),
        delta=found[0].delta,
    )


def certificate_table(found: Sequence[Certification]) -> Table:
    """The sandwich, grouped by set of outliers."""
    groups = []
    for name in dict.fromkeys(s.name for one in found for s in one.sets):
        lines = [_line(one, s) for one in found for s in one.sets if s.name == name]
        groups.append(Group(name, tuple(lines)))
    fewer = any(s.attacked_rows is not None for one in found for s in one.sets)
    samples = "AAUC is of the attacked part of the samples alone." if fewer else "All on the same samples."
    caption = (
        f"Radius {found[0].epsilon:g} in every pixel. AUC: outliers as they are. AAUC: attacked within the radius; "
        "a better attack may do better. GAUC: certified, no attack within the radius can do better. "
        f"{samples} The band holds for further inliers with probability {1 - found[0].delta:g}."
    )
    columns = tuple(Column(name, number=name != "Model") for name in _COLUMNS)
    return Table("certificates", "Certificates", caption, columns, tuple(groups))


def certificate_markdown(found: Sequence[Certification], *, title: str = "Certificates") -> str:
    """The same table as Markdown."""
    return markdown_page(title, [certificate_table(found)])


def _line(one: Certification, s: SetCertificate) -> Line:
    band = one.band(s)
    shown = [(percent, one.accuracy), (number, one.auc(s)), (number, one.aauc(s)), (number, one.gauc(s))]
    cells = [_cell(style(value), value) if not math.isnan(value) else Cell("–") for style, value in shown]
    cells.append(Cell(interval(band), band.lower))
    rest = [(percent, np.exp(s.clean).mean()), (percent, np.exp(s.upper).mean()), (percent, s.zero_gradients)]
    cells += [_cell(style(float(value)), float(value)) if not math.isnan(value) else Cell("–") for style, value in rest]
    return Line((Cell(one.source), *cells))


def _cell(text: str, value: float) -> Cell:
    return Cell(text, value)


def _sentence(one: Certification) -> str:
    """What can be promised, in words."""
    weak = [s.name for s in one.sets if one.gauc(s) < 0.5]
    strong = [s.name for s in one.sets if one.gauc(s) >= 0.9]
    said = [f"{one.source}: accuracy {percent(one.accuracy)}." if not math.isnan(one.accuracy) else f"{one.source}."]
    if strong:
        said.append(f"Certified to tell apart (GAUC of 0.9 or more): {listing(strong)}.")
    if weak:
        said.append(f"No useful promise (GAUC below 0.5): {listing(weak)}.")
    return " ".join(said)


def _histograms(one: Certification, number_of: int) -> list[Panel]:
    """Confidence on inliers, and upper bounds on each set, each with its mean."""
    shown = [("inliers", one.inlier, "Confidence", 1), *((s.name, s.upper, "Upper bound", 3) for s in one.sets)]
    found = []
    for i, (name, values, label, slot) in enumerate(shown):
        edges, shares = one.histogram(values)
        mean = float(np.exp(values).mean())
        chart = Chart(
            f"hist-{number_of}-{i}", Axis(float(edges[0]), 1.0, f"{label} of the confidence" if slot == 3 else label),
            Axis(0, 1.08 * float(shares.max()), "Share", percent=True), size=(340, 190),
        )  # fmt: skip
        steps = np.repeat(edges, 2)[1:-1]
        heights = np.repeat(shares, 2)
        content = chart.area(steps, np.zeros(steps.size), heights) + chart.curve(steps, heights)
        chart.series(i, name, content, slot=slot)
        chart.rule(mean, 0, mean, float(shares.max()), cls="promise")
        about = f"{label} of {one.source} on {name}: histogram of {values.size} samples, mean {number(mean)}."
        found.append(chart.panel(f"{one.source}: {name}", about))
    return found


def _class_panels(found: Sequence[Certification]) -> list[Panel]:
    """Mean confidence (dot) and mean upper bound (ring) on each class of a set."""
    panels: list[Panel] = []
    for one in found:
        for s in one.sets:
            by = s.by_class()
            if not 2 <= len(by) <= 40:
                continue
            chart = Chart(
                f"classes-{len(panels)}",
                Axis(-0.5, len(by) - 0.5, "Class", ticks=[(i, c[:6]) for i, c in enumerate(by)]),
                Axis(0, 1, "Confidence"), size=(max(340, 22 * len(by) + 80), 220),
            )  # fmt: skip
            for i, (name, (mean, bound)) in enumerate(by.items()):
                chart.rule(i, mean, i, bound, cls="span")
                chart.dot(i, bound, f"{name}: mean upper bound {number(bound)}", cls="dot slot-3 aauc")
                chart.dot(i, mean, f"{name}: mean confidence {number(mean)}", cls="dot slot-1")
            highest = max(by, key=lambda name: by[name][0])
            about = (
                f"Mean confidence of {one.source} on each class of {s.name}; "
                f"the highest is {number(by[highest][0])} on {highest}."
            )
            panels.append(chart.panel(f"{one.source}: {s.name}", about))
    return panels
