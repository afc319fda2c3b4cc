from __future__ import annotations

import math

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training.exposure import (  # noqa: E402
    ACET,
    CEDA,
    OutlierExposure,
    log_confidence,
    uniform_cross_entropy,
    worst_in_ball,
)
from caveat_lab.networks.training.paradigm import Batch  # noqa: E402


def test_the_uniform_loss_by_hand():
    # p = (3/4, 1/4): -(log 3/4 + log 1/4) / 2
    assert float(uniform_cross_entropy(torch.tensor([[math.log(3), 0.0]]))) == pytest.approx(-math.log(3 / 16) / 2)


def test_oe_adds_a_mean_and_a_mean_whatever_the_numbers():
    inputs = torch.tensor([[math.log(3), 0.0]] * 3)  # as logits: p_0 = 3/4
    outliers = torch.tensor([[0.0, 0.0]] * 7)
    loss, parts = OutlierExposure(kappa=0.3).loss(nn.Identity(), Batch(inputs, torch.zeros(3).long(), outliers))
    assert float(loss) == pytest.approx(math.log(4 / 3) + 0.3 * math.log(2))
    assert parts == {"in": pytest.approx(math.log(4 / 3)), "out": pytest.approx(math.log(2)), "kappa": 0.3}


def test_the_gradient_is_that_of_the_divergence_from_uniform():
    torch.manual_seed(0)
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(uniform_cross_entropy(logits).mean(), logits)
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


def test_the_log_confidence_by_hand():
    # p = (3/4, 1/4) and (1/2, 1/2)
    found = log_confidence(torch.tensor([[math.log(3), 0.0], [0.0, 0.0]]))
    assert float(found.mean()) == pytest.approx((math.log(3 / 4) + math.log(1 / 2)) / 2)


def test_ceda_adds_a_mean_and_a_mean_whatever_the_numbers():
    inputs, outliers = torch.tensor([[math.log(3), 0.0]] * 3), torch.tensor([[0.0, math.log(4)]] * 7)
    loss, _ = CEDA(kappa=0.5).loss(nn.Identity(), Batch(inputs, torch.zeros(3).long(), outliers))
    assert float(loss) == pytest.approx(math.log(4 / 3) + 0.5 * math.log(4 / 5))


def test_the_gradient_is_that_of_the_chosen_class():
    torch.manual_seed(0)
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(log_confidence(logits).mean(), logits)
    p = logits.detach().softmax(dim=1)
    chosen = nn.functional.one_hot(p.argmax(dim=1), 4)
    torch.testing.assert_close(found, (chosen - p) / 6)


def test_wrong_ramps_are_named():
    with pytest.raises(InputError, match="kappa must be a finite number, at least 0, got -1"):
        CEDA(kappa=-1)
    with pytest.raises(InputError, match="the ramp of kappa must start"):
        CEDA(ramp=(0.6, 0.2))


def line():
    net = nn.Linear(1, 2, bias=False)
    net.weight.data.copy_(torch.tensor([[1.0], [0.0]]))
    return net


class Bump(nn.Module):
    """Logits (g(x), 0) with g highest at 0.6: a walk upwards from 0.5 passes it."""

    def forward(self, x):
        return torch.cat([10 - 100 * (x - 0.6).square(), torch.zeros_like(x)], dim=1)


def test_the_steps_of_the_appendix():
    # 40 steps of 2 epsilon / 41 reach the border 0.5 + 0.2 after 21; from 0.9 the range ends at 1.
    found = worst_in_ball(line(), torch.tensor([[0.5], [0.9]]), 0.2, log_confidence)
    assert found.flatten().tolist() == pytest.approx([0.7, 1.0])
    # One step of 2 epsilon / 2 = epsilon.
    assert worst_in_ball(line(), torch.tensor([[0.5]]), 0.2, log_confidence, steps=1).item() == pytest.approx(0.7)


def test_the_last_iterate_counts():
    # Each step climbs, so the last of all is the best; with three steps of 0.1 from 0.5 that is 0.8, unevaluated by a
    # loop that stops looking before it.
    found = worst_in_ball(line(), torch.tensor([[0.2]]), 0.2, log_confidence, steps=3)
    assert found.item() == pytest.approx(0.4)
    short = worst_in_ball(line(), torch.tensor([[0.2]]), 0.5, log_confidence, steps=1)
    assert short.item() == pytest.approx(0.7)


