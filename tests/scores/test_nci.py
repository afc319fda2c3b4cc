from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat.scores import NCI

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def literal(train, outputs, a):
    mean = train.features.mean(axis=0)
    found = []
    for h in outputs.features:
        winner = int(train.head.logits(h[None])[0].argmax())
        centerd = h - mean
        found.append(-(train.head.weight[winner] @ centerd / np.linalg.norm(centerd) + a * np.abs(h).sum()))
    return np.array(found)


def test_by_hand():
    # mu = (1.5, 1.5); h = (4, 0): h - mu = (2.5, -1.5), norm sqrt 8.5, along w_0: 2.5; ||h||_1 = 4
    train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    value = NCI(strength=0.1).fit(train).score(Outputs(features=[[4.0, 0.0]]))
    assert value == pytest.approx([-(2.5 / 8.5**0.5 + 0.4)])


@shapes
def test_is_the_formula_of_the_paper(n, width, classes, make_outputs):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    np.testing.assert_allclose(NCI(strength=0.01).fit(train).score(test), literal(train, test, 0.01), rtol=1e-9)


def test_the_bias_decides_only_which_class_is_predicted(make_outputs):
    train, test = make_outputs(seed=1), make_outputs(seed=2, n=40)
    moved = Outputs(features=train.features, head=Head(train.head.weight, train.head.bias + 3.0))
    np.testing.assert_allclose(NCI().fit(moved).score(test), NCI().fit(train).score(test), rtol=1e-12)


def test_a_row_at_the_mean_has_no_direction():
    train = Outputs(features=[[3.0, 1.0], [1.0, 1.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    assert NCI(strength=0.5).fit(train).score(Outputs(features=[[2.0, 1.0]])) == pytest.approx([-1.5])


def test_a_negative_strength_is_an_error():
    with pytest.raises(InputError, match="strength must be .* at least 0, got -1"):
        NCI(strength=-1)
