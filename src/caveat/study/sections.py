"""Tables of a TOML file, read with checks: a wrong key or type gets one sentence with the key's path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, final

from caveat._internal.checks import as_list, check_known
from caveat.errors import InputError

__all__ = ["Section", "naming"]

T = TypeVar("T")
_CALLED = {
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "a table",
    list: "a list",
    bool: "true or false",
}


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Inside, every InputError says in front what it is about, such as the file that was read."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


@final
class Section:
    """One table and the path to it. Each ``take`` hands out one key; ``known`` refuses the keys that do not exist.

    Examples
    --------
    >>> plan = Section({"title": "A", "alfa": 0.1})
    >>> plan.take("title", str, "")
    'A'
    >>> plan.known("title", "alpha")
    Traceback (most recent call last):
    caveat.errors.InputError: unknown key 'alfa'. Did you mean 'alpha'? Known: alpha, title.
    >>> Section({"k": "ten"}, "scores[0]").take("k", int, 1)
    Traceback (most recent call last):
    caveat.errors.InputError: scores[0].k must be a whole number, got 'ten'.
    """

    def __init__(self, content: Mapping[str, Any], path: str = "") -> None:
        self.content, self.path = content, path

    def at(self, key: str) -> str:
        """The path of a key, as a person would write it."""
        return f"{self.path}.{key}" if self.path else key

    def known(self, *names: str) -> None:
        """Raise InputError naming the first key that is none of these, and the nearest that is."""
        for key in self.content:
            check_known(self.at(key), map(self.at, names), "key")

    def take(self, key: str, kind: type[T], default: T) -> T:
        """The value of a key, or the default; a whole number will do where a number is asked for."""
        if key not in self.content:
            return default
        return self._typed(self.content[key], kind, self.at(key))

    def need(self, key: str, kind: type[T]) -> T:
        """The value of a key that must be there."""
        if key not in self.content:
            raise InputError(f"{self.at(key)} is missing. Add it to the plan.")
        return self._typed(self.content[key], kind, self.at(key))

    def many(self, key: str, kind: type[T], default: Sequence[T] = ()) -> tuple[T, ...]:
        """A list of values of one type; one without the list will do."""
        if key not in self.content:
            return tuple(default)
        value = self.content[key]
        if not isinstance(value, list):
            return (self._typed(value, kind, self.at(key)),)
        items = enumerate(as_list(value, self.at(key)))
        return tuple(self._typed(item, kind, f"{self.at(key)}[{i}]") for i, item in items)

    def section(self, key: str) -> Section:
        """A table inside this one; an empty one if it is not there."""
        return Section(self.take(key, dict, {}), self.at(key))

    def sections(self, key: str) -> Iterable[tuple[str, Section]]:
        """The tables inside a table, by name."""
        inside = self.section(key)
        for name in inside.content:
            yield name, Section(inside.need(name, dict), inside.at(name))

    @staticmethod
    def _typed(value: Any, kind: type[T], path: str) -> T:
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)  # type: ignore[return-value]
        if not right:
            raise InputError(f"{path} must be {_CALLED[kind]}, got {value!r}.")
        return value  # type: ignore[no-any-return]
