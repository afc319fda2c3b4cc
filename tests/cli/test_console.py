from __future__ import annotations

from rich.table import Table

from caveat.cli._console import console, progress_bar, say, say_error


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
