"""Clique maps and critical-difference diagrams draw the verdicts: dots for ties, bars for groups."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from caveat.report.study import all_verdicts, read_study
from caveat.report.study_rank_figures import clique_panel, critical_difference_panel
from caveat.study import StudyResults


@pytest.fixture(scope="module")
def verdicts(small_study):
    return all_verdicts(read_study(StudyResults(small_study)))


def columns(panel) -> list[dict[str, str]]:
    """For each column of a clique map: what its full-size dots say."""
    root = ElementTree.fromstring(panel.svg)
    found = [g for g in root.iter("g") if g.get("class") == "column"]
    return [[c.get("data-tip") for c in g.iter("circle") if "faint" not in c.get("class")] for g in found]


def test_dots_are_the_top_groups(verdicts):
    shown = [verdicts["auroc", "", name] for name in ("near", "mid", "far", "all")]
    panel = clique_panel(shown, key="k", order=shown[-1].order)
    for tips, verdict in zip(columns(panel), shown, strict=True):
        assert len(tips) == len(verdict.top)
        assert all(any(f" {name}, average" in tip for tip in tips) for name in verdict.top)
    assert "near: " in panel.description


def test_methods_in_no_top_group_have_no_row(verdicts):
    found = verdicts["auroc", "", "all"]
    panel = clique_panel([found], key="k", order=found.order)
    labels = [text.text for text in ElementTree.fromstring(panel.svg).iter("text")]
    assert "msp" not in labels
    assert found.best in labels


def test_a_regime_that_tells_nobody_apart_has_no_dots(verdicts):
    clear = verdicts["auroc", "", "all"]
    blurred = replace(verdicts["auroc", "", "near"], layers=(verdicts["auroc", "", "near"].order,))
    first, second = columns(clique_panel([clear, blurred], key="k", order=clear.order))
    assert len(first) == len(clear.top)
    assert second == []


def test_a_judgement_by_bands_is_hollow(verdicts):
    found = replace(verdicts["auroc", "", "all"], by="bands", comparison=None)
    root = ElementTree.fromstring(clique_panel([found], key="k", order=found.order).svg)
    assert [c.get("class") for c in root.iter("circle") if "faint" not in c.get("class")] == [
        "dot hollow slot-1"
    ] * len(found.top)


def test_bars_join_the_groups(verdicts):
    found = verdicts["auroc", "", "all"]
    root = ElementTree.fromstring(critical_difference_panel(found, key="k").svg)
    tips = [path.get("data-tip") for path in root.iter("path") if path.get("class") == "tie"]
    groups = [clique for clique in found.comparison.cliques if len(clique) > 1]
    assert len(tips) == len(groups)
    for clique in groups:
        assert any(all(name in tip for name in clique) for tip in tips)
    dots = [c.get("data-tip") for c in root.iter("circle")]
    assert sorted(dots) == sorted(f"{n}: average rank {r:.2f}" for n, r in found.comparison.average_ranks.items())


def test_without_ranks_there_is_no_diagram(verdicts):
    assert critical_difference_panel(replace(verdicts["auroc", "", "all"], comparison=None), key="k") is None
