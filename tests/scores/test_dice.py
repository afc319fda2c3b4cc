from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, Outputs
from caveat.scores import DICE

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def literal(train, outputs, percentile):
    weight, mean = train.head.weight, train.features.mean(axis=0)
    contributions = [[weight[c, j] * mean[j] for j in range(weight.shape[1])] for c in range(weight.shape[0])]
    border = np.percentile(contributions, percentile)
    found = []
    for h in outputs.features:
        z = []
        for c in range(weight.shape[0]):
            kept = [weight[c, j] * h[j] for j in range(weight.shape[1]) if contributions[c][j] > border]
            z.append(sum(kept) + train.head.bias[c])
        found.append(-np.log(np.exp(z).sum()))
    return np.array(found)


def test_by_hand():
    # mean (2, 2): contributions 2, 0.2, 0.4, 2; their median 1.2 keeps the two ones: logits (4, 0)
    train = Outputs(features=[[3.0, 1.0], [1.0, 3.0]], head=Head([[1.0, 0.1], [0.2, 1.0]]))
    score = DICE(percentile=50).fit(train)
    np.testing.assert_array_equal(score.head_weight_, np.eye(2))
    assert score.score(Outputs(features=[[4.0, 0.0]])) == pytest.approx([-np.log(np.exp(4) + 1)])


@shapes
def test_is_the_formula_of_the_paper(n, width, classes, make_outputs):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    test = make_outputs(n=20, width=width, classes=classes, seed=2)
    np.testing.assert_allclose(DICE(percentile=70).fit(train).score(test), literal(train, test, 70), rtol=1e-9)


def test_a_tenth_of_the_weights_is_left(make_outputs):
    train = make_outputs(width=50, classes=10)
    assert np.count_nonzero(DICE().fit(train).head_weight_) == 50


def test_the_head_that_was_given_is_left_alone(train):
    before = np.array(train.head.weight)
    DICE().fit(train)
    np.testing.assert_array_equal(train.head.weight, before)
