"""Largest values and sums of each row, against the plain numpy calls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from caveat._internal.by_row import log_sum_exp, row_lengths, row_max, top_and_rest


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


@pytest.mark.parametrize("classes", [1, 10, 64, 65, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 7.0])
def test_log_sum_exp_is_that_of_scipy(classes, dtype, temperature):
    logits = logits_with_far_rows(classes, dtype)
    expected = logsumexp(logits.astype(np.float64) / temperature, axis=1)
    np.testing.assert_allclose(log_sum_exp(logits, temperature), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_rows_whose_exponentials_overflow(classes, temperature):
    logits = logits_with_far_rows(classes, np.float64)
    top, rest = top_and_rest(logits, temperature)
    ordered = np.sort(logits, axis=1)[:, ::-1]
    np.testing.assert_array_equal(top, ordered[:, 0])
    expected = np.exp((ordered[:, 1:] - ordered[:, :1]) / temperature).sum(axis=1)
    np.testing.assert_allclose(rest, expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("classes", [10, 100])
def test_a_row_has_the_same_bits_alone_and_among_others(classes):
    logits = logits_with_far_rows(classes, np.float32)
    one_by_one = [(*top_and_rest(row[None]), log_sum_exp(row[None])) for row in logits[:50]]
    together = (*top_and_rest(logits), log_sum_exp(logits))
    for number, alone in enumerate(zip(*one_by_one, strict=True)):
        np.testing.assert_array_equal(np.concatenate(alone), together[number][:50])


def logits_with_far_rows(classes, dtype):
    """Every fifth row has logits of several thousand, of either sign."""
    rng = np.random.default_rng(classes)
    scale = np.where(np.arange(1500) % 5, 5.0, 3000.0)[:, None]
    return (scale * rng.normal(size=(1500, classes))).astype(dtype)


def test_row_max_and_row_lengths():
    rows = np.random.default_rng(0).normal(size=(40, 9))
    np.testing.assert_array_equal(row_max(rows), rows.max(axis=1))
    np.testing.assert_allclose(row_lengths(rows), np.linalg.norm(rows, axis=1), rtol=1e-14)
