from __future__ import annotations

from pathlib import Path

from rich.console import Console

from caveat_lab.cli import _following
from caveat_lab.cli._following import following, name_failures, progress_table
from caveat_lab.experiments import Failure, Outcome, Plan, StudyProgress, run


def test_the_table_on_a_terminal_shows_counts_time_and_what_is_under_way():
    state = StudyProgress(94, 10, 20, 1, ("net knn(k=10)", "net [bold]"), 75.0, Outcome("k", "net msp", "done", 1.0))
    screen = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    screen.print(progress_table("A [red]title", state))
    shown = screen.export_text()
    for piece in ("A [red]title", "94", "30", "1", "63", "1:15", "3:45", "net knn(k=10)", "net [bold]"):
        assert piece in shown


def test_a_terminal_gets_the_live_table(tmp_path, monkeypatch):
    (tmp_path / "run.py").write_text("def one(k): return [{'value': 1 / k}]")
    plan = Plan.parse('[task]\nrun = "run.py:one"\n[grid]\nk = [0, 1]', folder=tmp_path)
    screen = Console(width=100, force_terminal=True, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    monkeypatch.setattr(_following, "error_console", lambda: screen)
    with following("Title") as tell:
        run(plan, store=tmp_path / "r", progress=tell)
    assert "remaining" in screen.export_text()


def test_of_many_failures_the_first_are_named(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    name_failures([Failure(f"key{i}", f"cell [{i}]", "ValueError", f"bad {i}", "") for i in range(12)], Path("runs/x"))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "failed: cell [0]: ValueError: bad 0"
    assert said[10:] == ["failed: 2 more, see runs/x/failures"]


def test_one_reason_is_printed_once_however_many_cells_have_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    name_failures([Failure(f"key{i}", f"cell {i}", "InputError", "files differ.", "") for i in range(16)], Path("x"))
    assert capsys.readouterr().err.splitlines() == ["failed: cell 0 and 15 more: files differ."]
