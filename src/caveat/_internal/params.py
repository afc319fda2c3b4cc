"""Parameters of a dataclass, each declared with the check that its value must pass.

A class writes ``temperature: float = positive(1.0)`` and calls ``check_params(self)`` in ``__post_init__``: it checks
every declared parameter and keeps it as a plain Python number. Where the default is None, None is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from caveat._internal.deprecation import warn_deprecated

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


def choice(default: T, known: Iterable[str], what: str = "", *, renamed: Mapping[str, str] | None = None) -> T:
    """One of the known names, or an old name of one; ``what`` stands for the parameter in the message."""

    def check(value: Any, name: str) -> str:
        if isinstance(value, str) and value in (renamed or {}):
            new = (renamed or {})[value]
            warn_deprecated(f"{name}='{value}'", new=f"{name}='{new}'", since="0.2")
            value = new
        return check_known(value, known, what or name)

    return _declared(default, check)


def moved(new: str, *, since: str, check: Callable[..., Any], **options: Any) -> Any:
    """A parameter that went elsewhere: None, or an old value that still works, with a warning that names ``new``."""
    metadata = {"check": partial(check, **options), "moved": partial(warn_deprecated, new=new, since=since)}
    return field(default=None, metadata=metadata)


def moved_seed(new: str = "fit(train, rng=...)") -> Any:
    """A seed of the constructor, which ``fit`` takes since 0.2."""
    return moved(new, since="0.2", check=as_count, least=0)


def parameters(kind: Any) -> list[Field[Any]]:
    """The parameters of a dataclass or of an object of one, without those that went elsewhere, unless they are set."""
    return [
        declared for declared in fields(kind)
        if "moved" not in declared.metadata or getattr(kind, declared.name) is not None
    ]  # fmt: skip


def shown(self: Any) -> str:
    """The ``__repr__`` of a dataclass with a parameter that went elsewhere."""
    values = (f"{declared.name}={getattr(self, declared.name)!r}" for declared in parameters(self))
    return f"{type(self).__qualname__}({', '.join(values)})"


def check_params(self: Any) -> None:
    """Check every declared parameter of a dataclass and keep what the check returns."""
    for declared in fields(self):
        value = getattr(self, declared.name)
        if value is not None and "moved" in declared.metadata:
            declared.metadata["moved"](f"{type(self).__name__}({declared.name}=...)")
        check = declared.metadata.get("check")
        if check is not None and not (value is None and declared.default is None):
            object.__setattr__(self, declared.name, check(value, declared.name))
