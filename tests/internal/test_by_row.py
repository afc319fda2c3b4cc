"""Largest values and sums of each row, against the plain numpy calls."""

from __future__ import annotations

import numpy as np
import pytest

from caveat._internal.by_row import row_lengths, row_max, top_and_rest


@pytest.mark.parametrize("classes", [1, 2, 10, 64, 65, 300])  # up to 64 classes and above are computed in two ways
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 7.0])
def test_top_and_rest_are_those_of_a_sorted_row(classes, dtype, temperature):
    rng = np.random.default_rng(classes)
    logits = (10 * rng.normal(size=(1500, classes))).astype(dtype)  # several blocks
    logits[::7] = np.round(logits[::7])  # ties, also of the largest
    top, rest = top_and_rest(logits, temperature)
    ordered = np.sort(logits.astype(np.float64), axis=1)[:, ::-1]
    np.testing.assert_array_equal(top, logits.max(axis=1))
    expected = np.exp((ordered[:, 1:] - ordered[:, :1]) / temperature).sum(axis=1)
    np.testing.assert_allclose(rest, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("classes", [3, 100])
def test_all_classes_may_be_the_largest(classes):
    _, rest = top_and_rest(np.zeros((4, classes)))
    np.testing.assert_array_equal(rest, classes - 1)


@pytest.mark.parametrize("classes", [3, 100])
def test_sure_rows_are_kept_apart(classes):
    logits = np.zeros((2, classes), dtype=np.float32)
    logits[:, 0] = 60, 61  # both largest probabilities round to 1
    _, rest = top_and_rest(logits)
    assert rest[0] > rest[1] > 0


@pytest.mark.parametrize("classes", [3, 100])
def test_no_rows_and_no_change_of_the_input(classes):
    assert [part.shape for part in top_and_rest(np.zeros((0, classes)))] == [(0,), (0,)]
    logits = np.random.default_rng(0).normal(size=(50, classes))
    before = logits.copy()
    top_and_rest(logits, 2.0)
    np.testing.assert_array_equal(logits, before)


def test_row_max_and_row_lengths():
    rows = np.random.default_rng(0).normal(size=(40, 9))
    np.testing.assert_array_equal(row_max(rows), rows.max(axis=1))
    np.testing.assert_allclose(row_lengths(rows), np.linalg.norm(rows, axis=1), rtol=1e-14)
