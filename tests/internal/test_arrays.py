"""Small steps on arrays: float16 is widened, nothing else changes; read-only views protect the array behind them."""

from __future__ import annotations

import numpy as np
import pytest

from caveat._internal.arrays import read_only, widened


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
