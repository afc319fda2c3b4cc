"""Declared parameters: checked at construction, kept as plain numbers, None where that is the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from caveat import InputError
from caveat._internal.params import check_params, choice, count, flag, level, number, percent, positive, share


@dataclass
class Settings:
    temperature: float = positive(1.0)
    alpha: float = level(0.1)
    percentile: float = percent(90.0)
    part: float = share(1.0)
    offset: float = number(0.0, least=-1, most=1)
    k: int = count(5, most=9)
    seed: int = count(0, least=0)
    size: int | None = count(None, least=2)
    sure: bool = flag(False)
    kind: str = choice("soft", ("soft", "hard"), "kind of vote")
    free: Any = None

    def __post_init__(self) -> None:
        check_params(self)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 0, "temperature must be a positive number, got 0"),
        ("temperature", 1e-320, "temperature must be between 1e-150 and 1e150"),
        ("temperature", "1", "temperature must be a positive number, got '1'"),
        ("alpha", 1.0, "alpha must be strictly between 0 and 1, got 1.0"),
        ("percentile", 100, "percentile must be strictly between 0 and 100"),
        ("part", 1.1, "part must be above 0 and at most 1"),
        ("offset", 2, "offset must be .* at least -1 and at most 1, got 2"),
        ("k", 0, "k must be a whole number, at least 1 and at most 9, got 0"),
        ("k", 2**40, "at most 9, got 1099511627776"),
        ("k", None, "k must be a whole number"),
        ("seed", -1, "seed must be a whole number, at least 0"),
        ("size", 1, "size must be a whole number, at least 2, got 1"),
        ("sure", "no", "sure must be True or False, got 'no'"),
        ("kind", "sotf", "unknown kind of vote 'sotf'. Did you mean 'soft'"),
        ("kind", ["soft"], r"unknown kind of vote \['soft'\]"),
    ],
)
def test_a_wrong_value_is_named(name, value, message):
    with pytest.raises(InputError, match=message):
        Settings(**{name: value})


def test_values_become_plain_numbers():
    made = Settings(temperature=np.float16(0.5), k=np.int8(3), sure=np.True_, offset=1, free=[1])
    assert repr(made) == (
        "Settings(temperature=0.5, alpha=0.1, percentile=90.0, part=1.0, offset=1.0, k=3, seed=0, size=None, "
        "sure=True, kind='soft', free=[1])"
    )
    assert {type(made.temperature), type(made.k), type(made.sure), type(made.offset)} == {float, int, bool}
