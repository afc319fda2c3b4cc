from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError, Outputs
from caveat.scores import (
    MCMSP,
    MSP,
    Entropy,
    MCEntropy,
    MCExpectedEntropy,
    MCMutualInformation,
    MCVariance,
)

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def softmax(row):
    """One row, with no care for overflow."""
    total = sum(np.exp(float(z)) for z in row)
    return [np.exp(float(z)) / total for z in row]


def entropy(p):
    return -sum(q * np.log(q) for q in p if q > 0)


def test_by_hand():
    # two passes (3/4, 1/4) and (1/4, 3/4): mean (1/2, 1/2)
    said = Outputs(mc_logits=np.log([[[0.75, 0.25]], [[0.25, 0.75]]]))
    each = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert MCMSP().score(said)[0] == pytest.approx(-0.5)
    assert MCEntropy().score(said)[0] == pytest.approx(np.log(2))
    assert MCExpectedEntropy().score(said)[0] == pytest.approx(each)
    assert MCMutualInformation().score(said)[0] == pytest.approx(np.log(2) - each)
    assert MCVariance().score(said)[0] == pytest.approx(0.0625)  # both classes: (1/4)^2


@shapes
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=min(n, 100), width=width, classes=classes)
    expected = {"msp": [], "entropy": [], "expected": [], "mutual": [], "variance": []}
    for i in range(said.n):
        passes = [softmax(row) for row in said.mc_logits[:, i]]
        mean = np.mean(passes, axis=0)
        expected["msp"].append(-max(mean))
        expected["entropy"].append(entropy(mean))
        expected["expected"].append(np.mean([entropy(p) for p in passes]))
        expected["mutual"].append(entropy(mean) - np.mean([entropy(p) for p in passes]))
        expected["variance"].append(np.mean([np.mean([(p[k] - mean[k]) ** 2 for p in passes]) for k in range(classes)]))
    for score, key in [
        (MCMSP(), "msp"),
        (MCEntropy(), "entropy"),
        (MCExpectedEntropy(), "expected"),
        (MCMutualInformation(), "mutual"),
        (MCVariance(), "variance"),
    ]:
        np.testing.assert_allclose(score.score(said), expected[key], rtol=1e-8, atol=1e-12)


@given(st.integers(0, 10**6), st.floats(1e-18, 30))
def test_mutual_information_is_never_negative(seed, spread):
    logits = np.random.default_rng(seed).normal(size=(4, 6, 3)) * spread
    values = MCMutualInformation().score(Outputs(mc_logits=logits))
    assert (values >= 0).all()
    assert (values <= np.log(3) + 1e-12).all()


def test_passes_that_agree_say_what_one_says(make_outputs):
    said = make_outputs()
    same = Outputs(logits=said.logits, mc_logits=np.stack([said.logits] * 3))
    np.testing.assert_allclose(MCMSP().score(same), MSP().score(same), rtol=1e-12)
    np.testing.assert_allclose(MCEntropy().score(same), Entropy().score(same), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(MCMutualInformation().score(same), 0, atol=1e-15)
    np.testing.assert_allclose(MCVariance().score(same), 0, atol=1e-15)


def test_small_disagreement_keeps_its_digits():
    # logits (0, +-e): p = 1/2 +- e/4, and the mutual information is 2 (e/4)^2 to leading order
    for e in (1e-6, 1e-9):
        said = Outputs(mc_logits=[[[0.0, e]], [[0.0, -e]]])
        assert MCMutualInformation().score(said)[0] == pytest.approx(2 * (e / 4) ** 2, rel=1e-6, abs=0)


def test_sure_passes_keep_their_digits():
    # two passes with p = (1 - a, a) and (1 - b, b), a and b below the step of a float at 1, m = (a + b) / 2. To leading
    # order the mutual information is (a log(a / m) + b log(b / m)) / 2, and both classes have variance ((a - b) / 2)^2
    a, b = np.exp(-40.0), np.exp(-41.0)
    m = (a + b) / 2
    said = Outputs(mc_logits=[[[40.0, 0.0]], [[41.0, 0.0]]])
    expected = (a * np.log(a / m) + b * np.log(b / m)) / 2
    assert MCMutualInformation().score(said)[0] == pytest.approx(expected, rel=1e-12, abs=0)
    assert MCVariance().score(said)[0] == pytest.approx(((a - b) / 2) ** 2, rel=1e-12, abs=0)


def test_message():
    with pytest.raises(InputError, match=r"needs outputs\.mc_logits, which is None\. Store logits of T"):
        MCEntropy().score(Outputs(logits=[[1.0, 0.0]]))
