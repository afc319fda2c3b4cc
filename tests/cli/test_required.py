"""A required value that is left out is one sentence, also where typer hands over None for it."""

from __future__ import annotations

import pytest
import typer

from caveat import InputError
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


@pytest.mark.parametrize("command", list(commands()))
def test_none_for_a_required_value_is_named(command):
    required = [parameter for parameter in command.params if parameter.required]
    values = {parameter.name: None if parameter in required else parameter.default for parameter in command.params}
    if not required:
        pytest.skip("nothing is required")
    with pytest.raises(InputError, match=r"^(--[\w-]+|[A-Z]+) is missing. Add --help"):
        command.callback(**values)
