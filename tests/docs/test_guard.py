"""Every block of docs/guard.md runs: the Python ones in order, then the commands on the files that these wrote."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from caveat.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "guard.md"


def test_python_and_commands_run_as_they_stand(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    example = doctest.DocTestParser().get_doctest(text.replace("```", ""), {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example)
    assert runner.failures == 0
    lines = re.findall(r"^ {4}caveat (.+)$", text, re.MULTILINE)
    assert len(lines) == 7
    for line in lines:
        promised = int(code[1]) if (code := re.search(r"# exit code (\d)", line)) else 0
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(line, comments=True))
        assert (stop.value.code or 0) == promised, line
        assert "Traceback" not in capsys.readouterr().err
    assert (tmp_path / "verdicts.csv").exists()
    assert (tmp_path / "check-tuesday" / "report.html").exists()
