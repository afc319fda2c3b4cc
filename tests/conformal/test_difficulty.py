"""Ease and its bins."""

import numpy as np
import pytest
from scipy.special import softmax

from caveat import Outputs
from caveat.conformal.difficulty import EaseBins, ease, ease_of, logit_noise_ease, regression_ease
from caveat.errors import InputError


def test_ease_by_hand():
    # cos((1,0),(1,0)) = 1, cos((1,0),(3,4)/7) = 3/5; mean .8. cos((.5,.5),(1,0)) twice = .7071
    found = ease(probs=[[1, 0], [0.5, 0.5]], transformed=[[[1, 0], [1, 0]], [[3 / 7, 4 / 7], [0, 1]]])
    assert found == pytest.approx([0.8, np.sqrt(0.5)])
    # exp(0), exp(-1) and exp(-2): mean of the second sample over two copies
    found = regression_ease(prediction=[1.0, 1.0], transformed=[[1.0, 2.0], [1.0, -1.0]])
    assert found == pytest.approx([1.0, (np.exp(-1) + np.exp(-2)) / 2])


def test_ease_reads_outputs_in_blocks():
    rng = np.random.default_rng(0)
    probs, copies = rng.dirichlet(np.ones(4), size=50), rng.dirichlet(np.ones(4), size=(3, 50))
    outputs = Outputs(probs=probs, ease_probs=copies)
    assert ease_of(outputs) == pytest.approx(ease(probs=probs, transformed=copies))
    assert ease_of(outputs[10:20]) == pytest.approx(ease_of(outputs)[10:20])
    with pytest.raises(InputError, match=r"difficulty needs outputs\.ease_probs"):
        ease_of(Outputs(probs=probs))


def test_logit_noise_ranks_by_margin():
    margins = np.linspace(0, 8, 30)
    logits = np.column_stack([margins, np.zeros(30), np.zeros(30)])
    found = logit_noise_ease(Outputs(logits=logits), sigma=1.0, rng=np.random.default_rng(0), copies=400)
    assert np.corrcoef(np.argsort(np.argsort(found)), np.arange(30))[0, 1] > 0.95
    assert ((found > 0) & (found <= 1)).all()


def test_shared_noise_gives_the_cosines_of_its_copies():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 5)).astype(np.float32) * 4
    noise = 1.5 * np.random.default_rng(3).standard_normal((30, 5))
    probs, copies = (softmax(values.astype(np.float64), axis=-1) for values in (logits, logits + noise[:, None]))
    found = logit_noise_ease(Outputs(logits=logits), sigma=1.5, rng=3, copies=30, shared=True)
    np.testing.assert_allclose(found, ease(probs=probs, transformed=copies), rtol=1e-5)


def test_shared_noise_is_the_same_ease_with_less_scatter():
    outputs = Outputs(logits=3 * np.random.default_rng(1).normal(size=(2000, 10)))
    exact = logit_noise_ease(outputs, sigma=1.0, rng=7, copies=2000, shared=True)
    own, shared = (logit_noise_ease(outputs, sigma=1.0, rng=2, copies=copies, shared=shared)
                   for copies, shared in ((20, False), (50, True)))  # fmt: skip
    assert np.abs((own - exact).mean()) < 0.005
    assert np.std(shared - exact) < np.std(own - exact)
    with pytest.raises(InputError, match="sigma"):
        logit_noise_ease(outputs, sigma=21, rng=0, shared=True)


def test_bins_have_equal_mass_and_edges_serve_new_points():
    values = np.random.default_rng(1).random(1000)
    bins = EaseBins.cut(values, 7)
    counts = np.bincount(bins.assign(values))
    assert counts.size == bins.count == 7
    assert counts.max() - counts.min() <= 1
    assert bins.assign([-1.0, 2.0]).tolist() == [0, 6]
    again = bins.assign(values)
    assert max(values[again == 2]) < min(values[again == 3])


def test_equal_eases_are_never_split():
    bins = EaseBins.cut([1.0] * 50 + [0.5] * 50, 10)
    assert bins.count == 2
    assert EaseBins.cut([1.0, 1.0, 1.0], 3).count == 1
    assert EaseBins.cut([1.0, 1.0, 1.0], 3).assign([0.0, 1.0]).tolist() == [0, 0]


def test_clear_errors():
    with pytest.raises(InputError, match=r"ease_probs must be a non-empty array"):
        ease(probs=[[0.5, 0.5]], transformed=[[0.5, 0.5]])
    with pytest.raises(InputError, match=r"bins must be .* at most 2, got 3"):
        EaseBins.cut([0.1, 0.2], 3)
    with pytest.raises(InputError, match=r"probs must be rows of probabilities .* got the sum 0 at row 1"):
        ease(probs=[[0.5, 0.5], [0, 0]], transformed=np.full((2, 2, 2), 0.5))
    with pytest.raises(InputError, match=r"ease_probs must be rows of probabilities"):
        ease(probs=[[0.5, 0.5]], transformed=[[[1e200, 0.0]]])
    with pytest.raises(InputError, match="sigma must be a positive number"):
        logit_noise_ease(Outputs(logits=[[0.0, 1.0]]), sigma=0, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match=r"needs outputs\.logits"):
        logit_noise_ease(Outputs(probs=[[0.5, 0.5]]), sigma=1, rng=np.random.default_rng(0))
