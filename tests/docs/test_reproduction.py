"""The table that opens the page of reproductions: every table and figure of the papers has a row, and a row is sound.

The numbers of tables and figures are those of the captions in the papers. Where a paper's text lacks a caption, the
gap in its numbering counts as one: Tables 4 and 9 of Claros-Olivares and Brockmeier, Table 1 and Figures 1 and 2 of
Bitterwolf et al. (whose main part was not read here).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from caveat_lab.papers.papers import RESULTS, items, read_papers
from caveat_lab.papers.reproductions import reproductions, studies_folder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
PAPERS = read_papers(studies_folder())
ANSWERS = [(paper.name, answer) for paper in PAPERS for answer in paper.answers]
STUDIES = {one.name: one.committed for one in reproductions()}
CAPTIONS = {  # paper -> how many tables and how many figures it has
    "Novello et al.": (8, 3),
    "Bitterwolf et al.": (9, 4),
    "Jang and Lee": (12, 34),
    "Claros-Olivares and Brockmeier": (10, 2),
    "Vovk et al.": (2, 2),
}

TESTED = {  # how a reason starts that is no guess -> the file that shows it
    "bounds over the box, pair by pair": "tests/studies/test_certified.py",
    "short training and the start from CEDA, tested together": "tests/studies/test_certified.py",
    "not the training outliers: with photographs": "tests/studies/test_certified.py",
    "the paper publishes means over four outlier sets": "tests/studies/test_openood_corrections.py",
    "the paper takes the smaller of two boundaries": "tests/studies/test_openood_corrections.py",
    "the far column is a mean over three sets": "tests/studies/test_openood_corrections.py",
    "the softmax of the CIFAR networks is sharp": "tests/studies/test_adaptivity.py",
    "for that network 61 % of the largest probabilities": "tests/studies/test_adaptivity.py",
    "most or all of these corrections are larger than a band of the paper's form": "tests/studies/test_adbench.py",
    "the published corrections are 1.2 to 16 times": "tests/studies/test_adbench.py",
    "the AUROC itself is another one": "studies/adbench/cells.csv",
    "PyOD has rewritten DeepSVDD since": "tests/studies/test_adbench.py",
    "scikit-learn takes the signs of components from V": "tests/studies/test_adbench.py",
    "the bound is on the false-positive rate": "tests/studies/test_adbench.py",
    "between the lowest and the highest of our seeds": "studies/adbench/tables.md",
    "with three or more labels, a label of probability 0": "tests/studies/test_efficiency_theorems.py",
    "Theorem 4 fails for an object": "tests/studies/test_efficiency_theorems.py",
    "Theorem 6 is wrong for U, M, F and E": "tests/studies/test_efficiency_theorems.py",
    "the training and test digits of the original split": "tests/studies/test_usps.py",
}


def named(row):
    return f"{row[0]}, {row[1].what}"


def page_rows():
    """The cells of the first table of the page."""
    lines = PAGE.split("\n## ")[0].splitlines()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_table_and_figure_of_a_paper_has_a_row_and_no_other_has(paper):
    tables, figures = CAPTIONS[paper.name]
    expected = {f"Table {i}" for i in range(1, tables + 1)} | {f"Figure {i}" for i in range(1, figures + 1)}
    assert {item for answer in paper.answers for item in items(answer.what)} == expected


def test_every_paper_has_rows():
    assert [paper.name for paper in PAPERS] == list(CAPTIONS)
    assert {one.paper for one in reproductions() if not any(paper.title in one.paper for paper in PAPERS)} == set()


def test_no_row_is_there_twice():
    names = [named(row) for row in ANSWERS]
    assert len(set(names)) == len(names)


def test_the_page_opens_with_the_rows():
    rows = page_rows()
    assert [(row[0], row[1].split(":")[0]) for row in rows] == [(paper, answer.what) for paper, answer in ANSWERS]
    assert {row[4].strip("*") for row in rows} <= set(RESULTS)


@pytest.mark.parametrize("row", ANSWERS, ids=named)
def test_what_answers_a_row_exists(row):
    for name in (*row[1].by, *row[1].tested):
        assert name in STUDIES or (name.startswith("tests/") and (ROOT / name).is_file()), name


def test_every_command_of_the_table_is_a_reproduction_with_a_section():
    commands = re.findall(r"\[`caveat reproduce ([\w-]+)`\]\(#([\w-]+)\)", PAGE.split("\n## ")[0])
    assert {name for name, _ in commands} == set(STUDIES)  # each study answers something
    for name, anchor in commands:
        assert name == anchor
        assert f"\n## {anchor}\n" in PAGE


@pytest.mark.parametrize("row", [row for row in ANSWERS if row[1].result == "agree"], ids=named)
def test_a_row_that_agrees_is_answered_and_has_no_difference_in_its_parts(row):
    assert row[1].by
    for part in row[1].compared(STUDIES):
        assert part.agree == part.compared > 0, part.title


@pytest.mark.parametrize("row", [row for row in ANSWERS if row[1].result == "differ"], ids=named)
def test_a_row_that_differs_gives_numbers_and_a_cause_that_is_tested_or_called_a_guess(row):
    _, answer = row
    text = answer.explanation(STUDIES)
    assert answer.by
    assert re.search(r"\d", text)
    assert ("Guess: " in text) != ("Tested in `tests/" in text)
    parts = answer.compared(STUDIES)
    assert not parts or any(part.differences for part in parts)


def test_the_parts_of_a_comparison_are_counted_for_one_row_only():
    counted = [(answer.by[0], part.title) for _, answer in ANSWERS for part in answer.compared(STUDIES)]
    assert len(set(counted)) == len(counted)


def test_the_reason_of_a_difference_is_tested_or_called_a_guess():
    reasons = {check.why for agreement in STUDIES.values() for part in agreement.parts for check in part.differences}
    assert [why for why in reasons if not why.startswith(("guess: ", *TESTED))] == []
    for start, path in TESTED.items():
        assert any(why.startswith(start) for why in reasons), start
        assert (ROOT / path).is_file()
