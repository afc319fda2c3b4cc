from __future__ import annotations

import os
import subprocess
import sys

from caveat.scores import catalogue


def test_every_score_is_listed_with_its_paper(run):
    code, out, _ = run("scores")
    assert code == 0
    for entry in catalogue():
        assert entry.name in out
    assert "Lee et al. 2018" in out
    assert "odin (caveat.nn.ODIN(model))" in out


def test_eighty_columns_cut_nothing_short(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = run("scores")[1]
    assert "…" not in out
    assert "predictions" in out
    assert max(map(len, out.splitlines()[:-2])) <= 80


def test_a_terminal_without_unicode_gets_question_marks():
    done = subprocess.run(
        [sys.executable, "-c", "from caveat.cli import main; main(['scores'])"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert b"kl_matching" in done.stdout
    assert b"C?" in done.stdout
