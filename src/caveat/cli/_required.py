"""Arguments and options that a command cannot do without, with every version of typer.

With the oldest supported typer and the newest click, a required value that is left out reaches the command as None.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import get_type_hints

from typer.models import ArgumentInfo

from caveat.errors import InputError

__all__ = ["demanding"]


def demanding(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which names a required value that is missing instead of working with None.

    >>> def show(name: str, seed: int = 0) -> None: ...
    >>> demanding(show)(name=None, seed=1)
    Traceback (most recent call last):
    caveat.errors.InputError: --name is missing. Add --help to see what the command needs.
    """
    parameters = inspect.signature(command).parameters.values()
    required = [parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty]

    @functools.wraps(command)
    def checked(**values: object) -> None:
        for name in required:
            if values.get(name) is None:
                raise InputError(f"{_shown(command, name)} is missing. Add --help to see what the command needs.")
        command(**values)

    return checked


def _shown(command: Callable[..., None], name: str) -> str:
    """A parameter as the help writes it."""
    hint = get_type_hints(command, include_extras=True)[name]
    for info in getattr(hint, "__metadata__", ()):
        if isinstance(info, ArgumentInfo):
            return str(info.metavar or name.upper())
    return f"--{name.replace('_', '-')}"
