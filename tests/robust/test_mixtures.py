from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from caveat import InputError
from caveat_lab.robust.mixtures import Mixture, fit_mixture


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
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 64)
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
    with pytest.raises(InputError, match="components must be .* at most 3, got 4"):
        fit_mixture(np.zeros((3, 2)), 4, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="2 columns"):
        Mixture([1.0], [[0.0, 0.0]], [1.0]).log_density([[1.0]])


def test_a_common_variance_is_found_and_shared():
    # Three tight groups of known spread: (100 * 0.3^2 each) around their centers; EM with one variance finds 0.09.
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    data = np.concatenate([center + 0.3 * rng.normal(size=(400, 2)) for center in centers])
    mixture = fit_mixture(data, 3, rng=rng, covariance="common")
    assert np.unique(mixture.variances).size == 1
    # 2,400 squared normals: a standard error of 0.09 sqrt(2 / 2400) = 0.0026, and the floor of 1e-4.
    assert mixture.variances[0] == pytest.approx(0.0901, abs=4 * 0.0026)
    assert np.sort(mixture.means.sum(axis=1)) == pytest.approx([0, 5, 5], abs=0.1)
    np.testing.assert_allclose(mixture.weights, 1 / 3, atol=1e-3)


def test_a_common_variance_never_has_a_lower_likelihood_after_more_steps():
    rng = np.random.default_rng(1)
    data = rng.normal(size=(300, 4)) * rng.uniform(0.5, 1.5, size=(300, 1))
    found = [
        fit_mixture(data, 5, rng=np.random.default_rng(2), covariance="common", iterations=n).log_density(data).mean()
        for n in (1, 5, 60)
    ]
    assert found[2] >= found[1] - 1e-6 >= found[0] - 2e-6


@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e4), (np.float64, 1e9)])
def test_a_common_variance_does_not_drown_in_an_offset(dtype, offset):
    # Two clusters of variance 1, far from 0: expanded squares have no digit left of it.
    rng = np.random.default_rng(0)
    data = (offset + rng.normal(size=(400, 3)) + 20 * rng.integers(2, size=(400, 1))).astype(dtype)
    mixture = fit_mixture(data, 2, rng=rng, covariance="common")
    assert mixture.variances[0] == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(np.sort(mixture.means, axis=0) - offset, [[0] * 3, [20] * 3], atol=0.4)


def test_fewer_distinct_rows_than_components_is_no_news(recwarn):
    assert fit_mixture(np.ones((10, 3)), 2, rng=np.random.default_rng(0), covariance="common").k == 2
    assert not recwarn
