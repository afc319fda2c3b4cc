from __future__ import annotations

import subprocess
import sys

import caveat

COMMANDS = (
    "certify", "compare", "data", "demo", "evaluate", "proximity", "report", "reproduce", "scores", "study", "train",
)  # fmt: skip


def test_help_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    for command in COMMANDS:
        assert command in out


def test_version(run):
    assert run("--version")[1].strip() == f"caveat {caveat.__version__}"


def test_every_command_explains_itself(run):
    for command in COMMANDS:
        code, out, _ = run(command, "--help")
        assert code == 0
        assert "Usage: caveat" in out


def test_help_breaks_where_the_terminal_does_not_where_the_source_does(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = run("study", "--help")[1]
    assert "or the store is not usable. 130: stopped by Ctrl-C." in out


def test_trouble_of_the_operating_system_is_one_sentence(run, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run("reproduce", "--docs", tmp_path / "file" / "page.md")
    assert code == 2
    assert err.startswith(f"error: {tmp_path / 'file'}")
    assert "cannot be written: a part of the path is a file" in err
    assert err.count("\n") == 1


def test_seeds_and_counts_below_zero_are_refused(run, tmp_path):
    for command in (["evaluate"], ["demo"], ["proximity"], ["certify", tmp_path]):
        code, _, err = run(*command, "--seed", "-1")
        assert code == 2
        assert "--seed" in err


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


def test_the_package_runs_as_a_module():
    call = [sys.executable, "-m", "caveat", "--version"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True)
    assert done.returncode == 0
    assert done.stdout.strip().endswith(caveat.__version__)
