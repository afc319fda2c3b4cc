from __future__ import annotations

import errno
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings

import pytest
import typer

import caveat
from caveat.cli.app import app
from caveat.demo.strange import MADE

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


@pytest.mark.parametrize(
    ("args", "words", "see"),
    [
        (["evaluat"], "No such command 'evaluat'", "caveat -h"),
        (["--foo"], "--foo", "caveat -h"),
        (["guard", "fit", "--foo"], "--foo", "caveat guard fit -h"),
        (["threshold", "x.npz", "y.npz", "z" * 100], "z" * 100, "caveat threshold -h"),
        (["report"], "Missing argument", "caveat report -h"),
    ],
)
def test_a_wrong_argument_is_one_uncut_line_that_names_the_help(args, words, see, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.endswith(f" See: {see}\n")
    assert err.count("\n") == 1


def test_no_command_at_all_shows_the_help(run):
    for group in ([], ["guard"]):
        out = run(*group)[1]
        assert "Usage: caveat" in out


def test_h_is_help_everywhere(run):
    for args in every_help():
        code, out, _ = run(*args[:-1], "-h")
        assert code == 0
        assert out == run(*args)[1]
        assert "-h" in out


@pytest.mark.parametrize("columns", ["80", "100"])
def test_no_help_cuts_a_path_or_an_address(columns, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    wide = {tuple(args): run(*args)[1] for args in every_help()}
    monkeypatch.setenv("COLUMNS", columns)
    for args, whole in wide.items():
        words = set(run(*args)[1].split())
        names = {word for word in whole.split() if re.search(r"\w/\w|://|\.(npz|toml|html|csv|json|onnx)\b", word)}
        assert names <= words, (args, names - words)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for(shell, run, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    code, out, _ = run("--show-completion", shell)
    assert code == 0
    assert f"_CAVEAT_COMPLETE=complete_{shell}" in out
    if shell == "bash":
        asked = {"COMP_WORDS": "caveat guard ex", "COMP_CWORD": "2"}
    else:
        asked = {"_TYPER_COMPLETE_ARGS": "caveat guard ex", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for name, value in (asked | {"_CAVEAT_COMPLETE": f"complete_{shell}"}).items():
        monkeypatch.setenv(name, value)
    answer = run()[1]
    assert "export" in answer
    assert "predict" not in answer


def test_the_completion_of_bash_is_installed_and_works(tmp_path):
    """In a shell of its own, with a home folder of its own."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    command = tmp_path / "caveat"
    command.write_text(f'#!{bash}\nexec {shlex.quote(sys.executable)} -m caveat "$@"\n')
    command.chmod(0o755)
    env = os.environ | {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "SHELL": bash}
    script = (
        "caveat --install-completion >/dev/null && source ~/.bashrc && COMP_WORDS=(caveat thr) COMP_CWORD=1 "
        '&& _caveat_completion caveat && echo "${COMPREPLY[*]}"'
    )
    done = subprocess.run([bash, "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["threshold"], done.stderr


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


def every_help():
    """The arguments of the help of the application, of each group and of each command in it."""
    yield ["--help"]
    groups = [([], typer.main.get_command(app))]
    while groups:
        above, group = groups.pop()
        for name, command in group.commands.items():
            yield [*above, name, "--help"]
            if hasattr(command, "commands"):
                groups.append(([*above, name], command))


def test_no_help_loads_the_library():
    helps = list(every_help())
    assert ["guard", "fit", "--help"] in helps
    code = (
        "import sys\nfrom caveat.cli import main\n"
        f"for args in {helps!r}:\n"
        "    try:\n        main(args)\n    except SystemExit as end:\n        assert end.code == 0, args\n"
        "print('loaded', *sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    loaded = set(done.stdout.rpartition("loaded")[2].split())
    commands = ("caveat.cli", "caveat_lab.cli")
    ours = {name for name in loaded if name.startswith("caveat") and not name.startswith(commands)}
    assert ours == {"caveat", "caveat.errors", "caveat_lab"}
    assert not {"numpy", "scipy", "pandas", "torch", "sklearn", "matplotlib", "jinja2", "rich.progress"} & loaded


def test_certify_names_the_outliers_that_it_makes(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert f"made: {', '.join(MADE)}. Default: the first three." in run("certify", "--help")[1]


def test_a_full_disk_is_one_sentence_and_a_warning_of_others_stays_as_it_is(run, monkeypatch):
    def full():
        warnings.warn("careful", UserWarning, stacklevel=1)
        raise OSError(errno.ENOSPC, "No space left on device", "report.html")

    monkeypatch.setattr(importlib.import_module("caveat.scores.catalogue"), "catalogue", full)
    with pytest.warns(UserWarning, match="careful"):
        code, _, err = run("scores")
    assert code == 2
    assert "error: report.html cannot be read or written (No space left on device)." in err
    assert "careful" not in err
