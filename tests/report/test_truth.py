"""What the first screen says is what it draws, and where a page came from stands on it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from caveat import Outputs, evaluate
from caveat.report import render_report
from caveat.report.first_screen import cards
from caveat.report.verdicts import group_mark, judge_all
from caveat.report.view import View
from caveat.results import Promise


def first(findings):
    view = View(findings)
    return {card.key: card for column in cards(view, judge_all(view)) for card in column}


def test_groups_are_called_by_what_is_printed(findings):
    comparison = findings.assessments[next(iter(findings.assessments))].ranking
    assert group_mark(comparison) == "letter"
    many = replace(comparison, cliques=tuple((name,) for name in comparison.methods) * 27)
    assert group_mark(many) == "number"
    assert "share a letter" in first(findings)["forest"].caption
    key, assessment = next(iter(findings.assessments.items()))
    forest = first(replace(findings, assessments={key: replace(assessment, ranking=many)}))["forest"]
    assert "share a number" in forest.caption
    assert "letter" not in forest.caption


def test_a_guaranteed_interval_is_announced_only_where_it_is_drawn(findings):
    forest = first(findings)["forest"]
    assert "Thin, between end marks: guaranteed" in forest.caption
    shown = len(re.findall(r'class="dot mark', forest.panel.svg))
    assert len(re.findall(r'class="thin"', forest.panel.svg)) == 3 * shown
    assert forest.panel.svg.index('class="thick') < forest.panel.svg.index('class="thin"')
    bare = tuple(replace(r, auroc_guaranteed=None) if hasattr(r, "auroc_guaranteed") else r for r in findings.records)
    forest = first(replace(findings, records=bare))["forest"]
    assert "guaranteed" not in forest.caption
    assert 'class="thin"' not in forest.panel.svg


@pytest.mark.filterwarnings("ignore:the accuracy on model")
@pytest.mark.parametrize(("right", "word"), [(True, "right"), (False, "wrong")])
def test_labels_that_tell_no_score_apart_are_not_called_missing(right, word):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 3))
    labels = logits.argmax(axis=1) if right else logits.argmin(axis=1)
    decision = evaluate(inlier=Outputs(logits=logits, labels=labels), scores=["msp", "energy"]).decision
    assert f"all 200 answers on the test rows are {word}" in decision.reason
    assert "No outliers and no labels" in evaluate(inlier=Outputs(logits=logits), scores=["msp", "gen"]).decision.reason


def test_what_is_missing_for_the_other_promises_is_one_line():
    rng = np.random.default_rng(1)
    held, test = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    result = evaluate(
        calibration=Outputs(logits=held), inlier=Outputs(logits=test, labels=test.argmax(axis=1)), scores=["msp"]
    )
    (line,) = [text for text in result.decision.warnings if "labels" in text]
    assert "the calibration rows have no labels" in line
    assert line in str(result.decision)
    assert line in render_report(result.findings())[0]


def test_a_share_is_never_rounded_up_to_100_percent():
    assert "at least 99.9999 % of cases" in str(Promise("coverage", 1 - 1e-6, None, 4000, "", ""))
    rng = np.random.default_rng(2)
    said = Outputs(logits=rng.normal(size=(400, 3)), labels=rng.integers(3, size=400))
    result = evaluate(inlier=said, scores=["msp"], alpha=1e-6)
    assert "at least 100" not in str(result.decision) + render_report(result.findings())[0]
    assert "99.9999" in str(result.decision)


def test_the_score_that_abstains_is_drawn_and_few_lines_have_a_legend(without_outliers):
    card = first(without_outliers)["caught"]
    decision = next(iter(without_outliers.assessments.values())).decision
    drawn = set(re.findall(r'class="series slot-\d" data-series="\d+" data-name="([^"]+)"', card.panel.svg))
    assert {str(decision.method), str(decision.confidence)} <= set(card.legend)
    assert len(card.legend) <= 6
    assert not drawn or drawn == set(card.legend)
    two = evaluate(
        inlier=Outputs(logits=np.random.default_rng(3).normal(size=(600, 3)), labels=np.arange(600) % 3),
        scores=["msp", "energy"],
    ).findings()
    assert len(first(two)["caught"].legend) == 2
    assert "six" not in first(two)["caught"].caption
    assert 'aria-label="Legend"' in render_report(two)[0].partition("<nav")[0]


def test_errors_are_drawn_for_both_scores_of_the_decision(findings):
    page = render_report(findings)[0]
    decision = next(iter(findings.assessments.values())).decision
    risk = page[page.index('<section id="risk"') : page.index('<section id="histograms"')]
    switches = re.findall(r"<button[^>]*>.*?<span>([^<]+)</span>", risk, flags=re.DOTALL)
    assert {str(decision.method), str(decision.confidence)} <= set(switches)


def test_regimes_are_explained_where_they_are_shown():
    rng = np.random.default_rng(4)
    said = Outputs(logits=rng.normal(size=(400, 3)) + 5 * np.eye(3)[rng.integers(3, size=400)])
    noise = {"noise": Outputs(logits=rng.normal(size=(80, 3)))}
    result = evaluate(inlier=said, outliers=noise, scores=["msp"], regimes={"noise": "far"})
    assert "how unlike the training data" in first(result.findings())["caught"].caption
    assert (
        "Near, mid, far"
        not in first(evaluate(inlier=said, outliers=noise, scores=["msp"]).findings())["caught"].caption
    )


def test_no_threshold_is_said_in_words():
    rng = np.random.default_rng(5)
    said = Outputs(logits=rng.normal(size=(60, 3)), labels=rng.integers(3, size=60))
    result = evaluate(inlier=said, scores=["msp"])
    page, markdown, _ = render_report(result.findings())
    for text in (str(result.decision), page.partition("<nav")[0], result._repr_html_()):
        assert "has no threshold: it rejects nothing" in text
        assert not re.search(r"\b[−-]?inf\b", text)
    assert not re.search(r"\binf\b", markdown)
