"""Parameters of a dataclass, each declared with the check that its value must pass.

A class writes ``temperature: float = positive(1.0)`` and calls ``check_params(self)`` in ``__post_init__``: it checks
every declared parameter and keeps it as a plain Python number. Where the default is None, None is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import Field, field, fields
from functools import partial
from typing import Any, TypeVar

from caveat._internal.checks import (
    as_count,
    as_flag,
    as_level,
    as_number,
    as_positive,
    as_share,
    check_known,
)

T = TypeVar("T")


def _declared(default: T, check: Callable[..., Any], **options: Any) -> T:
    return field(default=default, metadata={"check": partial(check, **options)})


def positive(default: T) -> T:
    """A number above 0."""
    return _declared(default, as_positive)


def level(default: T) -> T:
    """A number strictly between 0 and 1."""
    return _declared(default, as_level)


def percent(default: T) -> T:
    """A number strictly between 0 and 100."""
    return _declared(default, as_level, top=100)


def share(default: T) -> T:
    """A number above 0 and at most 1."""
    return _declared(default, as_share)


def number(default: T, **ends: float) -> T:
    """A finite number, from ``least`` to ``most`` where those are given."""
    return _declared(default, as_number, **ends)


def count(default: T, **ends: int) -> T:
    """A whole number, at least 1 or ``least``, and at most ``most`` where that is given."""
    return _declared(default, as_count, **ends)


def flag(default: bool) -> bool:
    """True or False."""
    return _declared(default, as_flag)


def choice(default: T, known: Iterable[str], what: str = "") -> T:
    """One of the known names; ``what`` stands for the parameter in the message."""
    return _declared(default, lambda value, name: check_known(value, known, what or name))


def parameters(kind: Any) -> tuple[Field[Any], ...]:
    """The parameters of a dataclass, or of an object of one."""
    return fields(kind)


def check_params(self: Any) -> None:
    """Check every declared parameter of a dataclass and keep what the check returns."""
    for declared in fields(self):
        value = getattr(self, declared.name)
        check = declared.metadata.get("check")
        if check is not None and not (value is None and declared.default is None):
            object.__setattr__(self, declared.name, check(value, declared.name))
