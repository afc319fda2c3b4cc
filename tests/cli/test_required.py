"""A required value that is left out is one sentence, also where typer hands over None for it."""

from __future__ import annotations

import inspect

import pytest
import typer

from caveat import InputError
from caveat.cli._required import demanding
from caveat.cli.app import app


def commands():
    groups = [("", typer.main.get_command(app))]
    while groups:
        above, group = groups.pop()
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                groups.append((f"{above}{name} ", command))
            else:
                yield pytest.param(command, id=f"{above}{name}")


def parameters_of(command):
    return inspect.signature(inspect.unwrap(command.callback)).parameters.values()


def requires_a_value(case):
    return any(parameter.default is inspect.Parameter.empty for parameter in parameters_of(case.values[0]))


@pytest.mark.parametrize("command", list(filter(requires_a_value, commands())))
def test_none_for_a_required_value_is_named(command):
    function, parameters = inspect.unwrap(command.callback), parameters_of(command)
    with pytest.raises(InputError, match=r"^(--[\w-]+|[A-Z]+) is missing. Add --help"):
        demanding(function)(**{parameter.name: None for parameter in parameters})


@pytest.mark.parametrize(("words", "missing"), [
    ("proximity --outlier x.npz", "--inlier"), ("certify model", "--data"), ("threshold", "CALIBRATION"),
    ("guard check g", "OUTPUTS"), ("audit prune g a", "--before"), ("data show", "NAME"), ("study", "PLAN"),
])  # fmt: skip
def test_a_command_without_a_required_value_ends_with_2(run, words, missing):
    code, _, err = run(*words.split())
    assert code == 2
    assert missing.lower() in err.lower()  # versions of typer write arguments in upper or lower case