def test_the_best_of_all_iterates_not_the_last():
    # Steps of 2 * 0.4 / 2 = 0.4 jump from 0.5 to 0.9, far beyond the top at 0.6: the start stays the best.
    found = worst_in_ball(Bump(), torch.tensor([[0.5]]), 0.4, log_confidence, steps=1)
    assert found.item() == pytest.approx(0.5)
    # Small steps come near the top and pass it; the nearest iterate is kept.
    found = worst_in_ball(Bump(), torch.tensor([[0.5]]), 0.2, log_confidence)
    assert found.item() == pytest.approx(0.6, abs=0.4 / 41)


class Parting(nn.Module):
    """Logits (1, 2x, -5 - 10x): the cross-entropy to uniform rises with x, the confidence falls."""

    def forward(self, x):
        return torch.cat([torch.ones_like(x), 2 * x, -5 - 10 * x], dim=1)


def test_the_iterate_of_the_highest_confidence_is_kept_not_that_of_the_largest_loss():
    x, uniform = torch.tensor([[0.0]]), lambda logits: -logits.log_softmax(dim=1).mean(dim=1)
    for end in (0.2, 0.4):
        assert uniform(Parting()(x + end)) > uniform(Parting()(x))
        assert log_confidence(Parting()(x + end)) < log_confidence(Parting()(x))
    assert worst_in_ball(Parting(), x, 0.4, uniform).item() == 0.0
    # ACET trains on that point: the loss of the outlier is that of the start
    _, parts = ACET(epsilon=0.4).loss(Parting(), Batch(x, torch.tensor([0]), x))
    assert parts["out"] == pytest.approx(uniform(Parting()(x)).item())


def test_a_network_that_writes_into_its_input_does_not_move_the_ball():
    class Scribbling(nn.Module):
        def forward(self, x):
            x *= 0.5
            return torch.cat([x, torch.zeros_like(x)], dim=1)

    x = torch.tensor([[0.5]])
    assert worst_in_ball(Scribbling(), x, 0.2, log_confidence).item() == pytest.approx(0.7)
    assert x.item() == 0.5


def test_a_flat_network_leaves_the_start():
    net = nn.Linear(3, 2)
    net.weight.data.zero_()
    x = torch.rand(4, 3)
    assert torch.equal(worst_in_ball(net, x, 0.3, log_confidence), x)


def test_the_attack_never_leaves_the_ball_or_the_range_and_never_lowers_the_objective():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.rand(50, 6)
    found = worst_in_ball(net, x, 0.3, log_confidence)
    assert (found - x).abs().max() <= 0.3 + 1e-6
    assert found.min() >= 0
    assert found.max() <= 1
    assert (log_confidence(net(found)) >= log_confidence(net(x))).all()


def test_modes_and_weights_are_left_alone():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2))
    net[2].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    worst_in_ball(net, torch.rand(5, 3), 0.1, log_confidence, steps=2)
    assert [module.training for module in net] == [True, True, False, True]
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_objective_by_hand():
    # The outlier 0.5 is moved to 0.7, where the logits are (0.7, 0): cross-entropy to uniform is
    # log(1 + e^0.7) - 0.35. The inlier 0 has logits (0, 0): log 2.
    x, y, out = torch.tensor([[0.0]]), torch.tensor([0]), torch.tensor([[0.5]])
    loss, parts = ACET(epsilon=0.2).loss(line(), Batch(x, y, out))
    uniform = math.log(1 + math.exp(0.7)) - 0.35
    assert loss.item() == pytest.approx(math.log(2) + uniform)
    assert parts == pytest.approx({"in": math.log(2), "out": uniform, "kappa": 1.0})
    # The original objective: log-confidence, 0.7 - log(1 + e^0.7).
    paradigm = ACET(epsilon=0.2, objective="confidence")
    loss, _ = paradigm.loss(line(), Batch(x, y, out))
    assert loss.item() == pytest.approx(math.log(2) + 0.7 - math.log(1 + math.exp(0.7)))


def test_first_inliers_then_outliers_then_their_attack():
    x, y, out = torch.tensor([[0.0]]), torch.tensor([0]), torch.tensor([[0.5]])
    found = [ACET(epsilon=0.2).loss(line(), Batch(x, y, out, progress=p))[0].item() for p in (0.0, 0.1, 0.5)]
    still = math.log(1 + math.exp(0.5)) - 0.25
    moved = math.log(1 + math.exp(0.7)) - 0.35
    assert found == pytest.approx([math.log(2), math.log(2) + still, math.log(2) + moved])


def test_wrong_parameters():
    with pytest.raises(InputError, match="unknown objective 'unifrm'. Did you mean 'uniform'"):
        ACET(objective="unifrm")
    with pytest.raises(InputError, match="epsilon must be a finite number, at least 0"):
        ACET(epsilon=-0.1)
