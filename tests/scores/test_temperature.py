from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from caveat import CaveatWarning, Head, InputError, Outputs
from caveat.scores import MSP, Energy, MaxLogit, MCEntropy, TempScale, fit_temperature, make, with_temperature


def held_out(n=400, classes=4, temperature=1.0, seed=0):
    """Logits that are honest at T = 1, then divided: labels are drawn from the softmax itself."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, classes)) * 2
    probs = np.exp(log_softmax(logits, axis=1))
    labels = (probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=classes - 1)
    return Outputs(logits=logits * temperature, labels=labels)


def loss(said, temperature):
    return -np.mean([log_softmax(z / temperature)[y] for z, y in zip(said.logits, said.labels, strict=True)])


def test_by_hand():
    # two classes, margin 4, three of four right: sigmoid(4 / T) = 3/4, so T = 4 / log 3
    said = Outputs(logits=[[4.0, 0.0]] * 3 + [[0.0, 4.0]], labels=[0, 0, 0, 0])
    assert fit_temperature(said) == pytest.approx(4 / np.log(3), rel=1e-9)


@pytest.mark.parametrize("classes", [2, 100])
@pytest.mark.parametrize("scale", [1e-1, 1.0, 30.0])
def test_no_other_temperature_is_likelier(classes, scale):
    said = held_out(classes=classes, temperature=scale)
    best = fit_temperature(said)
    least = loss(said, best)
    for factor in (0.9, 0.999, 1.001, 1.1):
        assert loss(said, best * factor) > least


@pytest.mark.parametrize("scale", [7.0, 1e-2, 1e-5, 1e3, 1e6])  # cosines and sums of log-likelihoods are logits too
def test_scaling_the_logits_scales_the_temperature(scale):
    assert fit_temperature(held_out(temperature=scale)) == pytest.approx(scale * fit_temperature(held_out()), rel=1e-8)


def test_finds_the_temperature_that_was_put_in():
    # promise: the estimate of 1/T is normal with variance 1 / (n E Var_p(z)); four standard deviations
    said = held_out(n=20_000, temperature=2.5, seed=3)
    z = said.logits / 2.5
    p = np.exp(log_softmax(z, axis=1))
    information = ((p * z**2).sum(axis=1) - (p * z).sum(axis=1) ** 2).sum()
    assert abs(2.5 / fit_temperature(said) - 1) < 4 / np.sqrt(information)


def test_given_probabilities_serve_as_well():
    said = held_out(temperature=3.0)
    probs = np.exp(log_softmax(said.logits, axis=1))
    assert fit_temperature(Outputs(probs=probs, labels=said.labels)) == pytest.approx(fit_temperature(said), rel=1e-7)


def test_no_error_means_no_minimum():
    with pytest.warns(CaveatWarning, match=r"still improves at T = 1e-08, .* so T = 1 is used\. Fit the temperature"):
        assert fit_temperature(Outputs(logits=[[9.0, 0.0], [0.0, 9.0]], labels=[0, 1])) == 1.0


def test_one_error_in_a_thousand_is_enough():
    # margin 9, one of 1000 wrong: sigmoid(9 / T) = .999; Newton from T = 1 alone would crawl
    said = Outputs(logits=[[9.0, 0.0]] * 1000, labels=[0] * 999 + [1])
    assert fit_temperature(said) == pytest.approx(9 / np.log(999), rel=1e-9)
    steep = Outputs(logits=[[90.0, 0.0]] * 1000, labels=[0] * 999 + [1])
    assert fit_temperature(steep) == pytest.approx(90 / np.log(999), rel=1e-9)
    flat = Outputs(logits=[[0.1, 0.0]] * 1000, labels=[0] * 999 + [1])
    assert fit_temperature(flat) == pytest.approx(0.1 / np.log(999), rel=1e-9)


def test_logits_that_say_nothing_get_the_hottest():
    assert fit_temperature(Outputs(logits=[[9.0, 0.0], [0.0, 9.0]], labels=[1, 0])) == 100.0


def test_the_score_is_msp_at_the_fitted_temperature():
    validation, said = held_out(temperature=5.0), held_out(seed=1, temperature=5.0)
    score = TempScale().fit(validation)
    same = MSP(temperature=fit_temperature(validation))
    np.testing.assert_array_equal(score.score(said), same.score(said))
    np.testing.assert_array_equal(score.class_scores(said), same.class_scores(said))


@pytest.mark.parametrize("name", ["msp", "entropy", "gen", "renyi", "guessing", "collision", "max_logit", "energy"])
def test_any_logit_score_can_be_fed(name):
    said = held_out()
    by_hand = Outputs(logits=said.logits / 3)
    np.testing.assert_allclose(make(name).score(with_temperature(said, 3.0)), make(name).score(by_hand), rtol=1e-9)


def test_every_field_is_scaled_or_shared(make_outputs):
    said = make_outputs(dtype=np.float32)
    scaled = with_temperature(said, 2.0)
    assert scaled.stored() == said.stored()
    np.testing.assert_array_equal(scaled.logits, said.logits / 2)
    np.testing.assert_array_equal(scaled.mc_logits, said.mc_logits / 2)
    np.testing.assert_allclose(scaled.head.logits(said.features), scaled.logits, rtol=1e-4, atol=1e-4)
    assert np.shares_memory(scaled.features, said.features)
    assert list(scaled.layers) == list(said.layers)
    np.testing.assert_array_equal(scaled.correct, said.correct)
    assert not np.allclose(MCEntropy().score(scaled), MCEntropy().score(said))


def test_half_precision_is_not_rounded_again(make_outputs):
    said = make_outputs(dtype=np.float16)
    scaled = with_temperature(said, 1.37)
    np.testing.assert_allclose(MSP().class_scores(scaled), MSP(1.37).class_scores(said), rtol=1e-5, atol=1e-5)
    assert np.unique(scaled.logits).size == np.unique(said.logits).size  # no two logits become one
    wide = Head(said.head.weight.astype(np.float64) / 1.37)
    np.testing.assert_allclose(scaled.head.weight, wide.weight, rtol=1e-6)
    given = with_temperature(Outputs(probs=np.array([[0.875, 0.125]], dtype=np.float16)), 3.0)
    np.testing.assert_allclose(given.probs[0, 0], 7 ** (1 / 3) / (7 ** (1 / 3) + 1), rtol=1e-6)
    assert np.isfinite(with_temperature(Outputs(logits=np.array([[700, 0]], dtype=np.float16)), 0.01).logits).all()


def test_logits_that_come_from_the_head_are_scaled_too(make_outputs):
    said = make_outputs()
    derived = Outputs(features=said.features, head=Head(said.head.weight, said.head.bias))
    np.testing.assert_allclose(MaxLogit().score(with_temperature(derived, 4.0)), MaxLogit().score(said) / 4)
    np.testing.assert_allclose(Energy().score(with_temperature(derived, 4.0)),
                               Energy(temperature=4.0).score(said) / 4)  # fmt: skip


def test_probabilities_are_raised_and_normalized():
    # (.8, .2) at T = 2: sqrt gives 2 : 1
    scaled = with_temperature(Outputs(probs=[[0.8, 0.2]], labels=[0]), 2.0)
    np.testing.assert_allclose(scaled.probs, [[2 / 3, 1 / 3]])


def test_messages():
    with pytest.raises(InputError, match=r"fit_temperature needs outputs\.labels, which is None"):
        fit_temperature(Outputs(logits=[[1.0, 0.0]]))
    with pytest.raises(InputError, match="temperature must be a positive number, got 0"):
        with_temperature(Outputs(logits=[[1.0, 0.0]]), 0)
