"""Is the order of the methods that of the paper? Pairs of methods, by table, alpha, metric and kind of noise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import figures  # in this folder
import published  # in this folder

from caveat.results import Comparison
from caveat_lab.papers.agreement import Check, Part

KINDS = {"noise on logits": ("cifar10 ", "cifar100 "), "noise on inputs": ("mnist ",)}  # by the start of their names
BINS = {2: 50, 5: 50, 8: 100, 9: 30}


def of_kind(tables: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The networks whose difficulty comes from this kind of noise."""
    return {name: content for name, content in tables.items() if name.startswith(KINDS[kind])}


def column(metric: str, bins: int) -> str:
    """What the rows call a metric with this number of bins."""
    return metric if bins == 50 or metric not in ("T-CV", "T-SS") else f"{metric} {bins}"


def table(number: int, tables: Mapping[str, Any], kind: str) -> Part:
    """One of Tables 2, 5, 6, 7, 8, 9: which of two methods has the better mean over the networks."""
    cases = []
    for (which, alpha, metric), theirs in published.MEANS.items():
        if which == number:
            name = column(metric, BINS.get(number, 50))
            values, ranks = figures.ranking(of_kind(tables, kind), name, alpha)
            bins = f", {BINS[number]} bins" if number in BINS else ""
            what = f"Table {number}, {kind}: {metric}{bins}, alpha = {alpha}"
            cases.append((what, metric, theirs, values.mean(axis=0), ranks))
    return _counted(f"Table {number}, order of the means, {kind}", cases)


def diagrams(title: str, bins: Sequence[int], alphas: Sequence[str], tables: Mapping[str, Any], kind: str) -> Part:
    """Critical differences: which of two methods has the better average rank."""
    cases = []
    for (count, alpha, metric), theirs in published.RANKS.items():
        if count in bins and alpha in alphas:
            _, ranks = figures.ranking(of_kind(tables, kind), column(metric, count), alpha)
            ours = [-ranks.average_ranks[m] if metric == "T-SS" else ranks.average_ranks[m] for m in figures.METHODS]
            worse = [-value for value in theirs] if metric == "T-SS" else theirs  # as if large values were good
            what = f"average ranks, {kind}: {metric}, {count} bins, alpha = {alpha}"
            cases.append((what, metric, worse, ours, ranks))
    return _counted(title, cases)


def _counted(title: str, cases: Sequence[tuple[str, str, Sequence[float], Sequence[float], Comparison]]) -> Part:
    """Pairs in the paper's order; one line for each case that has others. Pairs that tie in the paper do not count."""
    compared, agree, checks = 0, 0, []
    for what, metric, theirs, ours, ranks in cases:
        sign = 1 if figures.smaller_is_better(metric) else -1
        mine, paper = (dict(zip(figures.METHODS, values, strict=True)) for values in (ours, theirs))
        pairs = [(a, b) for a, b in itertools.combinations(figures.METHODS, 2) if paper[a] != paper[b]]
        other = [(a, b) for a, b in pairs if (paper[a] < paper[b]) != (mine[a] < mine[b])]
        tied = [(a, b) for a, b in other if ranks.tied(a, b)]
        apart = [pair for pair in other if pair not in tied]
        compared, agree = compared + len(pairs), agree + len(pairs) - len(other)
        if not other:
            continue
        reasons = [f"other networks and data: {_named(apart)}"] if apart else []
        if tied:
            reasons.append(f"chance, not told apart here (Conover, Holm, 0.05): {_named(tied)}")
        same = f"; {len(pairs) - len(other)} of {len(pairs)} pairs in the same order"
        checks.append(
            Check(what, _order(paper, sign), _order(mine, sign) + same, False, "guess: " + "; ".join(reasons))
        )
    return Part(title, "the same order of two methods", compared, agree, None, tuple(checks))


def _order(values: Mapping[str, float], sign: int) -> str:
    return ", ".join(sorted(values, key=lambda name: sign * values[name]))


def _named(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{a} and {b}" for a, b in pairs)
