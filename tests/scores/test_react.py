from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from caveat import Head, InputError, Outputs
from caveat.scores import ReAct

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def literal(train, outputs, percentile, base):
    threshold = np.percentile(train.features, percentile)
    found = []
    for h in outputs.features:
        clipped = np.array([min(value, threshold) for value in h])
        z = train.head.weight @ clipped + train.head.bias
        found.append(-np.log(np.exp(z).sum()) if base == "energy" else -softmax(z).max())
    return np.array(found)


def test_by_hand():
    # all activations: 0, 0, 3, 3; the median is 1.5; h = (99, 0) is cut to (1.5, 0): log(e^1.5 + 1)
    train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    score = ReAct(percentile=50).fit(train)
    assert score.threshold_ == 1.5
    assert score.score(Outputs(features=[[99.0, 0.0]])) == pytest.approx([-np.log(np.exp(1.5) + 1)])


@shapes
@pytest.mark.parametrize("base", ["energy", "msp"])
def test_is_the_formula_of_the_paper(n, width, classes, base, make_outputs):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    score = ReAct(percentile=80, base=base).fit(train)
    np.testing.assert_allclose(score.score(test), literal(train, test, 80, base), rtol=1e-9)


def test_class_scores_are_the_class_softmax(train, inlier):
    score = ReAct().fit(train)
    clipped = train.head.logits(np.minimum(inlier.features, score.threshold_))
    np.testing.assert_allclose(score.class_scores(inlier), -log_softmax(clipped, axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(softmax(-score.class_scores(inlier), axis=1).sum(axis=1), 1)


def test_class_scores_of_sure_rows_do_not_tie():
    # the threshold is 2, so the logits are (40, 0), and minus log p of the first class is log(1 + e^-40)
    train = Outputs(features=[[2.0, 0.0], [2.0, 2.0]], head=Head([[20.0, 0.0], [0.0, 0.0]]))
    values = ReAct(percentile=99).fit(train).class_scores(train[:1])
    np.testing.assert_allclose(values, [[np.exp(-40.0), 40.0]], rtol=1e-9)


def test_messages():
    with pytest.raises(InputError, match="percentile must be strictly between 0 and 100, got 100"):
        ReAct(percentile=100)
    with pytest.raises(InputError, match=r"unknown base score of react 'enrgy'\. Did you mean 'energy'"):
        ReAct(base="enrgy")
