from __future__ import annotations

import pytest

from caveat import InputError
from caveat_lab.papers.agreement import Agreement, compare_numbers
from caveat_lab.papers.papers import Answer, items, read_papers

COMPARISON = Agreement((
    compare_numbers("Table 1, left", [("a", 1.0, 1.0, ""), ("b", 2.0, 3.0, "moved")], tolerance=0.1),
    compare_numbers("Table 1, right", [("c", 1.0, 1.05, "")], tolerance=0.1),
    compare_numbers("Table 2", [("d", 1.0, 9.0, "moved")], tolerance=0.1),
))  # fmt: skip
ROW = """
[[paper]]
name = "Nobody"
title = "Nothing"
[[paper.answers]]
what = "Table 1"
shows = "numbers"
result = "open"
why = "No study yet."
"""


def answer(**changes):
    facts = {"what": "Table 1", "shows": "numbers", "result": "open", "why": "Half done.", "by": ("tiny",)}
    return Answer(**(facts | changes))


def test_a_row_names_one_two_or_a_range_of_tables_or_figures():
    assert items("Table 12, SVHN") == ("Table 12",)
    assert items("Figures 9 and 11") == ("Figure 9", "Figure 11")
    assert items("Figures 9 to 11") == ("Figure 9", "Figure 10", "Figure 11")
    with pytest.raises(InputError, match="must start with a table or figure.*'Section 3'"):
        items("Section 3")


def test_counts_come_from_the_parts_that_start_with_a_name():
    row = answer(parts=("Table 1",))
    assert row.explanation({"tiny": COMPARISON}) == "2 of 3 agree. Half done."
    assert answer().explanation({"tiny": COMPARISON}) == "Half done."


@pytest.mark.parametrize("comparisons", [{"tiny": COMPARISON}, {"tiny": None}, {}])
def test_a_part_that_no_comparison_has_is_an_error(comparisons):
    with pytest.raises(InputError, match="Table 1: no part of tiny starts with 'Table 7'"):
        answer(parts=("Table 7",)).explanation(comparisons)


def test_a_cause_without_a_test_is_called_a_guess():
    guess = answer(result="differ", cause="other data.")
    assert guess.explanation({}) == "Half done. Guess: other data."
    tested = answer(result="differ", cause="other data.", tested=("tests/a.py",))
    assert tested.explanation({}) == "Half done. Cause: other data. Tested in `tests/a.py`."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"result": "agrees"}, "unknown result of Table 1 'agrees'. Did you mean 'agree'"),
        ({"result": "differ"}, "a cause is needed"),
        ({"cause": "other data."}, "a cause is needed"),
        ({"what": "Appendix"}, "must start with a table or figure"),
    ],
)
def test_a_row_that_is_not_sound_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        answer(**changes)


def test_papers_are_read_from_their_file(tmp_path):
    assert read_papers(tmp_path) == ()
    (tmp_path / "papers.toml").write_text(ROW)
    (paper,) = read_papers(tmp_path)
    assert (paper.name, paper.title, [row.what for row in paper.answers]) == ("Nobody", "Nothing", ["Table 1"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("shows", "show", r"papers.toml: unknown key 'paper\[0\].answers\[0\].show'. Did you mean"),
        ('why = "No study yet."', "", r"papers.toml: paper\[0\].answers\[0\].why is missing"),
        ("open", "opne", "papers.toml: unknown result of Table 1 'opne'"),
        ("[[paper]]", "[[papers]]", "papers.toml: unknown key"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, old, new, message):
    (tmp_path / "papers.toml").write_text(ROW.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_papers(tmp_path)
