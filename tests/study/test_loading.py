"""A wrong key, type or value of a file gets one sentence with its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from caveat import InputError
from caveat._internal.params import level
from caveat_lab.experiments.loading import load, typed


@dataclass(frozen=True)
class Inner:
    run: str
    names: tuple[str, ...] = ("all",)


@dataclass(frozen=True)
class Table:
    title: str = ""
    alpha: float = level(0.1)
    limit: int | None = None
    inner: Inner | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


def test_an_unknown_key_is_named_with_its_path_and_the_nearest():
    with pytest.raises(InputError, match=r"unknown key 'sources\.a\.titel'\. Did you mean 'sources\.a\.title'"):
        load(Table, {"titel": "x"}, "sources.a")


def test_a_key_like_no_other_gets_the_list_only():
    with pytest.raises(InputError, match=r"^unknown key 'zzz'\. Known: names, run\.$"):
        load(Inner, {"zzz": 1})


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [("x", int, "a whole number"), (1.5, int, "a whole number"), (True, int, "a whole number"), (1, str, "text"),
     (True, float, "a number"), ([1], dict, "a table"), (1, bool, "true or false")],
)  # fmt: skip
def test_a_wrong_type_is_named(value, kind, said):
    with pytest.raises(InputError, match=rf"^a\.b must be {said}, got "):
        typed(kind, value, "a.b")


def test_a_whole_number_will_do_for_a_number():
    assert typed(float, 1, "alpha") == 1.0


def test_a_declared_check_names_the_path():
    with pytest.raises(InputError, match=r"^plan\.alpha must be strictly between 0 and 1, got 2"):
        load(Table, {"alpha": 2}, "plan")


def test_a_missing_key_gives_the_default_or_an_error():
    assert load(Table, {}) == Table()
    with pytest.raises(InputError, match=r"^a\.run is missing"):
        load(Inner, {}, "a")


def test_lists_are_checked_item_by_item():
    assert load(Inner, {"run": "r", "names": "one"}).names == ("one",)
    with pytest.raises(InputError, match=r"names\[1\] must be text, got 2"):
        load(Inner, {"run": "r", "names": ["a", 2]})
    with pytest.raises(InputError, match="names must be a list with at least one"):
        load(Inner, {"run": "r", "names": []})


def test_tables_inside_tables():
    table = load(Table, {"inner": {"run": "r"}, "params": {"k": [1]}, "limit": 3})
    assert table == Table(limit=3, inner=Inner("r"), params={"k": [1]})
    with pytest.raises(InputError, match=r"unknown key 'inner\.rum'\. Did you mean 'inner\.run'"):
        load(Table, {"inner": {"rum": "x"}})
    with pytest.raises(InputError, match=r"^inner must be a table, got 'x'"):
        load(Table, {"inner": "x"})


def test_a_fixed_field_is_not_a_key_and_a_reader_replaces_the_type():
    assert load(Inner, {"names": "a,b"}, read={"names": lambda value, path: value.split(",")}, run="r").names == [
        "a",
        "b",
    ]
    with pytest.raises(InputError, match="unknown key 'run'"):
        load(Inner, {"run": "x"}, run="r")
