from __future__ import annotations

import subprocess
import sys

import typer

import caveat
from caveat.cli.app import app
from caveat.data.strange import MADE

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
    ours = {"caveat", "caveat.errors"}
    assert {name for name in loaded if name.startswith("caveat") and not name.startswith("caveat.cli")} == ours
    assert not {"numpy", "scipy", "pandas", "torch", "sklearn", "matplotlib", "jinja2", "rich.progress"} & loaded


def test_certify_names_the_outliers_that_it_makes(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert f"made: {', '.join(MADE)}. Default: the first three." in run("certify", "--help")[1]
