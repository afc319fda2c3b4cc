"""Directions in which a class is widest: from its columns, and from the inner products of its rows."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Outputs
from caveat.scores import Mahalanobis
from caveat.scores import _covariance as own

WIDTH, RANK = 60, 10


def centered(n, seed=0, spread=1.0):
    """Rows with mean zero whose columns become narrower."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, WIDTH)) * np.arange(1.0, WIDTH + 1) ** -spread
    return rows - rows.mean(axis=0)


def by_columns(rows, start):
    scatter = own._Scatter([rows], np.eye(WIDTH, dtype=rows.dtype), rows_are_white=True)
    return own._widest(scatter, start, RANK)


START = np.random.default_rng(7).normal(size=(WIDTH, RANK + 8))


@pytest.mark.parametrize("n", [2, 8, 11, 18, 19, 20, 40, 100])
def test_inner_products_of_the_rows_give_the_same_directions(n):
    rows = centered(n)
    few, many = own._widest_of_few(rows, START, RANK), by_columns(rows, START)
    rank = min(n - 1, RANK)
    np.testing.assert_allclose(few.values, many.values, atol=1e-12 * many.values[0])
    same = np.abs(np.sum(few.axes * many.axes, axis=0))[:rank]
    np.testing.assert_allclose(same, 1, atol=1e-9)
    assert not few.axes[:, rank:].any()
    np.testing.assert_allclose(few.axes.T @ few.axes, np.diag(np.arange(RANK) < rank), atol=1e-11)


def test_all_directions_of_few_rows_are_the_singular_vectors():
    rows = centered(7)
    few = own._widest_of_few(rows, START, RANK)
    np.testing.assert_allclose(few.values[:6], np.linalg.svd(rows)[1][:6] ** 2, rtol=1e-12)
    np.testing.assert_allclose(few.axes @ np.diag(few.values) @ few.axes.T, rows.T @ rows, atol=1e-12)


@pytest.mark.parametrize("n", [14, 100])
def test_float32_directions_are_orthonormal_or_refused(n):
    for spread in (0, 1, 2, 3, 4):
        few = own._widest_of_few(centered(n, spread=spread).astype(np.float32), START, RANK)
        if few is None:
            assert spread > 1
        else:
            np.testing.assert_allclose(few.axes.T @ few.axes, np.eye(RANK), atol=2e-5)
    assert few is None  # the narrowest of 10 columns has 1e-8 of the variance of the first: nothing is left of it


def test_repeated_rows_are_refused():
    rows = np.repeat(centered(5), 3, axis=0)
    assert own._widest_of_few(rows, START, RANK) is None


@pytest.mark.parametrize("rows_per_class", [1, 2, 5, 30])
def test_class_scores_do_not_depend_on_the_way(rows_per_class, monkeypatch):
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(6), rows_per_class)
    labels = np.concatenate([labels, np.full(40, 6)])  # so that there is variance within a class
    train = Outputs(features=rng.normal(size=(labels.size, WIDTH)) + 3 * labels[:, None], labels=labels)
    scores = Mahalanobis(class_rank=RANK).fit(train).class_scores(train)
    monkeypatch.setattr(own, "_widest_of_few", lambda *_: None)
    other = Mahalanobis(class_rank=RANK).fit(train).class_scores(train)
    np.testing.assert_allclose(scores, other, rtol=1e-9, atol=1e-9)  # a row that is its class has the distance 0
