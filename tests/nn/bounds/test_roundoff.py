"""Rounding errors carried through a network by lines: sound, and tighter than by absolute weights where units rest."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from tests.nn.bounds.generated import make_network  # noqa: E402
from torch import nn  # noqa: E402

from caveat.nn import in_float64  # noqa: E402
from caveat_lab.bounds import Box, arithmetic_of, input_box, propagate  # noqa: E402
from caveat_lab.bounds.roundoff import difference_errors, output_errors  # noqa: E402


def differences(logits):
    return (logits[:, :, None] - logits[:, None, :]).double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seed", range(12))
def test_the_rounding_of_real_networks_is_within_the_errors(dtype, seed):
    # Every point of the ball, cast to the type of the network and answered there, against the answer in float64.
    generator = torch.Generator().manual_seed(seed)
    net = make_network(generator).to(dtype)
    exact, slack = in_float64(net), arithmetic_of(net)
    x = torch.rand((6, 1, 2, 2), generator=generator, dtype=torch.float64)
    box = input_box(x, 0.05)
    found = difference_errors(exact, box, slack)
    if found is None:
        assert any(isinstance(part, nn.LayerNorm) for part in net)
        return
    each = output_errors(exact, box, slack)
    for _ in range(40):
        points = (box.lower + 2 * box.radius * torch.rand(x.shape, generator=generator).double()).clamp(0, 1)
        with torch.no_grad():
            rounded, real = net(points.to(dtype)), exact(points)
        assert not (
            (differences(rounded) - differences(real)).abs() > found
        ).any()  # where there is no bound, it is NaN
        assert not ((rounded.double() - real).abs() > each).any()


def test_a_chain_of_two_layers_by_hand():
    # z = 2 x at x = 1, then 3 z, in bfloat16 (u = 1/256). The input is cast: u. The first layer has one product and, at
    # most, a bias and a conversion: gamma_3 of size 2; behind it both errors count 3 times, the cast 6 times. The
    # second has gamma_3 of size 6, at values that are off by the first errors themselves, hence the upper limit.
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    net[0].weight.data.fill_(2.0)
    net[1].weight.data.fill_(3.0)
    slack = arithmetic_of(copy.deepcopy(net).bfloat16())
    one = torch.ones(1, 1).double()
    (error,) = output_errors(in_float64(net), Box(one, torch.zeros_like(one)), slack)[0]
    first = 6 * slack.unit + 3 * 2 * slack.lost(3) + 6 * slack.lost(3)
    assert first <= error <= 1.05 * first


def test_units_at_rest_carry_no_error_and_lines_cancel_what_absolute_weights_add_up():
    # Logit 0 is (a + b) - (a + b) of one noisy hidden value h of size 1000: its error cancels in the line.
    class Cancels(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(1, 1), nn.Linear(2, 2, bias=False)
            self.first.weight.data.fill_(1.0)
            self.first.bias.data.fill_(1000.0)
            self.head.weight.data = torch.tensor([[1.0, -1.0], [0.0, 0.0]])

        def forward(self, x):
            h = F.relu(self.first(x))
            return self.head(torch.cat([h, h], dim=1))

    net, slack = Cancels(), arithmetic_of(Cancels())
    box = input_box(torch.full((1, 1), 0.5).double(), 0.1)
    errors = output_errors(in_float64(net), box, slack)
    boxed = propagate(in_float64(net), box, slack=slack)
    real = propagate(in_float64(net), box)
    by_weights = (boxed.radius - real.radius)[0, 0]
    assert by_weights > 8 * 1000 * slack.unit  # each of the two inputs of the head, and its own sum
    assert errors[0, 0] < 0.6 * by_weights
    net.first.bias.data.fill_(-1000.0)  # off for all inputs: exactly 0 in every arithmetic
    assert output_errors(in_float64(net), box, slack).max() < 1e-9


def test_deep_networks_whose_units_rest_have_smaller_errors_by_lines():
    torch.manual_seed(0)
    net = nn.Sequential(*[part for _ in range(6) for part in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 10))
    slack, box = arithmetic_of(net), input_box(torch.rand(8, 64).double(), 1e-6)
    exact = in_float64(net)
    errors = output_errors(exact, box, slack)
    by_weights = propagate(exact, box, slack=slack).radius - propagate(exact, box).radius
    assert (errors < by_weights).all()
    assert errors.mean() < 0.2 * by_weights.mean()


class Branches(nn.Module):
    """All that a graph may do with a value without changing what kind of function it is."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(2, 2, 1), nn.Linear(8, 3)

    def forward(self, x):
        h = F.relu(self.first(x)) + 0.1
        one, other = h.chunk(2, dim=1)
        mixed = self.second(input=one) - other / 3 + F.max_pool2d(other, 3, 1, 1)
        pooled = torch.cat([mixed.mean(dim=(2, 3)), F.pad(-mixed[:, :, 0], (1, 1), value=0.3).flatten(1)[:, :6]], dim=1)
        return F.linear(weight=self.head.weight, bias=self.head.bias, input=F.silu(pooled))


def test_branches_pools_and_calls_by_keyword_are_followed():
    torch.manual_seed(1)
    net = Branches()
    slack, exact, x = arithmetic_of(net), in_float64(net), torch.rand(5, 1, 4, 4)
    box = input_box(x.double(), 0.05)
    found = difference_errors(exact, box, slack)
    assert found.isfinite().all()
    assert found.max() < 1e-4
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        points = (box.lower + 2 * box.radius * torch.rand(x.shape, generator=generator).double()).clamp(0, 1)
        with torch.no_grad():
            off = (differences(net(points.float())) - differences(exact(points))).abs()
        assert (off <= found).all()


def test_layers_without_lines_leave_none():
    norm = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double()
    box = input_box(torch.rand(2, 4).double(), 0.1)
    assert difference_errors(norm, box, arithmetic_of(nn.Linear(1, 1))) is None
    many = nn.Linear(4, 200).double()
    assert difference_errors(many, box, arithmetic_of(nn.Linear(1, 1))) is None
