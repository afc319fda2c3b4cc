from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy

from caveat import InputError, Outputs
from caveat.scores import KLMatching
from caveat.scores._statistics import gather
from caveat.scores.kl_matching import PredictedProbabilities

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def softmax(row):
    """One row, with no care for overflow."""
    total = sum(np.exp(float(z)) for z in row)
    return [np.exp(float(z)) / total for z in row]


def test_by_hand():
    # predicted as 0: mean of (.9, .1) and (.7, .3) = (.8, .2); as 1: (.2, .8)
    train = Outputs(probs=[[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    score = KLMatching().fit(train)
    # (.5, .5) is as far from both: .5 log(.5/.8) + .5 log(.5/.2) = .5 log(.25/.16)
    np.testing.assert_allclose(score.score(Outputs(probs=[[0.8, 0.2], [0.5, 0.5]])), [0, 0.5 * np.log(0.25 / 0.16)],
                               atol=1e-12)  # fmt: skip


@shapes
def test_equals_the_loop(make_outputs, n, width, classes):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    said = make_outputs(n=50, width=width, classes=classes, seed=2)
    posteriors = {}
    for row in train.logits:
        posteriors.setdefault(int(np.argmax(row)), []).append(softmax(row))
    typical = [np.mean(rows, axis=0) for rows in posteriors.values()]  # classes never predicted have none
    assert classes < 100 or len(typical) < classes
    slow = [min(entropy(softmax(row), d) for d in typical) for row in said.logits]
    np.testing.assert_allclose(KLMatching().fit(train).score(said), slow, rtol=1e-8, atol=1e-12)


def test_float32_logits_cost_no_more_digits_than_they_have(make_outputs):
    train, said = make_outputs(classes=20, seed=1), make_outputs(n=80, classes=20, seed=2)
    score = KLMatching().fit(train)
    exact = score.score(said)
    rounded = score.score(Outputs(logits=said.logits.astype(np.float32)))
    moved = np.abs(score.score(Outputs(logits=said.logits.astype(np.float32).astype(np.float64))) - exact).max()
    assert 0 < moved < 1e-5  # what rounding the logits does by itself
    np.testing.assert_allclose(rounded, exact, atol=4 * moved)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_of_an_almost_sure_network_differ(kind):
    # log d = (-.223, -1.609): with a gap of g the score is .223 + e^-g (1.609 - .223 - g - 1) + ...: it rises with g
    train = Outputs(probs=[[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    gaps = np.array([8.0, 12.0, 16.0, 20.0, 25.0, 30.0])
    values = KLMatching().fit(train).score(Outputs(logits=np.stack([0 * gaps, -gaps], axis=1).astype(kind)))
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(values[:2], [entropy([1, np.exp(-g)], [0.8, 0.2]) for g in gaps[:2]], rtol=1e-6)


def test_cache_blocks_do_not_matter(make_outputs, monkeypatch):
    train, said = make_outputs(seed=1), make_outputs(seed=2)
    score = KLMatching().fit(train)
    whole = score.score(said)
    monkeypatch.setattr("caveat.scores.kl_matching._IN_CACHE", 1000)
    np.testing.assert_allclose(score.score(said), whole, rtol=1e-12, atol=1e-15)


def test_a_class_that_no_sample_favors_is_far_but_finite():
    train = Outputs(probs=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    value = KLMatching().fit(train).score(Outputs(probs=[[0.0, 0.0, 1.0]]))[0]
    assert np.isfinite(value)
    assert value > 100


def test_parts_add_up(make_outputs):
    train = make_outputs()
    whole, left, right = (gather(part, [PredictedProbabilities()])[PredictedProbabilities()]
                          for part in (train, train[:100], train[100:]))  # fmt: skip
    both = left + right
    np.testing.assert_array_equal(both.counts, whole.counts)
    np.testing.assert_allclose(both.sums, whole.sums, rtol=1e-12)
    other = gather(make_outputs(classes=5), [PredictedProbabilities()])[PredictedProbabilities()]
    with pytest.raises(InputError, match="same shape to be added"):
        left + other
