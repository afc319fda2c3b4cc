"""The first screen: the decision and its promises, what is caught, the best scores, the score and its threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from caveat.evaluation.decide import Decision
from caveat.evaluation.judge import Judgment
from caveat.evaluation.records import Certificate, Note
from caveat.report.certificates import certificate_panels, certificate_table, sandwich, strength
from caveat.report.chart import SLOTS, Panel
from caveat.report.curves import drawn_first, risk_panels
from caveat.report.histograms import threshold_panel
from caveat.report.model_tables import decision_table
from caveat.report.ranks import MOST_SETS, SHOWN, caught_panel, forest_panel, rows_of
from caveat.report.tables import Table, make_table
from caveat.report.verdicts import ERRORS, Verdict, group_mark
from caveat.report.view import View
from caveat.report.words import bound, count, level, listing, percent, share

__all__ = ["Card", "DecisionBox", "Line3", "cards", "subtitle"]

_MARKS = {
    "✓": "promised; the test rows agree", "✗": "promised; contradicted by the test rows",
    "–": "promised; not judged", "!": "not promised",
}  # fmt: skip
REGIMES_MEAN = "Near, mid, far: how unlike the training data a set is, as it was labeled."
MOST_DECISIONS = 8  # rows on the first screen
Verdicts = dict[tuple[str, str, str], Verdict]


@final
@dataclass(frozen=True)
class Line3:
    """A promise in the box: its mark, its sentence, and what was measured."""

    mark: str  # ✓ ✗ – !
    text: str
    small: str

    @property
    def look(self) -> str:
        """The style of the mark."""
        return {"✓": "ok", "✗": "bad", "–": "open"}.get(self.mark, "warn")


@final
@dataclass(frozen=True)
class DecisionBox:
    """The decision as the box shows it; a ``headline`` stands in place of method and threshold."""

    method: str
    threshold: str
    reason: str
    promises: tuple[Line3, ...]
    not_promised: str
    headline: str = ""
    marks: Mapping[str, str] = field(default_factory=lambda: dict(_MARKS))  # what the marks before the promises mean


@final
@dataclass(frozen=True)
class Card:
    """One box of the first screen: a decision, a figure, a table or sentences."""

    key: str
    title: str
    caption: str = ""
    panel: Panel | None = None
    table: Table | None = None
    box: DecisionBox | None = None
    lines: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()  # the series of the figure in the order of their styles


def subtitle(view: View) -> list[str]:
    """What was measured on what, in one line."""
    parts = []
    facts = [f.accuracy for unit in view.units if (f := view.facts(unit)) is not None and f.accuracy is not None]
    tests = [d for unit in view.units for d in view.data(unit) if d.role == "inlier"]
    if len(facts) == 1:
        parts.append(f"Accuracy {share(facts[0])} on {count(facts[0].n, 'test sample')}")
    elif facts:
        low, high = (percent(f([e.value for e in facts])) for f in (min, max))
        parts.append(f"Accuracy {low} to {high}" if low != high else f"Accuracy {low}")
    elif len(tests) == 1:
        parts.append(count(tests[0].n, "test sample"))
    if not view.single:
        parts.append(f"{count(len(view.models), 'model')}, {count(len({seed for _, seed in view.units}), 'seed')}")
    sets = {outlier for _, outlier in view.regimes}
    if sets:
        n = sum(d.n for d in view.data(view.units[0]) if d.role == "outlier")
        parts.append(count(len(sets), "outlier set") + (f", {count(n, 'sample')}" if view.single and n else ""))
    if view.methods:
        parts.append(count(len(view.methods), "score"))
    elif certificates := view.findings.of(Certificate):
        parts.append(count(len({c.block.outlier for c in certificates}), "outlier set"))
        parts.append(f"radius {listing(sorted({f'{c.epsilon:g}' for c in certificates}))}")
    versions = {cell.versions["caveat"] for cell in view.findings.cells if cell.versions.get("caveat")}
    parts += [f"caveat {listing(sorted(versions))}"] if versions else []
    return parts


def cards(view: View, verdicts: Verdicts) -> list[list[Card]]:
    """The boxes of the first screen by column: of one model, of a study, or of certificates."""
    if not view.methods and view.findings.of(Certificate):
        return _certified(view)
    return _one_model(view, verdicts) if view.single else _study(view, verdicts)


def _one_model(view: View, verdicts: Verdicts) -> list[list[Card]]:
    unit = view.units[0]
    decision = view.decision(unit)
    box = None if decision is None else decision_box(decision, view.delta)
    lines = ["No threshold could be set: there are no calibration samples."] if box is None else []
    lines += [f"Note: {note.text}" for note in view.findings.of(Note)]
    left = [Card("decision", "Decision", box=box, lines=tuple(lines))]
    right: list[Card] = []
    best = verdicts.get(("auroc", "", "all")) or verdicts.get(("augrc", "", ERRORS))
    if best is not None and (panel := forest_panel(view, best, chosen=str(decision.method) if decision else "")):
        left.append(_forest_card(view, best, panel))
    if decision is not None and decision.caught:
        marked = " ✓: outliers that had no part in the choice." if any(c.confirmed for c in decision.caught) else ""
        least = f"The {MOST_SETS} sets that are caught least. " if len(decision.caught) > MOST_SETS else ""
        regimes = "" if not any(c.regime for c in decision.caught) else f" {REGIMES_MEAN}"
        caption = f"{least}Share at or above the threshold, {level(1 - view.delta)} Clopper-Pearson.{marked}{regimes}"
        right.append(Card("caught", "What it rejects", caption, caught_panel(decision.caught)))
    elif risks := risk_panels(view, shown := _drawn(best, decision), errors=True, key="first", size=(480, 230)):
        n = 0 if best is None else len(best.order)
        which = f", for {len(shown)} of the {n} scores: the best and those of the decision" if n > len(shown) else ""
        caption = f"Errors among the answers to the samples with the lowest scores{which}."
        right.append(Card("caught", "Risk and coverage", caption, risks[0], legend=shown))
    if (panel := threshold_panel(view, unit)) is not None:
        outliers = "; orange: all outlier sets" if view.outliers(unit[0]) else ""
        right.append(Card("threshold", "Score and threshold", f"Blue: in-distribution test samples{outliers}.", panel))
    return [left, right] if right else [left]


def _drawn(best: Verdict | None, decision: Decision | None) -> tuple[str, ...]:
    """The best scores, at most six, with those of the decision among them."""
    order = () if best is None else best.order
    used = [] if decision is None else [str(m) for m in (decision.method, decision.confidence) if m is not None]
    return drawn_first(order, used)[:SLOTS]


def _forest_card(view: View, verdict: Verdict, panel: Panel) -> Card:
    shown, n = min(SHOWN, len(verdict.order)), len(verdict.order)
    what = "AUROC of errors" if verdict.regime == ERRORS else "mean AUROC" if len(verdict.places) > 1 else "AUROC"
    if n == 1:
        title = f"One score, {what}"
    else:
        title = f"{shown} best of {n} scores, {what}" if n > shown else f"{n} scores, {what}"
    guaranteed = verdict.paired and any(thin is not None for _, _, thin in rows_of(view, verdict)[:SHOWN])
    thin = ""
    if guaranteed:
        thin = (f" Thin, between end marks: guaranteed with {level(1 - view.delta)} confidence at any n, but for these "
                "outliers alone, so it may be the shorter one.")  # fmt: skip
    mark = group_mark(verdict.comparison)
    shared = f"Scores that share a {mark}{' (2–4: 2, 3 and 4)' if mark == 'number' else ''} are tied"
    if verdict.paired:
        caption = (f"Thick: {level(1 - view.delta)} interval (DeLong).{thin} {shared} "
                   "(paired DeLong test on the same samples, Holm).")  # fmt: skip
    else:
        caption = (f"Thick: middle half of the blocks. Thin, between end marks: their range. {shared} "
                   f"({verdict.comparison.test_name()} on ranks).")  # fmt: skip
    return Card("forest", title, caption, panel)


def decision_box(decision: Decision, delta: float) -> DecisionBox:
    """The decision in words: rule, reason, promises with what was measured, and what is not promised."""
    d = decision
    judged = dict(zip((promise.what for promise in d.promises), d.judgments, strict=True))
    promises = [_line(
        judged["false alarms"], f"At most {level(d.false_alarms.bound)} of in-distribution inputs are rejected.",
        f"No false-alarm rate of {level(d.false_alarms.bound)} can be promised.",
        d.false_alarms.remedy or f"{level(1 - delta)} confidence, {count(d.false_alarms.n, 'calibration sample')}",
        f"measured {share(d.measured_false_alarms)} on test",
    )]  # fmt: skip
    if d.errors is not None:
        empty = " or no class fits" if d.coverage is not None else ""
        rule = f"abstain when {d.confidence} ≥ {_threshold(d.accept_below)}{empty}" if d.errors.holds else (
            "abstains always, so nothing is accepted")  # fmt: skip
        basis = d.errors.remedy or f"{level(1 - delta)} confidence, {count(d.errors.n, 'sample')}"
        accepted = "" if d.accepted is None else f", {percent(d.accepted.value)} accepted"
        measured = "" if d.measured_errors is None else f"measured {share(d.measured_errors)}{accepted}"
        if d.ungated_errors is not None:
            measured = f"{share(d.ungated_errors)} of the answers would be wrong without this gate"
        promises.append(_line(
            judged[d.errors.what], f"At most {level(d.errors.bound)} of the accepted answers are wrong.",
            f"Errors among the accepted: nothing can be promised at {level(d.errors.bound)}.",
            rule, basis, measured,
        ))  # fmt: skip
    if d.coverage is not None and d.sets is not None:
        empty = f", {percent(d.sets.empty)} empty" if d.sets.empty > 0 else ""
        promises.append(_line(
            judged[d.coverage.what],
            f"Prediction sets hold the true class in at least {bound(d.coverage.bound)} of cases; "
            f"mean size {d.sets.mean_size:.2f}.",
            "Nothing can be promised about the prediction sets.",
            d.coverage.remedy or f"on average over calibration sets, {count(d.coverage.n, 'sample')}",
            f"measured {share(d.sets.coverage)}, {d.sets.verdict}{empty}",
        ))  # fmt: skip
    headline = d.rule if math.isinf(d.threshold) else ""
    return DecisionBox(str(d.method), _threshold(d.threshold), d.reason, tuple(promises), " ".join(d.warnings),
                       headline)  # fmt: skip


def _line(judgment: Judgment, promised: str, otherwise: str, *small: str) -> Line3:
    text = otherwise if judgment.outcome == "not promised" else promised
    details = [*small, judgment.reason]
    return Line3(judgment.mark, text, " · ".join(part.rstrip(".") for part in details if part))


def _threshold(value: float) -> str:
    return f"{value:.5g}".replace("-", "−")


def _study(view: View, verdicts: Verdicts) -> list[list[Card]]:
    columns: list[list[Card]] = []
    if (table := decision_table(view)) is not None:
        lines = table.groups[0].lines
        short = make_table("first-decisions", table.title, table.caption, table.columns, lines[:MOST_DECISIONS])
        more = len(lines) - MOST_DECISIONS
        note = "Nothing is promised about outliers. Each score was chosen on these same outliers: confirm it on others."
        rest = f" {count(more, 'more decision')} under All numbers." if more > 0 else ""
        columns.append([Card("decisions", "Decision of every model", f"{table.caption} {note}{rest}", table=short)])
    best = verdicts.get(("auroc", "", "all")) or verdicts.get(("augrc", "", ERRORS))
    if best is not None and (panel := forest_panel(view, best)) is not None:
        columns.append([_forest_card(view, best, panel)])
    if best is not None:
        columns.append([Card("verdict", "Ranking over models and seeds", lines=tuple(_verdict_lines(view, best)),
                           table=_regime_groups(view, verdicts))])  # fmt: skip
    return columns


def _verdict_lines(view: View, best: Verdict) -> list[str]:
    n, what = len(best.places), "outlier set" if best.regime != ERRORS else "seed"
    comparison = best.comparison
    if best.paired:
        test = "paired DeLong test with Holm: all numbers come from one model and seed."
    else:
        test = (f"Friedman, then {comparison.test_name()} on ranks, because {n} blocks (model, seed, {what}) are "
                "replicates of the comparison.")  # fmt: skip
    lines = [best.sentence(), f"Test: {test}", comparison.caveat, best.unseen(view)]
    if best.repeated:
        lines.append(f"{count(best.repeated, 'block')} repeat another seed number for number and were counted once.")
    if best.left_out:
        lines.append(f"Left out, because numbers are missing: {listing(list(best.left_out))}.")
    if best.dropped:
        lines.append(f"{count(best.dropped, 'incomplete block')} left out.")
    failed, missing = len(view.findings.failures), view.findings.missing
    if failed or missing:
        lines.append(f"{count(failed, 'cell')} failed, {missing} not computed yet.")
    return [line for line in lines if line]


def _regime_groups(view: View, verdicts: Verdicts) -> Table | None:
    lines = []
    for regime in (*view.regime_names, ERRORS):
        v = verdicts.get(("augrc" if regime == ERRORS else "auroc", "", regime))
        if v is not None:
            lines.append((regime, v.sentence(), v.blocks()))
    return make_table("first-regimes", "Best group by regime", "", ("Regime", "Best group", "Rests on"), lines)


def _certified(view: View) -> list[list[Card]]:
    holds, sentence = sandwich(view)
    table, panels = certificate_table(view), certificate_panels(view)
    promise = Card("promise", "What no attack can do", lines=(*strength(view), sentence if holds else f"! {sentence}"))
    pictures = [Card("sandwich", p.title, "Large: AUC. Ring: AAUC. Small, outlined: GAUC.", p) for p in panels[:2]]
    return [
        [promise],
        pictures,
        [Card("table", "AUC, AAUC and GAUC", "" if table is None else table.caption, table=table)],
    ]
