"""One table, three ways to write it: the same numbers, and no name that breaks any of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat.report.tables import (
    Cell,
    Column,
    Group,
    Table,
    latex,
    latex_page,
    latex_text,
    markdown,
    markdown_page,
)

TABLE = Table(
    "scores", "Scores", "Larger is better.", (Column("Method", number=False), Column("AUROC", "mean"), Column("Rank")),
    (
        Group("near", (
            (Cell("knn_50 & co", strong=True), Cell("0.912", 0.912, "[0.890, 0.930]", True, "a"), Cell("1", 1.0)),
        )),
        Group("far", ((Cell("a|b"), Cell("not measured"), Cell("2 tied", 2.0)),)),
    ),
    (("a", "Few samples."),),
)  # fmt: skip


def test_markdown_by_hand():
    assert markdown(TABLE) == (
        "## Scores\n\nLarger is better.\n\n"
        "### near\n\n| Method | AUROC mean | Rank |\n| --- | ---: | ---: |\n"
        "| **knn_50 & co** | **0.912**<sup>a</sup> [0.890, 0.930] | 1 |\n\n"
        "### far\n\n| Method | AUROC mean | Rank |\n| --- | ---: | ---: |\n"
        "| a\\|b | not measured | 2 tied |\n\n<sup>a</sup> Few samples."
    )


def test_latex_by_hand():
    lines = latex(TABLE).splitlines()
    assert lines[0] == r"\begin{longtable}{lrr}"
    assert r"\caption{Scores. Larger is better.}\label{tab:scores}\\" in lines
    heads = r"Method & \shortstack[r]{AUROC\\ {\tiny mean}} & Rank"
    assert rf"\toprule {heads} \\ \midrule \endfirsthead" in lines
    number = r"\shortstack[r]{\textbf{0.912}\textsuperscript{a}\\ {\tiny {[}0.890, 0.930{]}}}"
    assert rf"\textbf{{knn\_50 \& co}} & {number} & 1 \\" in lines
    assert r"\midrule \multicolumn{3}{l}{far} \\" in lines
    assert lines[-1] == r"\noindent{\footnotesize \textsuperscript{a} Few samples.\par}"


@given(st.text(max_size=30))
def test_any_name_is_one_cell_of_markdown(name):
    row = markdown(
        Table("t", "T", "", (Column("x", number=False), Column("y")), (Group("", ((Cell(name), Cell("1")),)),))
    )
    last = row.splitlines()[-1]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", last)) == 3
    assert "<" not in last


def test_a_row_cannot_begin_with_what_ends_the_one_before():
    # LaTeX reads \\* and \\[2pt] even across a line break.
    assert latex_text("*net") == "{*}net"
    assert latex_text("[2pt]") == "{[}2pt{]}"


@given(st.text(max_size=30))
def test_any_name_is_plain_text_in_latex(name):
    found = latex_text(name)
    # Without the commands that we write ourselves nothing special is left, and braces are in balance.
    ours = r"\\(text[a-z]+|ldots|dag)\{\}|\\[&%$#_{}]|\$\\?[a-z-]+\$|\{\[\}|\{\]\}|\{\*\}|(?<=[-'])\{\}(?=[-'])|~"
    plain = re.sub(ours, "", found)
    assert not set(plain) & set('\\{}$&#^_%~<>|"')
    assert all(ord(char) < 0x180 for char in found)
    assert found.isprintable()


@pytest.mark.parametrize("page", [markdown_page, latex_page])
def test_pages_hold_every_table_and_end_with_a_line(page):
    text = page("A <title> & more", [TABLE, TABLE])
    assert text.endswith("\n")
    assert text.count("0.912") == 2
    assert "<title>" not in text


def test_latex_environments_are_closed_and_every_row_has_all_columns():
    text = latex_page("T", [TABLE])
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 1
    assert text.count(r"\begingroup") == text.count(r"\endgroup") == 1
    body = text[text.index(r"\endlastfoot") : text.index(r"\end{longtable}")]
    rows = [line for line in body.splitlines()[1:] if r"\multicolumn" not in line]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [2, 2]
    depth = 0
    for char in re.sub(r"\\[{}]", "", text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        assert depth >= 0
    assert depth == 0


def test_signs_that_latex_would_join_or_does_not_have():
    assert latex_text("a--b ''c'' `d`") == r"a-{}-b '{}'c'{}' \textasciigrave{}d\textasciigrave{}"
    assert latex_text("“x” — ħ é") == "``x'' --- (U+0127) é"  # T1 has no letter for the last but one


def test_a_name_is_neither_struck_out_nor_mathematics_in_markdown():
    assert markdown_page("~~x~~ $y$", []) == "# \\~\\~x\\~\\~ \\$y\\$\n"
