from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax as reference

from caveat import Outputs
from caveat.scores._probabilities import log_mean_exp, log_probabilities, log_softmax, logits_of


def test_agrees_with_scipy_and_is_exact_where_scipy_is_not():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, 7)) * 5
    np.testing.assert_allclose(log_softmax(logits.copy()), reference(logits, axis=1), rtol=1e-12, atol=1e-14)
    sure = np.array([[60.0, 0.0, -3.0]])
    assert reference(sure, axis=1)[0, 0] == 0  # the trap: every sure row ties
    assert log_softmax(sure.copy())[0, 0] == pytest.approx(-(np.exp(-60) + np.exp(-63)), rel=1e-12)


def test_huge_logits_and_ties():
    np.testing.assert_allclose(log_softmax(np.array([[1e4, 1e4], [-1e4, 0.0]])), [[-np.log(2)] * 2, [-1e4, 0.0]])


def test_temperature_divides_the_logits_and_the_input_stays():
    said = Outputs(logits=[[4.0, 0.0]])
    np.testing.assert_allclose(log_probabilities(said, 2.0), reference([[2.0, 0.0]], axis=1))
    np.testing.assert_array_equal(said.logits, [[4.0, 0.0]])


def test_given_probabilities_are_normalized_and_zeros_stay_finite():
    said = Outputs(probs=[[1.0, 0.0], [0.5, 0.505]])
    log_p = log_probabilities(said)
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1)
    assert logits_of(said)[0, 0] == 0


def test_log_mean_exp():
    values = np.log([[1.0, 2.0], [3.0, 6.0]])
    np.testing.assert_allclose(np.exp(log_mean_exp(values)), [2.0, 4.0])
