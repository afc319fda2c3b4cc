"""The ensemble of Mahalanobis distances with a step of the input for each layer."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, NotFittedError
from caveat.scores import MDSEnsemble

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import NoisyMDSEnsemble, extract  # noqa: E402

LAYERS = ["1", "3"]


@pytest.fixture
def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3))
    images, labels = torch.rand(120, 1, 8, 8), torch.arange(120) % 3
    images += 0.3 * labels[:, None, None, None]
    train = extract(model.double(), [(images.double(), labels)], layers=LAYERS)
    return model, train, MDSEnsemble(ridge=1e-6).fit(train), torch.rand(6, 1, 8, 8).double()


def literal(model, train, x, noise):
    """Distances (layers,) of one image: mean over positions, pooled covariance, one layer at a time."""
    found = []
    for name, stop in zip(LAYERS, (2, 4), strict=True):
        rows = train.layers[name].mean(axis=(2, 3))
        means = np.stack([rows[train.labels == c].mean(axis=0) for c in range(3)])
        left = rows - means[train.labels]
        covariance = left.T @ left / len(rows)
        covariance += 1e-6 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        inverse, centers = torch.from_numpy(np.linalg.inv(covariance)), torch.from_numpy(means)

        def distance(image, stop=stop, inverse=inverse, centers=centers):
            h = model[:stop](image[None]).mean(dim=(2, 3))[0]
            return torch.stack([(h - m) @ inverse @ (h - m) for m in centers]).min()

        moving = x.clone().requires_grad_(True)
        distance(moving).backward()
        found.append(distance(x - noise * moving.grad.sign()).item())
    return found


@pytest.mark.parametrize("noise", [0.0014, 0.05])
def test_distances_after_the_step_of_each_layer(parts, noise):
    model, train, ensemble, images = parts
    expected = [literal(model, train, x, noise) for x in images]
    found = NoisyMDSEnsemble(model, ensemble, noise=noise)
    np.testing.assert_allclose(found.layer_distances(images), expected, rtol=1e-7)
    score = (np.array(expected) - ensemble.shift_) / ensemble.spread_ @ ensemble.weights_
    np.testing.assert_allclose(found.score(images), score, rtol=1e-6, atol=1e-9)


def test_without_noise_it_is_the_ensemble(parts):
    model, _, ensemble, images = parts
    plain = ensemble.score(extract(model, [images], layers=LAYERS))
    np.testing.assert_allclose(NoisyMDSEnsemble(model, ensemble, noise=0).score(images), plain, rtol=1e-9)


def test_the_step_brings_a_sample_nearer_and_batches_do_not_show(parts):
    model, _, ensemble, images = parts
    model.train()
    before, after = (NoisyMDSEnsemble(model, ensemble, noise=x).layer_distances(images) for x in (0, 1e-3))
    assert (after < before).all()
    split = NoisyMDSEnsemble(model, ensemble, noise=1e-3).layer_distances(images.split(4))
    np.testing.assert_allclose(split, after, rtol=1e-9)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_mistakes_are_explained(parts):
    model, _, ensemble, images = parts
    with pytest.raises(NotFittedError, match="ensemble"):
        NoisyMDSEnsemble(model, MDSEnsemble())
    with pytest.raises(InputError, match="unknown layer '3'"):
        NoisyMDSEnsemble(model[:2], ensemble)
    with pytest.raises(InputError, match="noise"):
        NoisyMDSEnsemble(model, ensemble, noise=-1)
    with pytest.raises(InputError, match="gradient"):
        NoisyMDSEnsemble(model, ensemble).score(torch.zeros(2, 1, 8, 8, dtype=torch.int64))
    other = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Conv2d(2, 4, 3), nn.Tanh()).double()
    with pytest.raises(InputError, match="3 channels on axis 1, got 2"):
        NoisyMDSEnsemble(other, ensemble).score(images)
