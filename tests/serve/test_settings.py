"""Limits of what clients may send."""

from __future__ import annotations

import pytest

from caveat.errors import InputError
from caveat.serve.settings import Limits


@pytest.mark.parametrize("name", ["body_bytes", "json_bytes", "reading_bytes", "rows", "connections"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "1"])
def test_counts_must_be_whole_and_positive(name, value):
    with pytest.raises(InputError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["body_seconds", "header_seconds", "answer_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "1"])
def test_times_must_be_positive_numbers(name, value):
    with pytest.raises(InputError, match=name):
        Limits(**{name: value})
