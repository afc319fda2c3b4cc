from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from caveat import Head, Outputs
from caveat.scores import PNML
from caveat.scores.pnml import AugmentedGram

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def literal(train, outputs, unit_features=False):
    """As in the paper: pseudo-inverse, then one sample and one class at a time."""

    def augmented(rows):
        return np.hstack([np.ones((len(rows), 1)), rows / np.linalg.norm(rows, axis=1, keepdims=True)])

    x_train = augmented(train.features)
    gram = x_train.T @ x_train
    parallel = np.linalg.pinv(gram, hermitian=True, rcond=1e-12)
    bot = np.eye(gram.shape[0]) - parallel @ gram
    found = []
    for h, x in zip(outputs.features, augmented(outputs.features), strict=True):
        s = x @ parallel @ x
        g = max(x @ bot @ x, s / (1 + s))
        p = softmax(train.head.logits(x[None, 1:] if unit_features else h[None])[0])
        found.append(np.log(sum(p_c / (p_c + p_c**g * (1 - p_c)) for p_c in p)) / np.log(p.size))
    return np.array(found)


def test_by_hand():
    # One training row e_1: X = (1, 1, 0), X^T X has the eigenvalue 2 along (1, 1, 0) / sqrt 2.
    # Query e_2: x = (1, 0, 1); x P x = (1/sqrt 2)^2 / 2 = 1/4, s / (1 + s) = 1/5; x P_bot x = 2 - 1/2 = 3/2: g = 3/2.
    # Query e_1: s = 2 / 2 = 1, g = 1/2, x P_bot x = 0. p = (1/2, 1/2) for both (zero head).
    train = Outputs(features=[[1.0, 0.0]], head=Head(np.zeros((2, 2))))

    def regret(g):
        return np.log(2 * 0.5 / (0.5 + 0.5**g * 0.5)) / np.log(2)

    values = PNML().fit(train).score(Outputs(features=[[0.0, 1.0], [1.0, 0.0]]))
    assert values == pytest.approx([regret(1.5), regret(0.5)])


@shapes
@pytest.mark.parametrize("unit_features", [False, True])
def test_is_the_formula_of_the_paper(n, width, classes, unit_features, make_outputs):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    score = PNML(unit_features=unit_features).fit(train)
    np.testing.assert_allclose(score.score(test), literal(train, test, unit_features), rtol=1e-6, atol=1e-9)


def test_a_query_off_the_training_span_scores_high(make_outputs):
    made = make_outputs(n=400, width=12, seed=1)
    flat = np.array(made.features)
    flat[:, 8:] = 0.0  # the training data spans 8 of 12 directions
    train = Outputs(features=flat, head=made.head)
    score = PNML().fit(train)
    inside = score.score(train)
    across = np.zeros((1, 12))
    across[0, 9] = 10.0
    outside = score.score(Outputs(features=across))
    p = softmax(made.head.logits(across)[0])
    assert outside[0] > inside.max()
    # x = (1, e_9): all of e_9 lies outside the span, so g >= 1 and every class keeps at least 1 / (2 - p)
    assert outside[0] >= np.log(np.sum(1 / (2 - p))) / np.log(p.size) - 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_no_direction(dtype):
    # Features of rank 5 in 30 dimensions, rounded: the 25 directions of rounding must not count as training data.
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 30))
    features = (rng.normal(size=(500, 5)) @ mixing).astype(dtype)
    score = PNML().fit(Outputs(features=features, head=Head(np.zeros((3, 30), dtype=dtype))))
    assert np.count_nonzero(score.inside_) == 6
    assert score.outside_.sum() == 25


def test_certain_predictions_stay_finite():
    head = Head([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    train = Outputs(features=[[1.0, 0.0], [0.5, 1.0], [2.0, 1.0]], head=head)
    values = PNML().fit(train).score(Outputs(features=[[5000.0, 0.0], [0.0, -5000.0], [0.0, 0.0]]))
    assert np.isfinite(values).all()


def test_sure_rows_do_not_tie():
    # g = 1/2 as by hand above, p = (1 - a, a) with a = e^-z: the regret is a^(1 - g) - a to leading order, over log 2
    for z in (80.0, 90.0):
        train = Outputs(features=[[1.0, 0.0]], head=Head([[z, 0.0], [0.0, 0.0]]))
        value = PNML().fit(train).score(train)[0]
        assert value == pytest.approx((np.exp(-z / 2) - np.exp(-z)) / np.log(2), rel=1e-9, abs=0)


def test_the_gram_matrix_merges(train, inlier):
    def gathered(outputs):
        found = AugmentedGram()
        found.begin(outputs)
        for block in outputs.blocks(("features",)):
            found.update(block)
        return found

    together = Outputs(features=np.concatenate([train.features, inlier.features]))
    both, once = gathered(train) + gathered(inlier), gathered(together)
    np.testing.assert_allclose(both.gram, once.gram, rtol=1e-12)
    assert both.resolution == once.resolution
