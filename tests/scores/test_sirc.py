"""SIRC: the softmax, augmented by the length or the residual of the features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from caveat import Head, Outputs
from caveat.metrics import auroc
from caveat.scores import MSP, SIRC, Residual, SIRCResidual, make
from caveat.scores._probabilities import log_complement


def test_by_hand():
    # lengths 2 and 4: mean 3, standard deviation 1, so a = 0 and b = 1. Two equal logits: 1 - p = 1/2. Length 3 gives
    # log(1/2) + log(1 + e^-3), length 0 gives log(1/2) + log 2 = 0.
    train = Outputs(features=[[1.0, -1.0], [0.0, 4.0]])
    asked = Outputs(logits=[[0.0, 0.0], [0.0, 0.0]], features=[[-3.0, 0.0], [0.0, 0.0]])
    values = SIRC().fit(train).score(asked)
    np.testing.assert_allclose(values, [np.log(0.5) + np.log1p(np.exp(-3)), 0], atol=1e-12)


@pytest.mark.parametrize("name", ["sirc", "sirc_residual"])
def test_has_the_order_of_the_papers_formula(name, train, inlier, outlier):
    score = make(name).fit(train)
    residual = Residual().fit(train)
    for outputs in (inlier, outlier):
        if name == "sirc":
            known, asked = (np.abs(o.features).sum(axis=1) for o in (train, outputs))
        else:
            known, asked = (-residual.score(o) for o in (train, outputs))
        a, b = known.mean() - 3 * known.std(), 1 / known.std()
        s1 = softmax(outputs.logits, axis=1).max(axis=1)
        papers_confidence = -(1 - s1) * (1 + np.exp(-b * (asked - a)))
        telling = s1 < 1 - 1e-9  # beyond, the paper's formula has lost its digits
        np.testing.assert_allclose(np.exp(score.score(outputs))[telling], -papers_confidence[telling], rtol=1e-6)


def test_a_saturated_softmax_does_not_tie():
    train = Outputs(features=np.eye(3) * 5 + 1)
    logits = np.array([[40.0, 0.0, 0.0], [400.0, 0.0, 0.0], [4000.0, 0.0, 0.0], [4001.0, 0.0, 0.0]])
    values = SIRC().fit(train).score(Outputs(logits=logits, features=np.ones((4, 3)) * 3))
    assert np.isfinite(values).all()
    assert (np.diff(values) < 0).all()
    assert np.unique(MSP().score(Outputs(logits=logits))).size == 1


@pytest.mark.parametrize("classes", [2, 7])
def test_the_logarithm_of_what_is_left_keeps_its_digits(classes):
    from fractions import Fraction

    rng = np.random.default_rng(classes)
    logits = rng.normal(size=(50, classes)) * np.logspace(-2, 2, 50)[:, None]
    values = log_complement(logits.copy())
    for row, value in zip(logits, values, strict=True):
        weights = [Fraction(float(np.exp(z - row.max()))) for z in row]
        weights[int(row.argmax())] = Fraction(0)
        left = sum(weights) / (1 + sum(weights))
        if left > 1e-290:  # exp itself underflows beyond
            assert value == pytest.approx(np.log(float(left)), rel=1e-12)


def test_features_as_in_training_leave_the_order_to_the_softmax():
    rng = np.random.default_rng(0)
    train = Outputs(features=10 + 0.01 * rng.normal(size=(500, 6)))
    asked = Outputs(logits=rng.normal(size=(100, 4)) * 3, features=np.full((100, 6), 10.0))
    order = np.argsort(SIRC().fit(train).score(asked))
    np.testing.assert_array_equal(order, np.argsort(MSP().score(asked), kind="stable"))


def test_short_features_are_stranger_than_the_softmax_says():
    rng = np.random.default_rng(1)
    train = Outputs(features=np.abs(rng.normal(5, 1, size=(500, 8))))
    inside = Outputs(logits=rng.normal(size=(300, 4)) * 3, features=np.abs(rng.normal(5, 1, size=(300, 8))))
    outside = Outputs(logits=rng.normal(size=(300, 4)) * 3, features=np.abs(rng.normal(1, 0.5, size=(300, 8))))
    score = SIRC().fit(train)
    assert auroc(inlier=MSP().score(inside), outlier=MSP().score(outside)) < 0.6
    assert auroc(inlier=score.score(inside), outlier=score.score(outside)) > 0.95


def test_training_features_without_spread_give_finite_scores():
    train = Outputs(features=np.full((5, 4), 2.0))
    values = SIRC().fit(train).score(Outputs(logits=np.zeros((3, 2)), features=[[2.0] * 4, [1.0] * 4, [0.0] * 4]))
    assert np.isfinite(values).all()
    assert (np.diff(values) > 0).all()


def test_a_training_set_without_residual_gives_finite_scores(make_outputs):
    train = make_outputs(n=10, width=40, classes=4, seed=1)  # ten rows fit into D' = 20 dimensions
    test = make_outputs(n=10, width=40, classes=4, seed=2)
    score = SIRCResidual().fit(train)
    assert np.isfinite(score.score(test)).all()
    assert score.score(test).min() > score.score(train).max()


def test_probabilities_serve_as_well(train, inlier):
    given = Outputs(probs=softmax(inlier.logits, axis=1), features=inlier.features)
    np.testing.assert_allclose(SIRC().fit(train).score(given), SIRC().fit(train).score(inlier), rtol=1e-5, atol=1e-5)


def test_one_class_is_judged_by_its_features():
    train = Outputs(features=[[1.0], [2.0], [3.0]])
    values = SIRC().fit(train).score(Outputs(logits=[[3.0], [1.0]], features=[[2.0], [0.0]]))
    assert values[1] > values[0]


def test_the_residual_needs_the_head(train):
    kept = Outputs(features=train.features, logits=train.logits)
    with pytest.raises(ValueError, match="learns from train.head"):
        SIRCResidual().fit(kept)
    assert SIRC().fit(kept).score(kept).shape == (kept.n,)
    assert isinstance(train.head, Head)
