"""ViM: residual and logits on one scale."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import CaveatWarning, Head, Outputs
from caveat.scores import Residual, ViM

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def test_by_hand():
    # o = 0; the second moment is diag(98, 2), so the residual is |y|: 1 on both training rows. Logits are x and 0: the
    # largest is 7 and 7. alpha = 7. (3, 2): 7 * 2 - log(e^3 + 1).
    head = Head([[1.0, 0.0], [0.0, 0.0]])
    train = Outputs(features=[[7.0, 1.0], [7.0, -1.0]], head=head)
    found = ViM().fit(train).score(Outputs(features=[[3.0, 2.0]], head=head))
    np.testing.assert_allclose(found, [14 - np.log(np.exp(3) + 1)], rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    residual = Residual().fit(train)
    alpha = sum(max(z) for z in train.logits) / sum(residual.score(train))
    expected = [
        alpha * r - np.log(sum(np.exp(z - max(z)))) - max(z)
        for r, z in zip(residual.score(test), test.logits, strict=True)
    ]
    np.testing.assert_allclose(ViM().fit(train).score(test), expected, rtol=1e-9)


def test_reacts_to_the_bias(train, inlier):
    """With the logits left as they are, another bias moves the origin and with it the residual."""
    moved = Head(train.head.weight, train.head.bias + np.array([3.0, 0.0, -1.0, 0.0]))

    def under(head):
        known = Outputs(features=train.features, logits=train.logits, head=head)
        return ViM().fit(known).score(Outputs(features=inlier.features, logits=inlier.logits))

    assert np.abs(under(moved) - under(train.head)).max() > 0.1


def test_a_training_set_without_residual_gives_finite_scores(make_outputs):
    train = make_outputs(n=10, width=40, classes=4, seed=1)  # ten rows fit into D' = 20 dimensions
    test = make_outputs(n=10, width=40, classes=4, seed=2)
    score = ViM().fit(train)
    assert np.isfinite(score.score(test)).all()
    assert score.score(test).min() > score.score(train).max()


def test_negative_logits_get_a_caveat(train):
    logs = train.logits - train.logits.max() - 1
    with pytest.warns(CaveatWarning, match="the residual of ViM counts backwards"):
        ViM().fit(Outputs(features=train.features, logits=logs, head=train.head))


@pytest.mark.parametrize("rounding", [1e-17, 1e-15, 1e-12])
def test_rounding_in_a_head_without_full_rank_moves_nothing(rounding, train, inlier):
    """Weights that sum to zero over the classes, up to the rounding of a solver: ridge regression leaves such."""
    weight = np.array(train.head.weight, dtype=np.float64)
    weight -= weight.mean(axis=0)
    noise = np.random.default_rng(0).normal(size=weight.shape)

    def scores(head):
        learned = Outputs(features=train.features, logits=train.logits, head=head)
        return ViM().fit(learned).score(inlier)

    exact = scores(Head(weight, np.arange(len(weight), dtype=float)))
    moved = scores(Head(weight * (1 + rounding * noise), np.arange(len(weight), dtype=float)))
    np.testing.assert_allclose(moved, exact, rtol=1e-5)
