from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import weibull_min

from caveat import InputError, Outputs
from caveat.scores import OpenMax
from caveat.scores._statistics import gather
from caveat.scores.openmax import CorrectLogits, fit_weibull

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes


def test_weibull_by_hand():
    # equal values have an infinite shape (capped) and their value as scale
    shape, scale = fit_weibull(np.array([[2.0, 2.0, 2.0]]))
    assert shape[0] > 1e3
    assert scale[0] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_weibull_equals_scipy(seed):
    rng = np.random.default_rng(seed)
    tails = rng.weibull(1 + 4 * rng.random((6, 1)), size=(6, 20)) * 10 ** rng.uniform(-3, 3, size=(6, 1))
    tails[0, 15:] = 0  # a shorter row
    shape, scale = fit_weibull(tails)
    for row, k, lam in zip(tails, shape, scale, strict=True):
        values = row[row > 0]
        theirs = weibull_min.fit(values, floc=0)
        np.testing.assert_allclose([k, lam], [theirs[0], theirs[2]], rtol=2e-4)
        ours = weibull_min.logpdf(values, k, scale=lam).sum()
        assert ours >= weibull_min.logpdf(values, *theirs).sum() - 1e-9  # at least as likely


def literal(train, said, tail, top):
    """Algorithms 1 and 2 of the paper, a loop that reads like them."""
    classes = train.logits.shape[1]
    models = {}
    for c in range(classes):
        own = [z for z, y in zip(train.logits, train.labels, strict=True) if y == c and np.argmax(z) == c]
        if not own:
            continue
        mean = np.mean(own, axis=0)
        distances = sorted(np.linalg.norm(z - mean) for z in own)[-tail:]
        if sum(d > 0 for d in distances) >= 3:
            models[c] = (mean, *(x[0] for x in fit_weibull(np.array([distances]))))
    scores = []
    for z in said.logits:
        weights = np.ones(classes)
        ranked = list(np.argsort(-z))[:top]
        for i, c in enumerate(ranked, start=1):
            if c in models:
                mean, shape, scale = models[c]
                beyond = weibull_min.cdf(np.linalg.norm(z - mean), shape, scale=scale)
                weights[c] = 1 - (len(ranked) - i + 1) / len(ranked) * beyond
        known, unknown = z * weights, np.sum(z * (1 - weights))
        scores.append(np.exp(unknown) / (np.exp(unknown) + np.exp(known).sum()))
    return scores


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("tail", "top"), [(20, 3), (5, 10)])
def test_equals_the_loop(make_outputs, shape, tail, top):
    n, width, classes = shape
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    said = make_outputs(n=40, width=width, classes=classes, seed=2)
    score = OpenMax(tail=tail, top=top).fit(train)
    np.testing.assert_allclose(score.score(said), literal(train, said, tail, top), rtol=1e-7, atol=1e-13)


def test_far_beyond_a_steep_tail():
    # all training logits of a class lie at distance 1 from their mean: the Weibull shape is at its limit. Far beyond, F
    # is 1, and the larger of two logits gives all of itself away, the other one half: (0, 9.5) against 20 + 9.5
    turn = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    train = Outputs(logits=np.repeat(8 * np.eye(2), 30, axis=0) + np.tile(ring, (2, 1)), labels=np.repeat([0, 1], 30))
    with np.errstate(all="raise", under="ignore"):
        found = OpenMax().fit(train).score(Outputs(logits=[[20.0, 19.0]]))
    assert found == pytest.approx(1 / (1 + np.exp(-29.5) + np.exp(9.5 - 29.5)))


def test_tails_do_not_depend_on_the_blocks(make_outputs, monkeypatch):
    train = make_outputs(n=300)
    whole = OpenMax().fit(train)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 4096)
    parts = OpenMax().fit(train)
    np.testing.assert_allclose(parts.shape_, whole.shape_, rtol=1e-9)
    np.testing.assert_allclose(parts.scale_, whole.scale_, rtol=1e-12)


def test_scaling_the_logits_scales_the_tails_alone(make_outputs):
    train = make_outputs(n=300)
    scaled = Outputs(logits=train.logits * 1e3, labels=train.labels)
    one, other = OpenMax().fit(train), OpenMax().fit(scaled)
    np.testing.assert_allclose(other.shape_, one.shape_, rtol=1e-8)
    np.testing.assert_allclose(other.scale_, one.scale_ * 1e3, rtol=1e-8)


def test_a_class_that_is_never_right_gives_nothing_away():
    train = Outputs(logits=[[1.0, 0.0], [0.9, 0.0], [1.2, 0.1], [1.5, 0.3]], labels=[0, 0, 0, 1])
    score = OpenMax(top=1).fit(train)
    assert np.isinf(score.scale_[1])
    # class 1 is on top and keeps all: exp(0) / (exp(0) + exp(5) + exp(0))
    assert score.score(Outputs(logits=[[0.0, 5.0]]))[0] == pytest.approx(1 / (2 + np.exp(5)))


def test_parts_add_up(make_outputs):
    train = make_outputs()
    whole, left, right = (gather(part, [CorrectLogits()])[CorrectLogits()]
                          for part in (train, train[:100], train[100:]))  # fmt: skip
    both = left + right
    np.testing.assert_array_equal(both.counts, whole.counts)
    np.testing.assert_allclose(both.means, whole.means, rtol=1e-12)
    with pytest.raises(InputError, match="same shape to be added"):
        left + gather(make_outputs(classes=5), [CorrectLogits()])[CorrectLogits()]


def test_messages():
    with pytest.raises(InputError, match="tail must be a whole number, at least 3 .*got 2"):
        OpenMax(tail=2)
    with pytest.raises(InputError, match="top must be"):
        OpenMax(top=0)
