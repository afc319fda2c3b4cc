from __future__ import annotations

import math

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import fit_classifier  # noqa: E402
from caveat.nn.training import CEDA, OutlierExposure  # noqa: E402
from caveat.nn.training.batch import Batch  # noqa: E402
from caveat.nn.training.oe import uniform_cross_entropy  # noqa: E402


def test_by_hand():
    # p = (3/4, 1/4): -(log 3/4 + log 1/4) / 2
    assert float(uniform_cross_entropy(torch.tensor([[math.log(3), 0.0]]))) == pytest.approx(-math.log(3 / 16) / 2)


def test_the_loss_adds_a_mean_and_a_mean_whatever_the_numbers():
    inputs = torch.tensor([[math.log(3), 0.0]] * 3)  # as logits: p_0 = 3/4
    outliers = torch.tensor([[0.0, 0.0]] * 7)
    loss, parts = OutlierExposure(kappa=0.3).loss(nn.Identity(), Batch(inputs, torch.zeros(3).long(), outliers))
    assert float(loss) == pytest.approx(math.log(4 / 3) + 0.3 * math.log(2))
    assert parts == {"in": pytest.approx(math.log(4 / 3)), "out": pytest.approx(math.log(2)), "kappa": 0.3}


def test_the_gradient_is_that_of_the_divergence_from_uniform():
    torch.manual_seed(0)
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(uniform_cross_entropy(logits), logits)
    torch.testing.assert_close(found, (logits.softmax(dim=1).detach() - 0.25) / 6)  # d/df of CE(uniform, p) is p - 1/K


def test_kappa_follows_its_ramp():
    x, y = torch.zeros(2, 3), torch.tensor([0, 1])
    paradigm = OutlierExposure(kappa=0.4, ramp=(0.2, 0.6))
    found = [
        paradigm.loss(nn.Identity(), Batch(x, y, x, progress=progress))[1]["kappa"] for progress in (0.1, 0.4, 0.9)
    ]
    assert found == pytest.approx([0.0, 0.2, 0.4])


@pytest.mark.parametrize("paradigm", [OutlierExposure(), CEDA()])
def test_outliers_become_uncertain(blobs, small_net, paradigm):
    def far(n, generator):
        return 15 + torch.randn(n, 4, generator=generator)

    strange = far(200, torch.Generator().manual_seed(9))
    plain = fit_classifier(small_net(), blobs(), epochs=30, learning_rate=0.01)
    exposed = fit_classifier(small_net(), blobs(), paradigm, outliers=far, epochs=30, learning_rate=0.01)
    tops = [trained.outputs(strange).probs.max(axis=1).mean() for trained in (plain, exposed)]
    assert tops[1] < tops[0] - 0.2
    assert exposed.outputs(blobs(seed=4)).correct.mean() > 0.9


def test_outliers_may_be_an_array_of_bytes_or_numbers(small_net):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=64)
    x = (rng.random((64, 6, 6)) * 100 + 120 * y[:, None, None]).astype(np.uint8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    bytes_ = rng.integers(0, 256, size=(30, 6, 6)).astype(np.uint8)
    one = fit_classifier(model, (x, y), "oe", outliers=bytes_, epochs=5, learning_rate=0.05)
    assert len(one.history) == 5
    with pytest.raises(InputError, match="paradigm 'oe' learns from outliers"):
        fit_classifier(model, (x, y), "oe")
