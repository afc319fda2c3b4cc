"""Who is tied with whom, drawn: a clique map over the regimes and critical-difference diagrams."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from caveat.report.chart import Axis, Chart
from caveat.report.study_verdicts import ERRORS, Verdict, metric_of
from caveat.report.svg import Panel
from caveat.report.words import count, listing, shorten
from caveat.stats.cliques import stack_bars

__all__ = ["clique_panel", "critical_difference_panel"]

MOST_METHODS = 16  # in a critical-difference diagram
MOST_ROWS = 40  # in a clique map


def clique_panel(verdicts: Sequence[Verdict], *, key: str, order: Sequence[str]) -> Panel:
    """Rows are methods, columns are regimes; connected dots are the best of a regime and all that tie with it.

    Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", figure 1. Methods in
    no top group have no row, and a regime that tells nobody apart has no dots. Rows that are in the top group of at
    least half the columns are shaded.
    """
    told = [found for found in verdicts if found.tells]
    member = {name for found in told for name in found.top}
    rows = [*(name for name in order if name in member), *sorted(member - set(order))][:MOST_ROWS]
    place = {name: len(rows) - 0.5 - i for i, name in enumerate(rows)}
    left = 14 + 6.3 * min(34, max((len(name) for name in rows), default=6))
    several = len({found.source for found in verdicts}) > 1
    step = 84 if several else 76
    chart = Chart(
        key, Axis(0, len(verdicts), ticks=()), Axis(0, max(1, len(rows)), ticks=()),
        size=(left + step * len(verdicts) + 10, 22 * max(1, len(rows)) + (52 if several else 38)),
        margins=(46 if several else 32, 10, 6, left),
    )  # fmt: skip
    for name, y in place.items():
        times = sum(name in found.top for found in told)
        (_, y1), (x2, y2) = chart.at(0, y + 0.5), chart.at(len(verdicts), y - 0.5)
        if 2 * times >= len(told) > 1:
            chart.add(f'<rect class="shade" x="4" y="{y1:.1f}" width="{x2 - 4:.1f}" height="{y2 - y1:.1f}"/>')
        chart.rule(0, y, len(verdicts), y, cls="grid")
        chart.text(left - 10, (y1 + y2) / 2 + 4, shorten(name, 34), anchor="end")
    said = []
    for i, found in enumerate(verdicts):
        x = i + 0.5
        attrs = f'class="column" data-source="{html.escape(found.source)}" data-regime="{_filterable(found.regime)}"'
        chart.add(f"<g {attrs}>")
        px, top = chart.at(x, chart.y.high)
        chart.text(px, top - 18, found.regime, anchor="middle", cls="strong")
        below = count(len(found.blocks), "block") if found.tells else "all are tied"
        chart.text(px, top - 5, below, anchor="middle", cls="small")
        if several:
            chart.text(px, top - 33, shorten(found.source or "all sources", 13), anchor="middle", cls="small")
        here = [name for name in rows if name in found.top] if found.tells else []
        if here:
            chart.rule(x, place[here[0]], x, place[here[-1]], cls="tie")
        for name in rows:
            tip, cls, radius = _tip(found, name), "dot slot-1", 5.0
            if name not in here:
                cls, radius = "dot faint", 2.2
            elif found.by == "bands":
                cls = "dot hollow slot-1"
            chart.dot(x, place[name], tip, cls=cls, radius=radius)
        chart.add("</g>")
        who = f"{found.source}, {found.regime}" if found.source else found.regime
        said.append(f"{who}: {listing(list(found.top), most=8)}" if here else f"{who}: none can be told apart")
    title = f"Top groups by {metric_of(verdicts[0].metric).name}"
    if len(member) > len(rows):
        title += f", {len(rows)} of {len(member)} methods"
    return chart.panel(title, f"Clique map. Top group of each regime: {'; '.join(said)}.")


def critical_difference_panel(found: Verdict, *, key: str) -> Panel | None:
    """Average ranks on a line, best on the left, and a bar over each group that cannot be told apart.

    Demsar, JMLR 7, 2006, figure 1, with the bars of a clique analysis. Of many methods the leading ones are drawn.
    """
    comparison = found.comparison
    if comparison is None:
        return None
    names = list(comparison.methods[:MOST_METHODS])
    ranks = comparison.average_ranks
    groups = [[name for name in clique if name in names] for clique in comparison.cliques]
    bars = sorted({(ranks[g[0]], ranks[g[-1]]) for g in groups if len(g) > 1})
    bars = [bar for bar in bars if not any(o != bar and o[0] <= bar[0] and bar[1] <= o[1] for o in bars)]
    levels = stack_bars(bars)
    depth = 14 + 9 * (max(levels) + 1 if levels else 0)
    left = names[: math.ceil(len(names) / 2)]
    right = names[: len(left) - 1 : -1]  # the worst on top: its line is the outermost
    low, high = math.floor(ranks[names[0]]), math.ceil(ranks[names[-1]])
    low, high = (low, high) if high > low else (low - 1, high + 1)
    height = 34 + depth + 20 * len(left) + 8
    step = max(1, round((high - low) / 10))
    room = 70 + 6.2 * min(28, max(len(name) for name in names))  # for names and ranks on either side
    chart = Chart(
        key, Axis(low, high, ticks=()), Axis(0, 1, ticks=()), size=(320 + 2 * room, height),
        margins=(34, room, height - 34, room),
    )  # fmt: skip
    line = chart.at(low, 0)[1]
    chart.rule(low, 0, high, 0, cls="frame")
    for tick in range(low, high + 1, step):
        x = chart.at(tick, 0)[0]
        chart.add(f'<path class="frame" d="M{x:.1f} {line - 5:.1f}V{line:.1f}"/>')
        chart.text(x, line - 9, str(tick), anchor="middle")
    chart.text(chart.at(low, 0)[0] - 8, line + 4, "best", anchor="end", cls="small")
    chart.text(chart.at(high, 0)[0] + 8, line + 4, "worst", cls="small")
    for (start, stop), row in zip(bars, levels, strict=True):
        y, members = line + 11 + 9 * row, [n for n in names if start <= ranks[n] <= stop]
        tip = html.escape(f"cannot be told apart: {listing(members, most=20)}")
        x1, x2 = chart.at(start, 0)[0] - 3, chart.at(stop, 0)[0] + 3
        chart.add(f'<path class="tie" d="M{x1:.1f} {y:.1f}H{x2:.1f}" data-tip="{tip}"><title>{tip}</title></path>')
    for side, edge, anchor in ((left, room - 8, "end"), (right, room + 328, "start")):
        for i, name in enumerate(side):
            x, y = chart.at(ranks[name], 0)[0], line + depth + 8 + 20 * i
            chart.add(f'<path class="rule" d="M{x:.1f} {line:.1f}V{y:.1f}H{edge:g}"/>')
            chart.dot(ranks[name], 0, f"{name}: average rank {ranks[name]:.2f}", cls="dot slot-1", radius=3.5)
            text = (
                f"{shorten(name, 28)}  {ranks[name]:.2f}"
                if anchor == "end"
                else f"{ranks[name]:.2f}  {shorten(name, 28)}"
            )
            chart.text(edge + (-6 if anchor == "end" else 6), y + 4, text, anchor=anchor)
    rest = len(comparison.methods) - len(names)
    where = "all outlier sets" if found.regime == "all" else found.regime
    title = f"{where[0].upper() + where[1:]}: {metric_of(found.metric).name}, {count(len(found.blocks), 'block')}"
    if rest:
        title += f", the {len(names)} leading of {len(comparison.methods)} methods"
    said = "; ".join(f"{name} {ranks[name]:.2f}" for name in names)
    return chart.panel(title, f"Critical-difference diagram. Average ranks: {said}.")


def _tip(found: Verdict, name: str) -> str:
    where = f"{found.source}, {found.regime}" if found.source else found.regime
    rank = "" if found.comparison is None or name not in found.comparison.average_ranks else (
        f", average rank {found.comparison.average_ranks[name]:.2f}"
    )  # fmt: skip
    if name not in found.order:
        return f"{where}: {name} was not compared"
    if not found.tells:
        return f"{where}: {name}{rank}, tied with all"
    group = "in the top group" if name in found.top else "not in the top group"
    return f"{where}: {name}{rank}, {group}"


def _filterable(regime: str) -> str:
    return "" if regime in ("all", ERRORS) else regime
