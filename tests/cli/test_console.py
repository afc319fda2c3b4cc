from __future__ import annotations

import pytest
from rich.table import Table

from caveat.cli._console import console, progress_bar, say, say_error, show_table


def test_progress_writes_nothing_where_there_is_no_terminal(capsys):
    with progress_bar() as tell:
        tell("working", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_names_are_printed_as_they_are(capsys):
    name = "runs[v2]/knn[k=5] [/x] :bug:"  # rich would read tags and an emoji
    say(name)
    say_error("error", name)
    table = Table(name, title=name)
    table.add_row(name)
    console().print(table)
    out, err = capsys.readouterr()
    assert err == f"error: {name}\n"
    assert out.count(name) == 4


LONG = "https://example.org/" + "x" * 40


@pytest.mark.parametrize("columns", [30, 60, 80, 100, 200])
def test_no_word_of_a_table_is_cut(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [("first", "a few words that may be broken anywhere " * 3, LONG), ("second", "", "nowhere")]
    show_table(("name", "what it is", "where"), rows, "Places", unbroken=("name",))
    out = capsys.readouterr().out
    assert LONG in out
    for word in ("Places", "first", "second", "anywhere", "nowhere"):
        assert word in out
    assert all(len(line) <= max(columns, 4 + len(f"where: {LONG}")) for line in out.splitlines())
    assert ("name" in out) == (columns > 80)  # a table, or a paragraph for each row


def test_a_table_that_fits_stays_a_table(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    show_table(("name", "n"), [("a", "1"), ("b", "2")], right=("n",))
    assert "name" in capsys.readouterr().out


def test_progress_on_a_terminal_goes_to_standard_error(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with progress_bar() as tell:
        tell("working[1]", 1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "working[1]" in err
