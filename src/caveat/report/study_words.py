"""The sentences of a study's report, made from its verdicts. Plain text: whoever places it escapes it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from caveat.report.study_facts import StudyFacts
from caveat.report.study_verdicts import Metric, Verdict, mean_over, metric_of
from caveat.report.words import STYLES, count, interval, level, listing, number, shorten

__all__ = ["cannot_be_said", "citation", "collapse", "measured", "regime_sentence", "sandwich", "verdict_sentence"]

Verdicts = Mapping[tuple[str, str, str], Verdict]  # metric, source, regime


def measured(facts: StudyFacts) -> str:
    """What was measured, in one or two sentences."""
    if not facts.methods:
        certified = {(row.source, row.outlier) for row in facts.of_kind("certificate") if row.outlier}
        if certified:
            who, where = ({pair[i] for pair in certified} for i in (0, 1))
            verb = "was" if len(who) == 1 else "were"
            said = f"{count(len(who), 'model')} {verb} certified against {count(len(where), 'outlier set')}."
            return f"{said} No score was measured."
        return "No score was measured."
    scores = len({method.score for method in facts.methods})
    projections = len({method.projection for method in facts.methods})
    methods = count(scores, "score")
    if len(facts.methods) != scores:
        under = f" under up to {projections} projections" if projections > 1 else ""
        methods = f"{len(facts.methods)} methods ({methods}{under})"
    sets = len({outlier for _, outlier in facts.sets})
    models = count(len(facts.sources), "model")
    against = f" against {count(sets, 'outlier set')}" if sets else ""
    seeds = f" with {len(facts.seeds)} seeds" if len(facts.seeds) > 1 else ""
    accuracy = [row.estimate for row in facts.of_kind("model") if row.metric == "accuracy"]
    said = f"{methods} were measured on {models}{against}{seeds}."
    if scores == len(facts.methods) == 1:
        said = said.replace(" were ", " was ", 1)
    if accuracy:
        values = [found.value for found in accuracy]
        low, high = STYLES["percent"](min(values)), STYLES["percent"](max(values))
        whose = "The model is" if len(facts.sources) == 1 else "The models are"
        said += f" {whose} right on {low if low == high else f'{low} to {high}'} of the inliers."
    return said


def verdict_sentence(facts: StudyFacts, found: Verdict) -> str:
    """Who is best over all outlier sets, by how much, and with whom it is tied."""
    metric = metric_of(found.metric)
    mean = mean_over(facts, found.blocks, found.best, found.metric)
    assert mean is not None
    value = STYLES[metric.style](mean.value)
    blocks = len(found.blocks)
    name = shorten(found.best)
    if len(found.order) == 1:
        return (
            f"Only {name} was measured ({_valued(metric, value)}), so nothing can be said about which method is best."
        )
    if found.comparison is None:
        bounds = f" {interval(mean, metric.style)}" if np.isfinite([mean.lower, mean.upper]).all() else ""
        end = "largest" if metric.higher_is_better else "smallest"
        return f"{name} has the {end} value: {_valued(metric, value)}{bounds}. {_tie(found)}"
    spread = f"from {STYLES[metric.style](mean.lower)} to {STYLES[metric.style](mean.upper)}"
    rank = found.comparison.average_ranks[found.best]
    return (
        f"Over all {blocks} blocks of model{', seed' if len(facts.seeds) > 1 else ''} and outlier set, {name} has the "
        f"best average rank ({rank:.2f} of {len(found.order)}; mean {_valued(metric, value)}, {spread}). {_tie(found)}"
    )


def regime_sentence(facts: StudyFacts, found: Verdict) -> str:
    """The same for one regime, shorter."""
    metric = metric_of(found.metric)
    mean = mean_over(facts, found.blocks, found.best, found.metric)
    assert mean is not None
    name, value = shorten(found.best), STYLES[metric.style](mean.value)
    what = "mean " if len(found.blocks) > 1 else ""
    tie = _tie(found, named=False)
    return f"{name} ({what}{_valued(metric, value)}, {count(len(found.blocks), 'block')}). {tie}"


def _valued(metric: Metric, value: str) -> str:
    return f"{metric.name}{':' if metric.name[-1].isdigit() else ''} {value}"


def _tie(found: Verdict, *, named: bool = True) -> str:
    others = [shorten(name) for name in found.order if name in found.top and name != found.best]
    if found.by == "nothing":
        return "One block without intervals: nothing can be said about differences."
    if found.by == "bands":
        why = "its band does not overlap theirs" if not others else "their bands overlap"
        if not others:
            return f"On this one block it is ahead of every other: {why}."
        return f"On this one block it cannot be told apart from {listing(others)}: {why}."
    assert found.comparison is not None
    test = f" (Conover-Holm, {level(found.comparison.alpha)} level)" if named else ""
    if len(found.top) == len(found.order):
        if found.comparison.caveat.startswith("Friedman"):
            test = f" (Friedman, {level(found.comparison.alpha)} level)" if named else ""
        return f"No method can be told from any other{test}."
    if not others:
        return f"It is ahead of every other by more than chance explains{test}."
    return f"It cannot be told apart from {listing(others)}{test}."


def cannot_be_said(facts: StudyFacts, verdicts: Verdicts, metric: str) -> list[str]:
    """What the numbers do not allow to say, each in one sentence."""
    said = []
    overall = verdicts.get((metric, "", "all"))
    shown = {regime: found for (name, source, regime), found in verdicts.items() if name == metric and not source}
    single = [regime for regime, found in shown.items() if found.comparison is None and len(found.order) > 1]
    if overall is not None and overall.comparison is None and len(overall.order) > 1:
        said.append(
            "Friedman's test needs at least two blocks (another source, seed or outlier set), and there is one. So no "
            "ranks are compared; the intervals of the single numbers decide, without adjustment for how many there are."
        )
    elif single:
        where = listing(single)
        said.append(
            f"For {where} there is one block, so ranks cannot be compared; overlapping bands stand in for a test."
        )
    few = [regime for regime, found in shown.items() if found.rests_on_little]
    if few:
        said.append(
            f"Fewer than 6 blocks stand behind {listing(few)}: only large differences show, and a tie says little."
        )
    if not facts.regime_names and facts.sets:
        said.append("No outlier set has a regime, so nothing is said about near and far ones.")
    if len(facts.sources) == 1 and facts.sources:
        said.append("One model was measured: nothing here says how the ranking would look on another.")
    if overall is not None:
        if overall.repeated:
            said.append(
                f"{count(overall.repeated, 'block repeats', 'blocks repeat')} another seed number for number. "
                "Such a block is not counted again: a seed that changes nothing is no replicate."
            )
        if overall.left_out:
            lost = [f"{shorten(name)} ({count(n, 'block')} missing)" for name, n in overall.left_out.items()]
            said.append(f"Left out of the ranking, because numbers are missing: {listing(lost)}.")
        if overall.dropped:
            said.append(
                f"{count(overall.dropped, 'incomplete block')} {'was' if overall.dropped == 1 else 'were'} dropped."
            )
        if len({block.outlier for block in overall.blocks}) > 1:
            said.append(
                "Blocks of one model share its inliers, so they are not fully independent: the p-values are a guide, "
                "not a proof."
            )
    if facts.failures:
        said.append(f"{count(len(facts.failures), 'cell')} failed; see Failures.")
    if facts.missing:
        said.append(
            f"{count(facts.missing, 'cell')} of the plan {'is' if facts.missing == 1 else 'are'} not computed yet."
        )
    said.append(
        "All of this holds for inputs like the ones measured here; outliers of another kind may look different."
    )
    return said


def sandwich(facts: StudyFacts) -> tuple[bool, str]:
    """Whether GAUC <= AAUC <= AUC holds wherever two of them were measured, and the sentence that says so."""
    values: dict[tuple[str, str, str, int, int], dict[str, float]] = {}  # areas of other samples may change places
    for row in facts.of_kind("certificate"):
        if row.metric in ("auc", "aauc", "gauc"):
            samples = (row.source, row.name, row.outlier, row.seed, row.estimate.n)
            values.setdefault(samples, {})[row.metric] = row.estimate.value
    values = {samples: found for samples, found in values.items() if len(found) > 1}
    broken = []
    for (source, _, outlier, _, _), found in values.items():
        held = [found[name] for name in ("gauc", "aauc", "auc") if name in found]
        if any(low > high + 1e-9 for low, high in pairwise(held)):
            broken.append(f"{source} on {outlier} ({', '.join(f'{k.upper()} {number(v)}' for k, v in found.items())})")
    if broken:
        said = f"GAUC ≤ AAUC ≤ AUC is violated: {listing(broken)}. Either they were not measured on the same samples, "
        return False, said + "or a bound is wrong. Do not rely on these certificates."
    return True, f"GAUC ≤ AAUC ≤ AUC holds in all {count(len(values), 'comparison')}, as it must."


def collapse(facts: StudyFacts) -> str:
    """What the neural-collapse panel is for."""
    return (
        "How tightly the training features of each class gather around their mean, and how evenly the means are "
        "spread. Near collapse, scores that compare with class means have an easy task; far from it, they do not."
    )


def citation(version: str, key: str, title: str) -> str:
    """How to name this study in a paper."""
    return f"Caveat {version}, study “{title}”, key {key}."
