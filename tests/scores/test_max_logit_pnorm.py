"""MaxLogit-pNorm: the exponent is chosen on inliers, and the softmax is kept if no exponent beats it."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs
from caveat.metrics import augrc
from caveat.scores import MSP, MaxLogit, MaxLogitPNorm


def inflated(n, seed):
    """Logits whose length says nothing: every row has its own scale, wrong rows often the larger one."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=n)
    logits = rng.normal(size=(n, 5)) + 2 * np.eye(5)[labels]
    wrong = logits.argmax(axis=1) != labels
    return Outputs(logits=logits * np.exp(rng.normal(size=n) + 1.5 * wrong)[:, None], labels=labels)


def honest(n, seed):
    """Labels drawn from the softmax: nothing in the logits says more of errors than the largest probability."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 5)) * rng.choice([0.3, 3.0], size=(n, 1))
    probs = MSP().class_scores(Outputs(logits=logits))
    labels = (np.exp(-probs).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=4)
    return Outputs(logits=logits, labels=labels)


def test_by_hand():
    # (3, 0, 0) centerd is (2, -1, -1): over 4 with p = 1, over sqrt 6 with p = 2, over 2 with a huge p
    said = Outputs(logits=[[3.0, 0.0, 0.0]], labels=[0])
    for p, expected in ((0, -2.0), (1, -2 / 4), (2, -2 / np.sqrt(6)), (1000, -1.0)):
        np.testing.assert_allclose(MaxLogitPNorm(p).fit(said).score(said), [expected], rtol=1e-12)


@pytest.mark.parametrize("p", [0.5, 1, 3, 10])
def test_as_in_the_paper(p):
    said = inflated(60, seed=1)
    expected = []
    for row in said.logits:
        centerd = row - row.mean()
        expected.append(-centerd.max() / np.sum(np.abs(centerd) ** p) ** (1 / p))
    np.testing.assert_allclose(MaxLogitPNorm(p).fit(said).score(said), expected, rtol=1e-9)


def test_the_chosen_exponent_has_the_smallest_augrc():
    said = inflated(800, seed=2)
    score = MaxLogitPNorm().fit(said)
    areas = {p: augrc(score=MaxLogitPNorm(p).fit(said).score(said), correct=said.correct) for p in range(11)}
    assert score.p_ == min(areas, key=areas.get)
    assert areas[score.p_] < augrc(score=MSP().score(said), correct=said.correct)


def test_a_broken_confidence_is_mended_on_other_rows():
    score, said = MaxLogitPNorm().fit(inflated(1000, seed=3)), inflated(2000, seed=4)
    assert augrc(score=score.score(said), correct=said.correct) < 0.8 * augrc(
        score=MSP().score(said), correct=said.correct
    )


def test_falls_back_to_the_order_of_the_softmax():
    score, said = MaxLogitPNorm().fit(honest(3000, seed=5)), honest(200, seed=6)
    assert score.p_ is None
    order = np.argsort(score.score(said))
    np.testing.assert_array_equal(order, np.argsort(MSP().score(said), kind="stable"))


def test_the_fallback_does_not_tie_where_the_softmax_does():
    score = MaxLogitPNorm().fit(honest(3000, seed=5))
    said = Outputs(logits=[[50.0, 0.0, 0.0, 0.0, 0.0], [500.0, 0.0, 0.0, 0.0, 0.0]])
    values = score.score(said)
    assert values[1] < values[0]
    assert np.ptp(MSP().score(said)) == 0


def test_never_worse_than_the_softmax_where_it_was_chosen():
    for seed in range(8):
        said = (inflated, honest)[seed % 2](60, seed=seed)
        score = MaxLogitPNorm().fit(said)
        assert augrc(score=score.score(said), correct=said.correct) <= augrc(
            score=MSP().score(said), correct=said.correct
        )


def test_the_scale_of_a_row_does_not_count():
    said = inflated(100, seed=7)
    scaled = Outputs(logits=said.logits * np.logspace(-30, 30, 100)[:, None], labels=said.labels)
    score = MaxLogitPNorm(4).fit(said)
    np.testing.assert_allclose(score.score(scaled), score.score(said), rtol=1e-9)


def test_exponent_zero_is_the_largest_centerd_logit():
    said = inflated(50, seed=8)
    centerd = Outputs(logits=said.logits - said.logits.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(MaxLogitPNorm(0).fit(said).score(said), MaxLogit().score(centerd), rtol=1e-12)


def test_equal_logits_are_the_strangest():
    said = inflated(50, seed=9)
    for p in (0, 1, 5):
        score = MaxLogitPNorm(p).fit(said)
        assert score.score(Outputs(logits=np.zeros((1, 5))))[0] == 0
        assert score.score(said).max() < 0


@pytest.mark.parametrize(("labels", "kind"), [([0, 1], "right"), ([1, 0], "wrong")])
def test_answers_of_one_kind_leave_the_softmax_with_a_warning(labels, kind):
    with pytest.warns(CaveatWarning, match=f"every prediction is {kind}"):
        score = MaxLogitPNorm().fit(Outputs(logits=[[3.0, 0.0], [0.0, 2.0]], labels=labels))
    assert score.p_ is None


def test_a_negative_exponent_is_refused():
    with pytest.raises(InputError, match="p must be a finite number, at least 0"):
        MaxLogitPNorm(-1)
