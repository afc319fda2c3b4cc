"""The table of classes: names, shares by hand, and the worst of many classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caveat import Outputs
from caveat.evaluation import evaluate
from caveat.evaluation.records import ClassFacts
from caveat.report.model_tables import class_table
from caveat.report.page import render_report
from caveat.report.view import View


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    return evaluate(
        inlier=Outputs(logits=3 * np.eye(3)[labels] + rng.normal(size=(600, 3)), labels=labels,
                       class_names=["cat", "<b>dog</b>", "bee & co"]), scores=["msp"],
    )  # fmt: skip


def texts(table):
    return [[cell.text for cell in line] for group in table.groups for line in group.lines]


def test_classes_by_name_with_their_shares(result):
    (facts,) = result.of(ClassFacts)
    rows = texts(class_table(View(result.findings())))
    assert [row[0] for row in rows] == ["cat", "<b>dog</b>", "bee & co"]
    assert [row[1] for row in rows] == [f"{int(n)}" for n in facts.n]
    assert [float(row[2].split()[0]) for row in rows] == pytest.approx(100 * facts.right / facts.n, abs=0.06)
    assert [float(row[3].split()[0]) for row in rows] == pytest.approx(100 * facts.covered / facts.n, abs=0.06)


def test_a_page_holds_the_names_as_text(result, parse):
    page, markdown, _ = render_report(result.findings())
    assert "bee & co" in parse(page).text
    assert "<b>dog</b>" in parse(page).text
    assert "<b>dog" not in page
    assert "## Class by class" in markdown


def test_of_many_classes_the_worst_are_shown_and_of_several_models_none(result):
    (facts,) = result.of(ClassFacts)
    right = np.arange(100.0)
    many = replace(facts, names=tuple(f"c{i}" for i in range(100)), n=np.full(100, 100.0), right=right, covered=None)
    findings = replace(result.findings(), records=[many])
    table = class_table(View(findings))
    assert [row[0] for row in texts(table)] == [f"c{i}" for i in range(30)]
    assert "30 of 100 classes" in table.caption
    assert len(table.columns) == 3  # no coverage without sets
    two = replace(many, block=replace(many.block, model="other"))
    assert class_table(View(replace(findings, records=[many, two]))) is None
