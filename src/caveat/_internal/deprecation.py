"""Old names that keep working for two minor releases and say what to use instead.

What is renamed in 0.2 works in 0.2 and 0.3 with a warning and is removed in 0.4. Every helper takes ``since``, the
release that renamed the thing; a test fails in the release that must remove it. The warning points at the first line
outside Caveat, so that users see it for their own code and not for that of other libraries.
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from caveat.errors import CaveatDeprecationWarning, InputError

__all__ = [
    "deprecated",
    "deprecated_attributes",
    "removed_in",
    "renamed_arguments",
    "renamed_fields",
    "warn_deprecated",
]

P = ParamSpec("P")
T = TypeVar("T")
_RELEASES = 2  # minor releases in which an old name works


def removed_in(since: str) -> str:
    """The release without what was deprecated in the release ``since``.

    >>> removed_in("0.2")
    '0.4'
    """
    major, minor = since.split(".")
    return f"{major}.{int(minor) + _RELEASES}"


def warn_deprecated(old: str, *, new: str, since: str) -> None:
    """Warn that ``old`` will go, with both releases and what to use instead."""
    message = f"{old} is deprecated since Caveat {since} and will be removed in {removed_in(since)}. Use {new}."
    warnings.warn(message, CaveatDeprecationWarning, stacklevel=_frames_inside())


def deprecated(new: str, *, since: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function under its old name: it warns and works as before.

    Examples
    --------
    >>> @deprecated("metrics.auroc", since="0.2")
    ... def area():
    ...     return 0.5
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     area()
    0.5
    >>> print(caught[0].message)
    area is deprecated since Caveat 0.2 and will be removed in 0.4. Use metrics.auroc.
    """

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            warn_deprecated(function.__qualname__, new=new, since=since)
            return function(*args, **kwargs)

        return call

    return wrap


def renamed_arguments(*, since: str, **new_by_old: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function whose keyword arguments have new names; the old names still work, with a warning.

    Examples
    --------
    >>> @renamed_arguments(since="0.2", level="alpha")
    ... def quantile(*, alpha):
    ...     return alpha
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     quantile(level=0.1)
    0.1
    >>> print(caught[0].message)
    quantile(level=...) is deprecated since Caveat 0.2 and will be removed in 0.4. Use quantile(alpha=...).
    """

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in new_by_old.keys() & kwargs.keys():
                new, name = new_by_old[old], function.__qualname__
                if new in kwargs:
                    raise InputError(f"{name} takes {new} or its old name {old}, got both. Leave {old} out.")
                warn_deprecated(f"{name}({old}=...)", new=f"{name}({new}=...)", since=since)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return wrap


def renamed_fields(*, since: str, **new_by_old: str) -> Callable[[type[T]], type[T]]:
    """A dataclass whose fields have new names: the old ones still work in the constructor and as attributes.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @renamed_fields(since="0.2", centre="center")
    ... @dataclass
    ... class Ball:
    ...     center: float
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Ball(centre=1.0).centre
    1.0
    >>> print(caught[1].message)
    Ball.centre is deprecated since Caveat 0.2 and will be removed in 0.4. Use Ball.center.
    """

    def old_attribute(kind: type[T], old: str, new: str) -> property:
        def read(self: T) -> Any:
            warn_deprecated(f"{kind.__name__}.{old}", new=f"{kind.__name__}.{new}", since=since)
            return getattr(self, new)

        return property(read, doc=f"Old name of ``{new}``.")

    def wrap(kind: type[T]) -> type[T]:
        make: Any = kind.__init__
        make.__qualname__ = kind.__name__  # the name in the warning: users call the class
        setattr(kind, "__init__", renamed_arguments(since=since, **new_by_old)(make))  # noqa: B010
        for old, new in new_by_old.items():
            setattr(kind, old, old_attribute(kind, old, new))
        return kind

    return wrap


def deprecated_attributes(module: str, new_by_old: Mapping[str, str], *, since: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose old names stand for objects elsewhere.

    A module writes ``__getattr__ = deprecated_attributes(__name__, {"old": "caveat.metrics.new"}, since="0.2")``.
    """

    def look_up(name: str) -> Any:
        if name not in new_by_old:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_deprecated(f"{module}.{name}", new=new_by_old[name], since=since)
        place, _, attribute = new_by_old[name].rpartition(".")
        return getattr(importlib.import_module(place), attribute)

    return look_up


def _frames_inside() -> int:
    """The ``stacklevel`` of a warning in the caller that names the first line outside Caveat."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "caveat":
        depth, frame = depth + 1, frame.f_back
    return depth
