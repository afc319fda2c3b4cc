from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, metrics
from caveat.scores import MSP

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import ODIN, extract  # noqa: E402


@pytest.fixture
def cnn():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, 5)
    )


def linear(weight):
    model = nn.Linear(len(weight[0]), len(weight), bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(weight))
    return model


def test_a_linear_model_by_hand():
    # z = x: (1, 0) predicts class 0. With T = 2: p = sigmoid(1/2); dCE/dx = ((p - 1), 1 - p) / 2, signs (-, +).
    # The step of 0.25 gives (1.25, -0.25), so the score is -sigmoid(1.5 / 2).
    found = ODIN(linear([[1.0, 0.0], [0.0, 1.0]]), temperature=2.0, noise=0.25).score(torch.tensor([[1.0, 0.0]]))
    assert found[0] == pytest.approx(-1 / (1 + np.exp(-0.75)), rel=1e-6)


def test_a_zero_gradient_moves_nothing():
    model = linear([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # the third value is not read
    moved = ODIN(model, temperature=1.0, noise=0.5).step(torch.tensor([[1.0, 0.0, 7.0]]))
    assert moved.tolist() == [[1.5, -0.5, 7.0]]


def test_the_step_follows_the_gradient_of_autograd(cnn):
    x = torch.randn(6, 1, 8, 8)
    moved = ODIN(cnn, temperature=10.0, noise=0.01).step(x)
    cnn.eval()
    for i in range(6):  # sample by sample, the literal way
        one = x[i : i + 1].clone().requires_grad_(True)
        z = cnn(one) / 10
        loss = -torch.log_softmax(z, dim=1)[0, z.argmax()]
        loss.backward()
        torch.testing.assert_close(moved[i : i + 1], x[i : i + 1] - 0.01 * one.grad.sign())


def test_the_step_makes_the_model_surer(cnn):
    x = torch.randn(50, 1, 8, 8)
    # Without curvature it always would; a small step leaves no exception here.
    assert (ODIN(cnn, 1000.0, 1e-3).score(x) < ODIN(cnn, 1000.0, 0).score(x)).all()


def test_without_a_step_it_is_the_softmax_at_that_temperature(cnn):
    x = torch.randn(30, 1, 8, 8)
    expected = MSP(temperature=1000.0).score(extract(cnn, [x]))
    np.testing.assert_allclose(ODIN(cnn, noise=0).score(x), expected, rtol=1e-6)
    assert np.unique(ODIN(cnn, noise=0).score(x)).size == 30  # float32 would tie some


def test_class_scores_are_minus_log_probabilities(cnn):
    x = torch.randn(9, 1, 8, 8)
    found = ODIN(cnn).class_scores(x)
    np.testing.assert_allclose(np.exp(-found).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(-np.exp(-found.min(axis=1)), ODIN(cnn).score(x), rtol=1e-12)


def test_batches_arrays_and_loaders_agree_and_the_model_is_left_alone(cnn):
    cnn.train()
    cnn[4].eval()
    before = {key: value.clone() for key, value in cnn.state_dict().items()}
    x = torch.randn(20, 1, 8, 8)
    whole = ODIN(cnn).score(x)
    np.testing.assert_allclose(ODIN(cnn).score(x.numpy()), whole, rtol=1e-7)
    np.testing.assert_allclose(ODIN(cnn).score([(x[:7], torch.zeros(7)), x[7:]]), whole, rtol=1e-7)
    with torch.inference_mode():
        np.testing.assert_allclose(ODIN(cnn).score(x), whole, rtol=1e-7)
    assert all(torch.equal(before[key], value) for key, value in cnn.state_dict().items())
    assert [module.training for module in cnn] == [True, True, True, True, False, True]
    assert all(p.grad is None and p.requires_grad for p in cnn.parameters())


def test_outliers_of_a_trained_model_are_stranger():
    torch.manual_seed(0)
    centers = 3 * torch.randn(3, 10)
    y = torch.arange(300) % 3
    x = centers[y] + torch.randn(300, 10)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    odin = ODIN(model, noise=0.05)
    inlier = odin.score(centers[y] + torch.randn(300, 10))
    assert metrics.auroc(inlier=inlier, outlier=odin.score(torch.randn(300, 10))) > 0.9


def test_bad_models_inputs_and_parameters_are_explained(cnn):
    with pytest.raises(InputError, match="temperature must be a positive number"):
        ODIN(cnn, temperature=0)
    with pytest.raises(InputError, match="noise must be a finite number"):
        ODIN(cnn, noise=-0.1)
    with pytest.raises(InputError, match=r"must return logits \(n, C\), got \(2, 4, 6, 6\)"):
        ODIN(cnn[:3]).score(torch.zeros(2, 1, 8, 8))
    with pytest.raises(InputError, match=r"inputs that have a gradient, got torch.int64"):
        ODIN(nn.Embedding(3, 3)).score(torch.tensor([0, 1]))
    with pytest.raises(InputError, match="inputs .*at least one"):
        ODIN(cnn).score([])
    with pytest.raises(InputError, match="is NaN, first at row 1"):
        ODIN(cnn).score(torch.stack([torch.zeros(1, 8, 8), torch.full((1, 8, 8), float("nan"))]))


def test_a_model_that_writes_into_its_input_is_stepped_too():
    torch.manual_seed(0)
    linear, x = nn.Linear(4, 3), torch.randn(5, 4)
    former = x.clone()
    scribbling = nn.Sequential(nn.ReLU(inplace=True), linear)
    plain = nn.Sequential(nn.ReLU(), linear)
    np.testing.assert_array_equal(ODIN(scribbling, noise=0.1).score(x), ODIN(plain, noise=0.1).score(x))
    ODIN(scribbling, noise=0).score(x)
    assert torch.equal(x, former)
