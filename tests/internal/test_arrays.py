"""Small steps on arrays: float16 is widened, nothing else changes; read-only views protect the array behind them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from caveat._internal import arrays
from caveat._internal.arrays import in_type, read_only, widened


def test_only_float16_is_widened():
    assert widened(np.array([256.0], np.float16)).dtype == np.float32
    for kind in (np.float32, np.float64, np.int16):
        array = np.ones(3, kind)
        assert widened(array) is array


def test_a_read_only_view_shares_the_values_and_leaves_the_array_writable():
    array = np.zeros(3)
    view = read_only(array)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    array[0] = 2
    assert view[0] == 2


SINGLE = np.dtype(np.float32)


def test_a_large_learned_array_is_cast_once_and_forgotten_with_it():
    learned = np.random.default_rng(0).normal(size=(150, 150))
    first = in_type(learned, SINGLE)
    assert np.array_equal(first, learned.astype(np.float32))
    assert in_type(learned, SINGLE) is first
    with pytest.raises(ValueError, match="read-only"):
        learned[0, 0] = 1.0  # the kept cast would no longer be that of the array
    count = len(arrays._casts)
    del learned
    gc.collect()
    assert len(arrays._casts) == count - 1


def test_another_array_at_the_same_place_in_memory_is_cast_anew():
    for value in range(20):
        learned = np.full((150, 150), float(value))
        assert in_type(learned, SINGLE)[0, 0] == value
        del learned


def test_a_small_array_is_cast_each_time_and_stays_writable():
    learned = np.ones(3)
    assert in_type(learned, SINGLE) is not in_type(learned, SINGLE)
    learned[0] = 2.0
