from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from caveat import InputError
from caveat._mixtures import Mixture, fit_mixture


@pytest.mark.parametrize("diagonal", [False, True])
def test_density_agrees_with_scipy(diagonal):
    rng = np.random.default_rng(0)
    weights, means = np.array([0.2, 0.8]), rng.normal(size=(2, 3))
    variances = rng.uniform(0.1, 2, size=(2, 3) if diagonal else 2)
    x = rng.normal(size=(20, 3))
    full = np.broadcast_to(variances.reshape(2, -1), (2, 3))
    want = sum(w * multivariate_normal(m, np.diag(v)).pdf(x) for w, m, v in zip(weights, means, full, strict=True))
    np.testing.assert_allclose(Mixture(weights, means, variances).log_density(x), np.log(want), rtol=1e-10)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    mixture = Mixture([0.5, 0.5], rng.normal(size=(2, 4)), [1.0, 2.0])
    x = rng.normal(size=(50, 4))
    whole = mixture.log_density(x)
    monkeypatch.setattr("caveat._blocks.BLOCK_BYTES", 64)
    np.testing.assert_array_equal(mixture.log_density(x), whole)


@pytest.mark.parametrize("covariance", ["spherical", "diag"])
def test_the_fit_is_scikit_learns(covariance):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(6, 0.5, (100, 2))])
    found = fit_mixture(x, 2, rng=np.random.default_rng(1), covariance=covariance, floor=1e-6)
    peer = GaussianMixture(2, covariance_type=covariance, random_state=0).fit(x)
    np.testing.assert_allclose(found.log_density(x), peer.score_samples(x), atol=1e-2)


def test_a_seed_gives_the_same_mixture():
    x = np.random.default_rng(0).random((60, 3))
    one, two = (fit_mixture(x, 4, rng=np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one.means, two.means)


@pytest.mark.parametrize(("weights", "means", "variances", "what"), [
    ([0.5, 0.6], [[0.0], [1.0]], [1.0, 1.0], "sum to 1"),
    ([0.5, 0.5], [[0.0]], [1.0, 1.0], "means must be"),
    ([1.0], [[0.0]], [0.0], "variances must be positive"),
])  # fmt: skip
def test_wrong_parameters_are_named(weights, means, variances, what):
    with pytest.raises(InputError, match=what):
        Mixture(weights, means, variances)


def test_wrong_data_is_named():
    with pytest.raises(InputError, match="at least as many rows as components"):
        fit_mixture(np.zeros((3, 2)), 4, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="2 columns"):
        Mixture([1.0], [[0.0, 0.0]], [1.0]).log_density([[1.0]])
