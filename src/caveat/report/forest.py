"""Forest plot: the best methods with their intervals and the letters of their ties; bars of what is caught."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caveat.evaluation.decide import Caught
from caveat.report.chart import Axis, Chart, Panel
from caveat.report.verdicts import ERRORS, Verdict, letters_of
from caveat.report.view import Place, View, regime_place
from caveat.report.words import interval, number, share, shorten
from caveat.results import Estimate

__all__ = ["caught_panel", "forest_panel", "rows_of"]

WIDTH = 480
SHOWN = 10  # methods
MOST_SETS = 12  # outlier sets, those caught least
Row = tuple[str, Estimate, Estimate | None]  # method, thick interval, thin interval


def rows_of(view: View, verdict: Verdict) -> list[Row]:
    """Every method from the best with its value, its interval and the guaranteed one (over blocks: their range)."""
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
        if thin is not None:
            chart.rule(thin.lower, y, thin.upper, y, cls="thin")
        chart.rule(thick.lower, y, thick.upper, y, cls=f"thick {look}")
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
