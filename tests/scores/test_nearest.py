from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.scores._nearest import kth_nearest, nearest_by_group
from caveat.scores._statistics import unit_rows


def setting(seed, n, m, width):
    rng = np.random.default_rng(seed)
    return unit_rows(rng.normal(size=(n, width))), rng.normal(size=(m, width)) * rng.uniform(0.1, 9, size=(m, 1))


def distances(queries, bank):
    return np.linalg.norm(queries[:, None] - unit_rows(bank)[None], axis=2)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 20), m=st.integers(1, 60), width=st.integers(1, 8), data=st.data())
def test_the_kth_is_the_kth(seed, n, m, width, data):
    k = data.draw(st.integers(1, m))
    queries, bank = setting(seed, n, m, width)
    found = kth_nearest(queries, bank, np.linalg.norm(bank, axis=1), k)
    all_of_them = distances(queries, bank)
    chosen = all_of_them[np.arange(n), found]
    np.testing.assert_allclose(chosen, np.sort(all_of_them, axis=1)[:, k - 1], atol=1e-7)


def test_a_bank_longer_than_a_tile_and_more_queries_than_a_chunk(monkeypatch):
    queries, bank = setting(1, 50, 400, 5)
    whole = kth_nearest(queries, bank, np.linalg.norm(bank, axis=1), 7)
    monkeypatch.setattr("caveat.scores._nearest._TILE", 13)
    monkeypatch.setattr("caveat.scores._nearest._QUERIES", 9)
    np.testing.assert_array_equal(kth_nearest(queries, bank, np.linalg.norm(bank, axis=1), 7), whole)


@pytest.mark.parametrize("groups", [3, 7])
def test_the_nearest_of_each_group(groups):
    queries, bank = setting(2, 20, 90, 4)
    group = np.random.default_rng(3).integers(groups - 1, size=90)  # the last group stays empty
    closeness, where = nearest_by_group(queries, bank, np.linalg.norm(bank, axis=1), group, groups)
    all_of_them = distances(queries, bank)
    for g in range(groups - 1):
        mine = np.flatnonzero(group == g)
        np.testing.assert_array_equal(where[:, g], mine[np.argmin(all_of_them[:, mine], axis=1)])
        np.testing.assert_allclose(2 - 2 * closeness[:, g], all_of_them[:, mine].min(axis=1) ** 2, atol=1e-9)
    assert np.isneginf(closeness[:, -1]).all()


@pytest.mark.parametrize("k", [1, 2, 30])
def test_a_small_bank_gives_the_neighbor_of_the_search_in_tiles(k, monkeypatch):
    rng = np.random.default_rng(k)
    queries, bank = unit_rows(rng.normal(size=(300, 6))), rng.normal(size=(900, 6))
    bank[5] = 0.0
    lengths = np.linalg.norm(bank, axis=1)
    at_once = kth_nearest(queries, bank, lengths, k)
    monkeypatch.setattr("caveat.scores._nearest._SMALL_BANK", 0)
    np.testing.assert_array_equal(at_once, kth_nearest(queries, bank, lengths, k))
