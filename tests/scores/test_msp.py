from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import MSP, Energy


def test_by_hand():
    # softmax(log 3, 0) = (3/4, 1/4); at T = 2 the odds are sqrt(3) : 1
    said = Outputs(logits=[[np.log(3), 0.0]])
    assert MSP().score(said)[0] == pytest.approx(-0.75)
    assert MSP(temperature=2).score(said)[0] == pytest.approx(-np.sqrt(3) / (1 + np.sqrt(3)))


def test_given_probabilities_are_used_as_they_are():
    said = Outputs(probs=[[0.7, 0.3], [1.0, 0.0]])
    np.testing.assert_allclose(MSP().score(said), [-0.7, -1.0])
    assert np.isfinite(MSP().class_scores(said)).all()


def test_confident_float32_samples_are_still_told_apart():
    # in float32 both probabilities round to 1; the order must survive
    said = Outputs(logits=np.array([[20.0, 0.0], [25.0, 0.0]], dtype=np.float32))
    sure, surer = MSP().score(said)
    assert surer < sure


def test_huge_logits_do_not_overflow():
    np.testing.assert_array_equal(MSP().score(Outputs(logits=[[1e300, -1e300], [-1e4, -1e4]])), [-1.0, -0.5])


def test_class_scores_give_the_probabilities_back(inlier):
    np.testing.assert_allclose(np.exp(-MSP().class_scores(inlier)), inlier.probs, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0, -1, np.nan, "1"])
def test_temperature_is_positive(temperature):
    with pytest.raises(InputError, match="temperature must be a positive number"):
        MSP(temperature=temperature)


@pytest.mark.parametrize(("n", "width", "classes"), [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)])
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [-max(np.exp(z) for z in row) / sum(np.exp(z) for z in row) for row in said.logits]
    np.testing.assert_allclose(MSP().score(said), slow, rtol=1e-12)


@pytest.mark.parametrize("classes", [3, 10, 100])
def test_float32_logits_keep_sure_rows_apart_and_lose_nothing_else(classes):
    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(4000, classes)).astype(np.float32)
    logits[:, 0] += rng.uniform(0, 34, size=4000).astype(np.float32)  # in float32 half of the largest p would be 1
    score = MSP().score(Outputs(logits=logits))
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=1, keepdims=True)
    rest = np.sort(np.exp(exact), axis=1)[:, :-1].sum(axis=1)
    assert (np.abs(1 + score - rest / (1 + rest)) <= 3e-16).all()
    assert (np.diff(score[np.argsort(rest)]) >= -3e-16).all()
    assert np.unique(score).size > 0.98 * np.unique(1 / (1 + rest)).size
    assert np.unique((1 / (1 + rest)).astype(np.float32)).size < 0.8 * np.unique(score).size


@pytest.mark.parametrize(("classes", "dtype"), [(10, np.float32), (100, np.float32), (100, np.float64)])
@pytest.mark.parametrize("score", [MSP(), Energy(), MSP(temperature=0.5), Energy(temperature=30.0)])
def test_a_row_scores_the_same_bits_alone_and_among_others(classes, dtype, score):
    logits = (5 * np.random.default_rng(0).normal(size=(3000, classes))).astype(dtype)
    together = score.score(Outputs(logits=logits))
    for rows in (slice(0, 1), slice(7, 50), slice(1999, 3000)):
        np.testing.assert_array_equal(score.score(Outputs(logits=logits[rows])), together[rows])
