from __future__ import annotations

import subprocess
import sys

import caveat


def test_help_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    for command in ("demo", "evaluate", "scores"):
        assert command in out


def test_version(run):
    assert run("--version")[1].strip() == f"caveat {caveat.__version__}"


def test_every_command_explains_itself(run):
    for command in ("demo", "evaluate", "scores"):
        code, out, _ = run(command, "--help")
        assert code == 0
        assert "Usage: caveat" in out


def test_an_unknown_command_is_exit_code_2(run):
    assert run("evaluat")[0] == 2


def test_the_installed_entry_point_runs():
    done = subprocess.run(
        [sys.executable, "-c", "from caveat.cli import main; main(['--version'])"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert caveat.__version__ in done.stdout
