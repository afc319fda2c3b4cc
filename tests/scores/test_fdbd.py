from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, Outputs
from caveat.scores import FDBD
from caveat.scores.fdbd import reciprocal_distances

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def literal(train, outputs, by="mean"):
    """The sum of the paper, one sample and one class at a time."""
    weight, mean = train.head.weight, train.features.mean(axis=0)
    found = []
    for h in outputs.features:
        z = train.head.logits(h[None])[0]
        winner = int(z.argmax())
        total = 0.0
        for c in range(z.size):
            if c != winner:
                total += abs(z[winner] - z[c]) / np.linalg.norm(weight[winner] - weight[c])
        found.append(-total / (z.size - 1) / np.linalg.norm(h - mean if by == "mean" else h))
    return np.array(found)


def test_by_hand():
    # mu = (1.5, 1.5); h = (4, 0): z = (4, 0), ||w_0 - w_1|| = sqrt 2, distance 4 / sqrt 2,
    # ||h - mu|| = sqrt(6.25 + 2.25) = 2.9155; 2.8284 / 2.9155 = 0.9701
    train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    assert FDBD().fit(train).score(Outputs(features=[[4.0, 0.0]])) == pytest.approx([-4 / 2**0.5 / 8.5**0.5])


@shapes
def test_is_the_sum_of_the_paper(n, width, classes, make_outputs):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    np.testing.assert_allclose(FDBD().fit(train).score(test), literal(train, test), rtol=1e-9)
    np.testing.assert_allclose(FDBD(by="norm").fit(train).score(test), literal(train, test, "norm"), rtol=1e-9)


def test_equal_class_weights_have_no_boundary():
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 40))
    weight[2] = weight[
        1
    ]  # the Gram matrix gives a distance of 1e-8 here, not 0, and its reciprocal would drown the rest
    train = Outputs(features=rng.normal(size=(50, 40)), head=Head(weight, [0.0, 0.0, 0.5]))
    values = FDBD().fit(train).score(train)
    z = train.head.logits(train.features)
    distance = np.linalg.norm(weight[0] - weight[1])
    spread = np.linalg.norm(train.features - train.features.mean(axis=0), axis=1)
    zero_wins = z.argmax(axis=1) == 0
    gaps = np.where(zero_wins, 2 * z[:, 0] - z[:, 1] - z[:, 2], z.max(axis=1) - z[:, 0])
    np.testing.assert_allclose(values, -gaps / distance / 2 / spread, rtol=1e-9)


def test_nearly_equal_weights_keep_their_digits():
    weight = np.random.default_rng(0).normal(size=(2, 30))
    weight[1] = weight[0]
    weight[1, 3] += 1e-9
    exact = 1 / abs(weight[1, 3] - weight[0, 3])
    assert reciprocal_distances(weight)[0, 1] == pytest.approx(exact, rel=1e-12)


def test_a_row_at_the_mean_is_finite_and_the_least_strange():
    train = Outputs(features=[[3.0, 1.0], [1.0, 1.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    values = FDBD().fit(train).score(Outputs(features=[[2.0, 1.0], [2.1, 1.0]]))
    assert np.isfinite(values).all()
    assert values[0] < values[1]
