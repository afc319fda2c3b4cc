from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError
from caveat.scores._neighbors import distances_between, nearest_rows


def literal(rows, k):
    """Every distance from differences, and a stable sort."""
    distances = np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


def test_by_hand():
    # 0, 1, 3, 3.5: the nearest two of 1 are 0 (1 away) and 3 (2 away)
    numbers, distances = nearest_rows(np.array([[0.0], [1.0], [3.0], [3.5]]), 2)
    np.testing.assert_array_equal(numbers, [[1, 2], [0, 2], [3, 1], [2, 1]])
    np.testing.assert_array_equal(distances, [[1, 3], [1, 2], [0.5, 2], [0.5, 2.5]])


@pytest.mark.parametrize(("n", "width"), [(300, 3), (80, 200), (22, 5), (21, 5)])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_against_a_sort_of_everything(n, width, offset):
    rows = np.random.default_rng(n).normal(size=(n, width)) + offset
    numbers, distances = nearest_rows(rows, 20)
    wanted, far = literal(rows, 20)
    np.testing.assert_array_equal(numbers, wanted)
    np.testing.assert_allclose(distances, far, rtol=1e-12)


def test_what_the_product_cannot_see_is_seen():
    # Within a clump of radius 1e-10 at distance 1 from the next, the product rounds every distance to about 1e-8.
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(4), 40, axis=0) + 1e-10 * rng.normal(size=(160, 4))
    numbers, distances = nearest_rows(rows, 5)
    wanted, far = literal(rows, 5)
    np.testing.assert_array_equal(numbers, wanted)
    np.testing.assert_allclose(distances, far, rtol=1e-12)
    assert distances.max() < 1e-9


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_equals_come_in_the_order_of_their_numbers(n, width, values, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(values, size=(n, width)).astype(float)  # few values: mostly copies
    k = int(rng.integers(1, n))
    numbers, distances = nearest_rows(rows, k)
    wanted, far = literal(rows, k)
    np.testing.assert_array_equal(numbers, wanted)
    np.testing.assert_allclose(distances, far)


def test_blocks_do_not_matter(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(150, 4))
    whole = nearest_rows(rows, 7)
    monkeypatch.setattr("caveat.scores._neighbors._BLOCK", 2_000)
    for part, all_at_once in zip(nearest_rows(rows, 7), whole, strict=True):
        np.testing.assert_array_equal(part, all_at_once)


def test_distances_between_named_rows():
    rows = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    found = distances_between(rows, np.array([0, 2]), np.array([[1, 2], [2, 1]]))
    np.testing.assert_array_equal(found, [[5, 10], [0, 5]])


def test_too_few_rows_are_named():
    with pytest.raises(InputError, match="more than 3 rows to have 3 neighbors each, got 3"):
        nearest_rows(np.eye(3), 3)
