"""The page of ``caveat guard check``: what a stream showed about a guard's promises, by the engine of all reports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from caveat._internal.checks import as_kind
from caveat.evaluation.findings import versions
from caveat.guard.replay import DELTA, SMALL, STREAMS, Measured, Replay
from caveat.report.chart import Axis, Chart, Panel, nice_ticks
from caveat.report.first_screen import Card, DecisionBox, Line3
from caveat.report.skeleton import Section, fill_page
from caveat.report.tables import Cell, Column, Table, count_cell, latex_page, make_table, markdown_page, number_cell
from caveat.report.words import bound, count, level, listing, percent, plain, share

__all__ = ["measured_text", "render_check"]

SIZE = (560, 236)
TOP = 10.0  # log10; evidence beyond it says no more
_NOT_PROMISED = (
    "Nothing is promised about outliers. An alarm says that something changed, not what; without one, a change may "
    "still be too small to see."
)
_NAMES = {
    "false alarms": "Called outliers",
    "errors among the accepted": "Errors among the accepted",
    "coverage": "Sets that hold the true class",
}


def render_check(replay: Replay) -> tuple[str, str, str]:
    """The page, and its tables in Markdown and LaTeX. The same replay gives the same bytes."""
    as_kind(replay, Replay, "findings", what="Findings or a Replay")
    tables = {name: table for name, table in _tables(replay).items() if table is not None}
    page = fill_page(
        title=replay.title,
        subtitle=_subtitle(replay),
        cards=_cards(replay, tables["evidence"]),
        sections=[
            Section("measured", "Promised and measured", tables=(tables["measured"],), open=True),
            Section("evidence", "Drift", "Evidence is the capital of a bet against a quiet stream; the alarm stays on.",
                    tables=(tables["evidence"],), open=True),
            Section("numbers", "All numbers", tables=tuple(tables[key] for key in ("verdicts", "bars", "live")
                                                             if key in tables)),
            Section("guard", "The guard", tables=(tables["settings"], tables["splits"])),
        ],
        notes=_notes(replay),
        repeat=_repeat(replay),
    )  # fmt: skip
    return page, markdown_page(replay.title, list(tables.values())), latex_page(replay.title, list(tables.values()))


def measured_text(measured: Measured) -> str:
    """One line: what was measured, and whether chance allows that."""
    words = {"above": "more than chance allows", "below": "less than chance allows", "": "not judged"}
    word = words.get(measured.verdict, measured.verdict)
    return f"{_NAMES[measured.what]}: {share(measured.share)}, {word}"


def _bound(measured: Measured) -> str:
    promise = measured.promise
    if promise is None or not promise.holds:
        return "" if promise is None else promise.remedy.rstrip(".")
    side = "at least" if measured.what == "coverage" else "at most"
    whose = " of inliers" if measured.what == "false alarms" else ""
    sure = "on average" if promise.confidence is None else f"{level(promise.confidence)} confidence"
    return f"promised {side} {bound(promise.bound)}{whose}, {sure}, {count(promise.n, 'calibration row')}"


# -- first screen -----------------------------------------------------------------------------------------------------


def _subtitle(replay: Replay) -> list[str]:
    parts = [count(replay.n, "row")]
    parts += [f"after {replay.before:,} earlier ones"] if replay.before else []
    shares = [f"{kind} {percent(n / replay.n)}" for kind, n in replay.counts.items()]
    guard = replay.guard
    names = " + ".join(score.name for score in guard.scores_)
    return [*parts, ", ".join(shares), f"guard {names}, calibrated {guard.calibrated_at_}, "
            f"{guard.fingerprint[:12]}", f"caveat {versions()['caveat']}"]  # fmt: skip


def _cards(replay: Replay, table: Table) -> list[list[Card]]:
    left = [Card("decision", "Verdict", box=_box(replay))]
    sure = level(replay.histogram.level)
    if (live := _live_panel(replay)) is not None:
        risk = None if replay.live is None else replay.live.risk
        promised = "" if risk is None else f" Dashed: the promise, at most {level(risk)}."
        caption = f"Band: where the rate lies with {level(1 - DELTA)} confidence at all times at once.{promised}"
        left.append(Card("live", "Errors among the accepted", caption, live))
    outside = int(replay.histogram.outside.sum())
    band = f"Dashed: what chance allows all {replay.histogram.counts.size} bars, with {sure} confidence"
    shared = (
        f"The alarms share alpha = {replay.alpha:g}: a stream like the calibration rows ever reaches the line with at "
        "most this probability."
    )
    evidence = Card("evidence", "Evidence for drift", shared, _evidence_panel(replay))
    bars = Card("histogram", "P-values of the score", f"{band}; {outside or 'none'} outside.", _histogram_panel(replay))
    if live is None:  # an even screen without labels: the numbers take the place of a figure
        return [[*left, bars], [evidence, Card("drift", "Drift in numbers", table.caption,
                                                 table=replace(table, key="first-evidence"))]]  # fmt: skip
    return [left, [evidence, bars]]


def _box(replay: Replay) -> DecisionBox:
    lines = [_drift_line(replay)]
    for measured in replay.measured:
        basis = [_bound(measured)]
        if measured.what == "coverage" and replay.mean_set_size is not None:
            basis.append(f"mean size {replay.mean_set_size:.2f}")
        lines.append(Line3(measured.mark, f"{measured_text(measured)}.", " · ".join(part for part in basis if part)))
    counts = ", ".join(f"{n:,} {kind}" for kind, n in replay.counts.items())
    return DecisionBox("", "", f"{count(replay.n, 'row')}: {counts}.", tuple(lines), _NOT_PROMISED,
                       replay.sentence(), {"✓": "in order", "!": "look here", "–": "not judged"})  # fmt: skip


def _drift_line(replay: Replay) -> Line3:
    rung = [name for name in replay.evidence if name in replay.alarmed]
    streams = listing([STREAMS[name] for name in replay.evidence])
    highest = "; ".join(f"{STREAMS[name]} {plain(round(e.highest, 2))}" for name, e in replay.evidence.items())
    line = next(iter(replay.evidence.values())).line
    text = f"Drift: {listing([replay.when(name) for name in rung])}." if rung else f"No drift seen in {streams}."
    return Line3("!" if rung else "✓", text, f"highest evidence, log10: {highest}; alarm at {line:.2f}")


def _evidence_panel(replay: Replay) -> Panel:
    rows = next(iter(replay.evidence.values())).rows
    line = next(iter(replay.evidence.values())).line
    values = np.concatenate([e.log10_e for e in replay.evidence.values()])
    top = min(TOP, max(1.3 * line, 1.06 * float(values.max())))
    low = min(-1.0, 1.06 * float(values.min()))
    x = _count_axis(int(rows[0]), int(rows[-1]), "Row")
    chart = Chart("evidence", x, Axis(low, top, "Evidence, log10"), SIZE, (24, 22, 42, 56))
    chart.rule(x.low, line, x.high, line, cls="cut")
    texts, place = [], 58.0
    for i, (name, e) in enumerate(replay.evidence.items()):
        drawn = np.clip(e.log10_e, low, top + 1)
        chart.series(i, STREAMS[name], chart.curve(e.rows.astype(float), drawn), slot=i + 1)
        place = _key(chart, place, STREAMS[name], f"line slot-{i + 1}")
        rang = "" if e.alarmed_at is None else f", rang at row {e.alarmed_at:,}"
        texts.append(f"{STREAMS[name]}: now {e.now:.2f}, highest {e.highest:.2f}{rang}")
        if e.alarmed_at is not None and e.alarmed_at > replay.before:
            chart.dot(e.alarmed_at, line, f"{STREAMS[name]}: alarm at row {e.alarmed_at:,}", cls=f"dot slot-{i + 1}")
    _key(chart, place, f"alarm at {line:.2f}", "cut")
    return chart.panel("Evidence for drift", f"Evidence for drift over rows, log10; the alarm line is at {line:.2f}. "
                       f"{'; '.join(texts)}.")  # fmt: skip


def _histogram_panel(replay: Replay) -> Panel:
    bars = replay.histogram
    highest = float(max(bars.counts.max(), bars.most.max()))
    chart = Chart("p-values", Axis(0, 1, "P-value (small: unlike the calibration rows)"),
                  Axis(0, 1.06 * highest, "Rows", ticks=[(t, f"{t:,.0f}") for t in nice_ticks(0, 1.06 * highest, 5)
                                                         if t == int(t)]), SIZE)  # fmt: skip
    texts = []
    for i, n in enumerate(bars.counts.tolist()):
        outside = bool(bars.outside[i])
        text = (f"p {bars.edges[i]:.2g} to {bars.edges[i + 1]:.2g}: {n:,}, chance allows {bars.least[i]:,} to "
                f"{bars.most[i]:,}")  # fmt: skip
        gap = 0.08 * (bars.edges[i + 1] - bars.edges[i])
        cls = "bar slot-2" if outside else "bar slot-1"
        chart.bar(bars.edges[i] + gap, 0, bars.edges[i + 1] - gap, n, cls=cls, tip=text)
        texts.append(text)
    edges = np.repeat(bars.edges, 2)[1:-1]
    for ends in (bars.least, bars.most):
        chart.fine(chart.curve(edges, np.repeat(ends, 2).astype(float)), cls="slot-6")
    return chart.panel("P-values of the score", f"Histogram of p-values. {'; '.join(texts)}.")


def _live_panel(replay: Replay) -> Panel | None:
    live = replay.live
    if live is None:
        return None
    steady = live.answers >= min(20, int(live.answers[-1]))  # the first answers would set the scale
    top = max(float(live.upper[steady].max()), 1.3 * (live.risk or 0.0), 0.01)
    x = _count_axis(int(live.answers[0]), int(live.answers[-1]), "Accepted rows with a label")
    chart = Chart("live", x, Axis(0, min(1.0, 1.05 * top), "Error rate", percent=True), SIZE, (10, 22, 42, 56))
    answers = live.answers.astype(float)
    content = chart.area(answers, np.minimum(live.lower, top), np.minimum(live.upper, 1.05 * top))
    chart.series(0, "measured", content + chart.curve(answers, live.error), slot=1)
    if live.risk is not None:
        chart.rule(x.low, live.risk, x.high, live.risk, cls="cut")
    rang = "" if replay.risk_alarmed_at is None else f" The alarm rang at answer {replay.risk_alarmed_at:,}."
    error, lower, upper = (percent(float(values[-1])) for values in (live.error, live.lower, live.upper))
    about = (
        f"Error among the accepted after {count(int(live.answers[-1]), 'answer')}: {error}, {lower} to {upper}.{rang}"
    )
    return chart.panel("Errors among the accepted", about)


def _count_axis(first: int, last: int, label: str) -> Axis:
    low, high = float(first - 1 if first == 1 else first), float(max(last, first + 1))
    ticks = [(t, f"{t:,.0f}") for t in nice_ticks(low, high) if t == int(t)]
    return Axis(low, high, label, ticks=ticks)


def _key(chart: Chart, x: float, text: str, cls: str) -> float:
    """A line of the legend above the axes; returns where the next one starts."""
    chart.add(f'<path class="{cls}" d="M{x:g} 10h26"/>')
    chart.text(x + 31, 14, text)
    return x + 43 + 7.4 * len(text)


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(replay: Replay) -> dict[str, Table | None]:
    guard, bars, live = replay.guard, replay.histogram, replay.live
    measured = [(_NAMES[m.what], number_cell(m.share, "percent"), m.verdict or "not judged",
                 "" if m.promise is None else str(m.promise)) for m in replay.measured]  # fmt: skip
    evidence = [
        (STREAMS[name], "quiet" if e.alarmed_at is None else f"row {e.alarmed_at:,}",
         Cell(f"{e.now:.2f}".replace("-", "−"), e.now), Cell(f"{e.highest:.2f}".replace("-", "−"), e.highest),
         Cell(f"{e.line:.2f}", e.line), number_cell(e.share_small, "percent"))
        for name, e in replay.evidence.items()
    ]  # fmt: skip
    verdicts = [(kind, count_cell(n), number_cell(n / replay.n, "percent")) for kind, n in replay.counts.items()]
    counted = [(f"{bars.edges[i]:.3g} to {bars.edges[i + 1]:.3g}", *(count_cell(int(column[i])) for column in (
                bars.counts, bars.least, bars.most)), "outside" if bars.outside[i] else "")
               for i in range(bars.counts.size)]  # fmt: skip
    settings = [(name, listing(value) if isinstance(value, list) else "none" if value is None else str(value))
                for name, value in guard.settings().items()]  # fmt: skip
    settings += [("threshold", f"{guard.threshold_:.6g}".replace("-", "−"))]
    settings += [] if guard.accept_below_ is None else [("accept below", f"{guard.accept_below_:.6g}")]
    splits = [(role, count_cell(marks["n"]), name, digest) for role, marks in guard.splits_.items()
              for name, digest in marks["sha256"].items()]  # fmt: skip
    steps = [] if live is None else np.unique(np.linspace(0, live.answers.size - 1, 20).astype(int)).tolist()
    errors = [] if live is None else [
        (f"{live.answers[i]:,}", *(number_cell(float(c[i]), "percent") for c in (live.error, live.lower, live.upper)))
        for i in steps
    ]  # fmt: skip
    return {
        "measured": make_table("measured", "Promised and measured", "",
                               ("What", Column("Measured"), "Verdict", "Promise"), measured),
        "evidence": make_table("evidence", "Drift", _EFFECT,
                               ("Stream", "Alarm", *map(Column, ("Evidence now", "Highest", "Alarm line", "Small p"))),
                               evidence),
        "verdicts": make_table("verdicts", "Verdicts", "", ("Verdict", Column("Rows"), Column("Share")), verdicts),
        "bars": make_table("bars", "P-values of the score", "",
                           ("P-value", *map(Column, ("Rows", "Chance allows from", "to")), ""), counted),
        "live": make_table("live-errors", "Errors among the accepted", "",
                           ("Answers", *map(Column, ("Error", "From", "To"))), errors),
        "settings": make_table("settings", "Settings and thresholds", f"Fingerprint {guard.fingerprint}.",
                               ("Setting", "Value"), settings),
        "splits": make_table("fingerprints", "Rows that trained and calibrated it", "SHA-256 of each array.",
                             ("Role", Column("Rows"), "Array", "SHA-256"), splits),
    }  # fmt: skip


# -- words ------------------------------------------------------------------------------------------------------------


_EFFECT = (
    f"log10. Small p: share of these rows with p ≤ {SMALL:g} against the calibration rows, about {level(SMALL)} if "
    "nothing changed: the size of the effect."
)
_NOTES = {
    "Drift alarm": (
        "Each row is ranked among the calibration rows and all earlier rows of the stream. On a quiet stream these "
        "ranks are uniform and independent, and no bet against that grows on average: the evidence of any of the "
        "alarms ever reaches its line with probability {alpha:g} at most. Drift changes no verdict."
    ),
    "P-values": (
        "Ranks of the score among the calibration scores alone, equal scores in random order. Counts are beta-binomial "
        "for rows like the calibration rows; the band allows for the chance in both samples, Bonferroni over the bars. "
        "A high bar on the left: rows unlike the calibration rows; on the right: rows too much alike."
    ),
    "Called outliers": (
        "The promise is about inliers. More outlier verdicts than it allows mean outliers among the rows, or drift. A "
        "rate is above chance if so many hits, at the promised rate itself, have a probability of {side} or less."
    ),
    "Coverage": (
        "Counted on all rows. Given the calibration and these rows, the number covered is beta-binomial; the verdict "
        "says whether it lies in the central {sure} region."
    ),
    "Errors among the accepted": (
        "Counted on accepted rows with a label, earlier files included. The band is a confidence sequence: it holds "
        "at all times at once if the rate does not change."
    ),
    "Alarm on errors": (
        "Has an alpha of its own ({alpha:g}): it rings when the labels show that more than the promised share is wrong."
    ),
}


def _notes(replay: Replay) -> list[tuple[str, str]]:
    live = replay.live
    absent = {
        "Coverage": not any(m.what == "coverage" for m in replay.measured),
        "Errors among the accepted": live is None,
        "Alarm on errors": live is None or live.risk is None,
    }
    texts = {"alpha": replay.alpha, "side": level(DELTA / 2), "sure": level(1 - DELTA)}
    return [(name, text.format(**texts)) for name, text in _NOTES.items() if not absent.get(name)]


def _repeat(replay: Replay) -> list[str]:
    made = ", ".join(f"{name} {version}" for name, version in sorted(versions().items()) if version)
    return [
        f"Guard {replay.guard.fingerprint}, alpha = {replay.alpha:g}.",
        f"Software: {made}.",
        "Run: caveat guard check on the same guard, file and state. Random numbers depend on guard and row alone.",
    ]
