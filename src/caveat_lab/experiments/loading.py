"""One loader from the tables of a TOML file to frozen dataclasses: types and declared checks say what a key may hold.

A wrong key, type or value gets one sentence with the path of the key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from caveat._internal.checks import as_list, check_known
from caveat.errors import InputError

__all__ = ["different", "load", "naming", "typed"]

T = TypeVar("T")
_CALLED = {str: "text", int: "a whole number", float: "a number", dict: "a table", bool: "true or false"}


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Put in front of every InputError what it is about, such as the file that was read."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def load(
    kind: type[T],
    content: Mapping[str, Any],
    path: str = "",
    /,
    *,
    read: Mapping[str, Callable[[Any, str], Any]] | None = None,
    **fixed: Any,
) -> T:
    """A dataclass from a table: every key must be a field of it, of the declared type.

    A field declared with ``caveat._internal.params`` must also pass its check.

    Parameters
    ----------
    kind, content, path
        The dataclass, the table, and the path of the table in its file.
    read
        Field -> function of value and path that reads it, in place of its declared type.
    fixed
        Values of fields that are not in the file.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from caveat._internal.params import level
    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     title: str
    ...     alpha: float = level(0.1)
    >>> load(Settings, {"title": "A", "alfa": 0.2})
    Traceback (most recent call last):
    caveat.errors.InputError: unknown key 'alfa'. Did you mean 'alpha'? Known: alpha, title.
    >>> load(Settings, {"title": "A", "alpha": "small"}, "plan")
    Traceback (most recent call last):
    caveat.errors.InputError: plan.alpha must be a number, got 'small'.
    """
    hints = get_type_hints(kind)
    names = [declared.name for declared in fields(kind)]  # type: ignore[arg-type]
    paths = {name: f"{path}.{name}" if path else name for name in names}
    for key in content:
        check_known(f"{path}.{key}" if path else key, (paths[name] for name in paths if name not in fixed), "key")
    values = dict(fixed)
    for declared in fields(kind):  # type: ignore[arg-type]
        name = declared.name
        if name in content:
            reader, check = (read or {}).get(name), declared.metadata.get("check")
            value = content[name]
            value = typed(hints[name], value, paths[name]) if reader is None else reader(value, paths[name])
            values[name] = value if check is None else check(value, paths[name])
        elif name not in fixed and declared.default is MISSING and declared.default_factory is MISSING:
            raise InputError(f"{paths[name]} is missing. Add it to the file.")
    return kind(**values)


def different(values: Iterable[Any], path: str) -> tuple[Any, ...]:
    """The values, which must differ from each other.

    >>> different([4, 8, 4], "passes")
    Traceback (most recent call last):
    caveat.errors.InputError: passes has 4 twice. Leave one of them out.
    """
    values = tuple(values)
    texts = [value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in values]
    if len(set(texts)) < len(texts):
        text = next(text for text in texts if texts.count(text) > 1)
        raise InputError(f"{path} has {text} twice. Leave one of them out.")
    return values


def typed(hint: Any, value: Any, path: str) -> Any:
    """A value of the declared type: one value will do for a list, a whole number for a number."""
    kinds = [kind for kind in (get_args(hint) if NoneType in get_args(hint) else (hint,)) if kind is not NoneType]
    hint = kinds[0]
    if hint is Any:
        return value
    if is_dataclass(hint):
        return load(hint, typed(dict, value, path), path)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if not isinstance(value, list):
            return (typed(item, value, path),)
        return tuple(typed(item, part, f"{path}[{i}]") for i, part in enumerate(as_list(value, path)))
    if get_origin(hint) is Mapping:
        item = get_args(hint)[1]
        return {key: typed(item, part, f"{path}.{key}") for key, part in typed(dict, value, path).items()}
    if hint is float and type(value) is int:
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise InputError(f"{path} must be {_CALLED[hint]}, got {value!r}.")
    return value
