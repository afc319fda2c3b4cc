"""Rankings drawn: forest plot, shares caught, clique map and critical-difference diagram."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np

from caveat.evaluation.decide import Caught
from caveat.report.chart import Axis, Chart, Panel
from caveat.report.verdicts import ERRORS, METRICS, Verdict, letters_of
from caveat.report.view import Place, View, regime_place
from caveat.report.words import count, interval, listing, number, share, shorten
from caveat.results import Estimate
from caveat.stats.cliques import stack_bars

__all__ = ["caught_panel", "clique_panel", "critical_difference_panel", "forest_panel", "rows_of"]

WIDTH = 480
SHOWN = 10  # methods of a forest plot
MOST_SETS = 12  # outlier sets, those caught least
MOST_METHODS = 16  # in a critical-difference diagram
MOST_ROWS = 40  # in a clique map
Row = tuple[str, Estimate, Estimate | None]  # method, thick interval, thin interval


def rows_of(view: View, verdict: Verdict) -> list[Row]:
    """Every method from the best with its value, its interval and its guaranteed one (over blocks: their range)."""
    rows: list[Row] = []
    for name in verdict.order:
        if verdict.regime == ERRORS:
            places = [Place(model, seed, "") for model, seed in view.units]
            thick, thin = view.mean(places, name, "auroc_of_errors"), None
        elif verdict.paired:
            thick, thin = view.mean_auroc(verdict.places, name), view.guaranteed(verdict.places, name)
        else:
            values = [n.value for p in verdict.places if (n := view.number(p, name, "auroc")) is not None]
            low, high = np.quantile(values, [0.25, 0.75])
            middle = float(np.mean(values))
            thick = Estimate(middle, float(low), float(high), 0.5, len(values), "middle half of the blocks")
            thin = Estimate(middle, min(values), max(values), 1.0, len(values), "range of the blocks")
        if thick is not None:
            rows.append((name, thick, thin))
    return rows


def forest_panel(view: View, verdict: Verdict, *, key: str = "forest", chosen: str = "") -> Panel | None:
    """The ten best methods: thick and thin interval, dot, letters; the group tied with the best is set off."""
    rows = rows_of(view, verdict)[:SHOWN]
    if not rows:
        return None
    ends = [end for _, thick, thin in rows for e in (thick, thin) if e is not None for end in (e.lower, e.upper)]
    low, high = min(ends), max(ends)
    room = max(0.02 * (high - low), 1e-3)
    low, high = max(0.0, low - room), min(1.0, high + room)
    letters = letters_of(verdict.comparison)
    names = [shorten(name, 24) for name, *_ in rows]
    left = 16 + 7.0 * max(map(len, names))
    chart = Chart(
        key, Axis(low, high), Axis(0, len(rows), ticks=()), size=(WIDTH, 20 * len(rows) + 26),
        margins=(2, 44, 24, left),
    )  # fmt: skip
    described = []
    for i, ((name, thick, thin), label) in enumerate(zip(rows, names, strict=True)):
        y, best = len(rows) - 0.5 - i, name in verdict.top
        look = "best" if best else "rest"
        (_, py), right = chart.at(low, y), WIDTH - 36
        chart.text(left - 10, py + 4, label, anchor="end", cls=f"name{' strong' if name == chosen else ''}")
        chart.rule(thick.lower, y, thick.upper, y, cls=f"thick {look}")
        if thin is not None:  # on top, with end marks: it may lie within the thick one
            chart.rule(thin.lower, y, thin.upper, y, cls="thin")
            for end in (thin.lower, thin.upper):
                chart.rule(end, y - 0.26, end, y + 0.26, cls="thin")
        tip = f"{name}: {number(thick.value)} {interval(thick)}"
        if thin is not None:
            tip += f", {'guaranteed' if verdict.paired else 'range'} {interval(thin)}"
        chart.dot(thick.value, y, f"{tip}, group {letters[name]}", cls=f"dot mark {look}", radius=4.5)
        chart.text(right, py + 4, letters[name], cls="small")
        described.append(f"{tip} ({letters[name]})")
    what = "AUROC of errors" if verdict.regime == ERRORS else "mean AUROC"
    return chart.panel(f"The {len(rows)} best by {what}", f"Forest plot, {what}: {'; '.join(described)}.")


def caught_panel(caught: Sequence[Caught], *, key: str = "caught") -> Panel:
    """Share of each outlier set at or above the threshold, with its interval; confirmed sets have a ring."""
    least = sorted(caught, key=lambda c: c.share.value)[:MOST_SETS]
    order = sorted(least, key=lambda c: (c.confirmed, regime_place(c.regime), c.outlier))
    row = max(20.0, min(32.0, 190 / len(order)))
    names = [shorten(c.outlier.removeprefix(f"{c.regime}: "), 22) for c in order]
    with_regime = any(c.regime for c in order)
    left = (38 if with_regime else 8) + 7.0 * max(map(len, names)) + 8
    chart = Chart(
        key, Axis(0, 1, ticks=()), Axis(0, len(order), ticks=()), size=(WIDTH, row * len(order) + 6),
        margins=(2, 134, 4, left),
    )  # fmt: skip
    for i, (c, label) in enumerate(zip(order, names, strict=True)):
        y = len(order) - 0.5 - i
        py, right = chart.at(0, y)[1] + 4, WIDTH - 126
        if with_regime:
            chart.text(0, py, c.regime, cls="small")
        chart.text(left - 8, py, label, anchor="end", cls="name")
        tip = f"{c.outlier}: {share(c.share)}, n = {c.share.n}{', confirmed' if c.confirmed else ''}"
        chart.bar(0, y - 0.29, 1, y + 0.29, cls="track")
        chart.bar(0, y - 0.29, c.share.value, y + 0.29, cls="caught confirmed" if c.confirmed else "caught", tip=tip)
        chart.rule(c.share.lower, y, c.share.upper, y, cls="err")
        chart.text(right, py, f"{share(c.share)}{' ✓' if c.confirmed else ''}", cls="value")
    described = "; ".join(f"{c.outlier} {share(c.share)}{' (confirmed)' if c.confirmed else ''}" for c in order)
    return chart.panel("What it rejects", f"Share of each outlier set that is rejected: {described}.")


def clique_panel(verdicts: Sequence[Verdict], *, key: str, order: Sequence[str], of: str = "") -> Panel:
    """Rows are methods, columns are regimes; connected dots are the best of a regime and the methods tied with it.

    Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", figure 1. Methods in
    no top group have no row. Rows in the top group of at least half the columns are shaded; hollow dots are paired
    tests within one model. ``of`` stands in the title: what all columns share.
    """
    telling = [v for v in verdicts if v.tells]
    member = {name for v in telling for name in v.top}
    rows = [*(name for name in order if name in member), *sorted(member - set(order))][:MOST_ROWS]
    place = {name: len(rows) - 0.5 - i for i, name in enumerate(rows)}
    left = 14 + 6.3 * min(34, max((len(name) for name in rows), default=6))
    several = len({v.model for v in verdicts}) > 1
    lines = max((v.model.count("/") + 1 for v in verdicts), default=1)  # of a group: its set, then its backbone
    head = 32 + (14 * lines if several else 0)
    chart = Chart(
        key, Axis(0, len(verdicts), ticks=()), Axis(0, max(1, len(rows)), ticks=()),
        size=(left + 80 * len(verdicts) + 10, 22 * max(1, len(rows)) + head + 6), margins=(head, 10, 6, left),
    )  # fmt: skip
    for name, y in place.items():
        if 2 * sum(name in v.top for v in telling) >= len(telling) > 1:
            chart.bar(0, y - 0.5, len(verdicts), y + 0.5, cls="shade")
        chart.rule(0, y, len(verdicts), y, cls="grid")
        chart.text(left - 10, chart.at(0, y)[1] + 4, shorten(name, 34), anchor="end")
    described = []
    for i, v in enumerate(verdicts):
        regime = "" if v.regime in ("all", ERRORS) else v.regime
        chart.add(f'<g class="column" data-model="{html.escape(v.model)}" data-regime="{html.escape(regime)}">')
        x = i + 0.5
        px, top = chart.at(x, chart.y.high)
        chart.text(px, top - 18, v.regime, anchor="middle", cls="strong")
        chart.text(px, top - 5, v.blocks() if v.tells else "all are tied", anchor="middle", cls="small")
        if several:
            for line, text in enumerate(reversed((v.model or "all models").split("/"))):
                chart.text(px, top - 33 - 14 * line, shorten(text, 13), anchor="middle", cls="small")
        here = [name for name in rows if name in v.top] if v.tells else []
        if here:
            chart.rule(x, place[here[0]], x, place[here[-1]], cls="tie")
        where = f"{v.model}, {v.regime}" if v.model else v.regime
        for name in rows:
            cls, radius = ("dot hollow slot-1" if v.paired else "dot slot-1", 5.0) if name in here else ("faint", 2.2)
            group = "in" if name in v.top else "not in" if name in v.order else "not measured for"
            chart.dot(x, place[name], f"{where}: {name}, {group} the top group", cls=cls, radius=radius)
        chart.add("</g>")
        described.append(f"{where}: {listing(list(v.top), most=8) if here else 'all are tied'}")
    title = f"{of}{', top' if of else 'Top'} groups by {METRICS[verdicts[0].metric].name}"
    if len(member) > len(rows):
        title += f", {len(rows)} of {len(member)} methods"
    return chart.panel(title, f"Clique map. Top group of each regime: {'; '.join(described)}.")


def critical_difference_panel(verdict: Verdict, *, key: str) -> Panel:
    """Average ranks on a line, best on the left, and a bar over each group of tied methods.

    Demsar, JMLR 7, 2006, figure 1, with the bars of a clique analysis. Of many methods the leading ones are drawn.
    """
    comparison = verdict.comparison
    names, ranks = list(comparison.methods[:MOST_METHODS]), comparison.average_ranks
    groups = [[name for name in clique if name in names] for clique in comparison.cliques]
    bars = sorted({(ranks[g[0]], ranks[g[-1]]) for g in groups if len(g) > 1})
    bars = [bar for bar in bars if not any(o != bar and o[0] <= bar[0] and bar[1] <= o[1] for o in bars)]
    levels = stack_bars(bars)
    depth = 14 + 9 * (max(levels) + 1 if levels else 0)
    left = names[: math.ceil(len(names) / 2)]
    right = names[: len(left) - 1 : -1]  # the worst on top: its line is the outermost
    low, high = math.floor(ranks[names[0]]), math.ceil(ranks[names[-1]])
    low, high = (low, high) if high > low else (low - 1, high + 1)
    height, step = 42 + depth + 20 * len(left), max(1, round((high - low) / 10))
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
        tip = html.escape(f"tied: {listing(members, most=20)}")
        x1, x2 = chart.at(start, 0)[0] - 3, chart.at(stop, 0)[0] + 3
        chart.add(f'<path class="tie" d="M{x1:.1f} {y:.1f}H{x2:.1f}" data-tip="{tip}"><title>{tip}</title></path>')
    for side, edge, anchor in ((left, room - 8, "end"), (right, room + 328, "start")):
        for i, name in enumerate(side):
            x, y = chart.at(ranks[name], 0)[0], line + depth + 8 + 20 * i
            chart.add(f'<path class="rule" d="M{x:.1f} {line:.1f}V{y:.1f}H{edge:g}"/>')
            chart.dot(ranks[name], 0, f"{name}: average rank {ranks[name]:.2f}", cls="dot slot-1", radius=3.5)
            parts = [shorten(name, 28), f"{ranks[name]:.2f}"]
            text = "  ".join(parts if anchor == "end" else parts[::-1])
            chart.text(edge + (-6 if anchor == "end" else 6), y + 4, text, anchor=anchor)
    where = "all outlier sets" if verdict.regime == "all" else verdict.regime
    title = f"{where[0].upper() + where[1:]}: {METRICS[verdict.metric].name}, {count(len(verdict.places), 'block')}"
    if len(names) < len(comparison.methods):
        title += f", the {len(names)} leading of {len(comparison.methods)} methods"
    described = "; ".join(f"{name} {ranks[name]:.2f}" for name in names)
    regime = "" if verdict.regime in ("all", ERRORS) else verdict.regime
    return chart.panel(title, f"Critical-difference diagram. Average ranks: {described}.", regime=regime)
