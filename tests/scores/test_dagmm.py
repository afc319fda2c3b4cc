from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from caveat import InputError, NotFittedError
from caveat.scores.dagmm import _ESTIMATOR, DAGMM, _energies, _gaussians, _start


@pytest.mark.parametrize(("code", "components"), [(1, 4), (2, 3)])
def test_the_gradient_is_that_of_the_loss(code, components):
    rng = np.random.default_rng(code)
    model = DAGMM(code=code, components=components)
    rows = rng.normal(size=(40, 5))
    weights = _start(5, code, components, rng) * 1.5
    keep = (rng.random((40, _ESTIMATOR)) >= 0.5) / 0.5
    _, slope = model._loss(weights, rows, keep)
    step = 1e-6
    for i in rng.choice(weights.size, 150, replace=False):
        there, back = weights.copy(), weights.copy()
        there[i] += step
        back[i] -= step
        numeric = (model._loss(there, rows, keep)[0] - model._loss(back, rows, keep)[0]) / (2 * step)
        assert slope[i] == pytest.approx(numeric, rel=1e-4, abs=1e-6)


def test_energy_is_minus_the_log_density_of_the_mixture():
    rng = np.random.default_rng(0)
    latent, members = rng.normal(size=(60, 3)), rng.dirichlet(np.ones(2), size=60)
    phi, mu, cov = _gaussians(latent, members)
    for k in range(2):  # eq. (5), one Gaussian at a time
        mean = np.average(latent, axis=0, weights=members[:, k])
        np.testing.assert_allclose(mu[k], mean)
        np.testing.assert_allclose(cov[k], np.cov(latent.T, aweights=members[:, k], ddof=0), atol=2e-6)
    density = sum(phi[k] * multivariate_normal(mu[k], cov[k]).pdf(latent) for k in range(2))
    np.testing.assert_allclose(_energies(latent, phi, mu, cov)[0], -np.log(density), rtol=1e-9)


def test_training_lowers_the_loss_and_finds_what_does_not_fit():
    rng = np.random.default_rng(1)

    def near_a_line(n):
        return rng.normal(size=(n, 1)) * [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.normal(size=(n, 4))

    train = near_a_line(300)
    # The covariance penalty of the paper (0.005) keeps the reconstruction error wide, which hides outliers off a line.
    model = DAGMM(epochs=80, learning_rate=5e-3, covariance_weight=1e-6).fit(train)
    start = DAGMM(epochs=1, learning_rate=1e-12, covariance_weight=1e-6).fit(train)
    rows, keep = (train - model.centre_) / model.spread_, np.ones((300, _ESTIMATOR))
    assert model._loss(model.weights_, rows, keep)[0] < start._loss(start.weights_, rows, keep)[0]
    inlier = model.decision_function(near_a_line(100))
    outlier = model.decision_function(rng.normal(size=(100, 4)) * 1.3)
    assert np.mean(outlier[:, None] > inlier) > 0.9


def test_a_seed_decides_and_rows_are_judged_alone():
    rng = np.random.default_rng(2)
    train, test = rng.normal(size=(80, 3)), rng.normal(size=(10, 3))
    model = DAGMM(epochs=3).fit(train)
    np.testing.assert_array_equal(DAGMM(epochs=3).fit(train).decision_function(test), model.decision_function(test))
    assert not np.allclose(DAGMM(epochs=3).fit(train, rng=1).decision_function(test),
                           model.decision_function(test))  # fmt: skip
    alone = [model.decision_function(test[i : i + 1])[0] for i in range(10)]
    np.testing.assert_allclose(alone, model.decision_function(test), rtol=1e-9)


def test_constant_columns_and_zero_rows_stay_finite():
    train = np.zeros((30, 3))
    train[:, 0] = np.linspace(-1, 1, 30)
    values = DAGMM(epochs=2).fit(train).decision_function([[0.0, 0.0, 0.0], [5.0, 1.0, 0.0]])
    assert np.isfinite(values).all()


def test_messages():
    with pytest.raises(NotFittedError, match="DAGMM has not seen training data"):
        DAGMM().decision_function([[1.0]])
    with pytest.raises(InputError, match="X must have 3 columns as in training, got 2"):
        DAGMM(epochs=1).fit(np.eye(3)).decision_function([[1.0, 2.0]])
    with pytest.raises(InputError, match="dropout must be .* at most 0.999999, got 1"):
        DAGMM(dropout=1)
    with pytest.raises(InputError, match="components must be"):
        DAGMM(components=0)
