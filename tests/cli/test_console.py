from __future__ import annotations

from caveat.cli._console import progress_bar


def test_progress_writes_nothing_where_there_is_no_terminal(capsys):
    with progress_bar() as tell:
        tell("working", 1, 2)
    assert capsys.readouterr() == ("", "")
