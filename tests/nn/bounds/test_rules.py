"""Each rule against the layer itself at the ends of the box."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from caveat_lab.bounds import Box, input_box, propagate, register_rule  # noqa: E402
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402
from caveat_lab.bounds.rules import MODULE_RULES  # noqa: E402


def a_box(*shape, seed=0):
    torch.manual_seed(seed)
    return Box(torch.randn(shape, dtype=torch.float64), torch.rand(shape, dtype=torch.float64))


def test_linear_equals_the_four_products_of_the_paper():
    box, layer = a_box(6, 4), nn.Linear(4, 3).double()
    plus, minus = layer.weight.clamp(min=0), layer.weight.clamp(max=0)
    upper = box.upper @ plus.T + box.lower @ minus.T + layer.bias
    lower = box.upper @ minus.T + box.lower @ plus.T + layer.bias
    found = propagate(layer, box)
    torch.testing.assert_close(found.upper, upper)
    torch.testing.assert_close(found.lower, lower)


@pytest.mark.parametrize("slack", [None, REAL])
@pytest.mark.parametrize("layer", [
    nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(2, 4, 2, stride=2, groups=2, bias=False), nn.BatchNorm2d(2), nn.ReLU(),
    nn.AvgPool2d(2, divisor_override=-3), nn.AvgPool2d(2),
    nn.AdaptiveAvgPool2d(1), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.9), nn.Identity(),
], ids=lambda layer: type(layer).__name__)  # fmt: skip
def test_no_point_of_the_box_leaves_the_box(layer, slack):
    layer = layer.double().eval()
    if isinstance(layer, nn.BatchNorm2d):
        layer.running_mean.normal_()
        layer.weight.data.normal_()
    box = a_box(3, 2, 4, 4)
    out = propagate(layer, box, slack=slack)
    torch.manual_seed(1)
    for _ in range(200):
        sign = torch.randint(-1, 2, box.shape)
        got = layer(box.center + sign * box.radius)
        assert (got <= out.upper + 1e-12).all()
        assert (got >= out.lower - 1e-12).all()


@pytest.mark.parametrize("layer", [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(2), nn.AvgPool2d(2), nn.MaxPool2d(2), nn.ReLU()],
                         ids=lambda layer: type(layer).__name__)  # fmt: skip
def test_a_box_of_one_point_gives_what_the_layer_gives(layer):
    layer = layer.double().eval()
    box = a_box(3, 2, 4, 4)
    out = propagate(layer, Box(box.center, torch.zeros_like(box.center)))
    torch.testing.assert_close(out.center, layer(box.center))
    torch.testing.assert_close(out.radius, torch.zeros_like(out.radius))


@pytest.mark.parametrize("terms", [3, 800])
def test_slack_encloses_sums_that_cancel(terms):
    # 1e8 - 1e8 + ...: the float64 sum is off by far more than its own size times the unit roundoff
    torch.manual_seed(0)
    x = torch.randn(1, terms, dtype=torch.float64) * 1e8
    layer = nn.Linear(terms, 1, bias=False).double()
    layer.weight.data[0, -1] = 0
    layer.weight.data[0, -1] = -(layer(x).item() - 1e-3) / x[0, -1]
    pairs = zip(x[0].tolist(), layer.weight.data[0].tolist(), strict=True)
    exact = sum(Fraction(a) * Fraction(b) for a, b in pairs)
    out = propagate(layer, Box(x, torch.zeros_like(x)), slack=REAL)
    assert out.lower.item() <= exact <= out.upper.item()
    assert out.radius.item() < 1e-3


def test_the_relu_gradient_is_that_of_its_two_ends():
    box = a_box(40, 3)
    center, radius = (t.clone().requires_grad_() for t in (box.center, box.radius))
    weights = torch.randn(2, 40, 3, dtype=torch.float64)
    out = propagate(nn.ReLU(), Box(center, radius))
    found = torch.autograd.grad((out.center * weights[0] + out.radius * weights[1]).sum(), [center, radius])
    upper, lower = F.relu(center + radius), F.relu(center - radius)
    plain = ((upper + lower) / 2 * weights[0] + (upper - lower) / 2 * weights[1]).sum()
    for got, want in zip(found, torch.autograd.grad(plain, [center, radius]), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("layer", [nn.Softmax(1), nn.PReLU(), nn.GroupNorm(2, 4), nn.LSTM(4, 4)],
                         ids=lambda layer: type(layer).__name__)  # fmt: skip
def test_a_layer_without_a_rule_is_named(layer):
    with pytest.raises(InputError, match=f"layer '1' of type {type(layer).__name__}.*Known: .*GELU, .*Linear"):
        propagate(nn.Sequential(nn.Linear(4, 4), layer), Box(torch.zeros(1, 4), torch.zeros(1, 4)))


def test_other_padding_has_no_rule():
    layer = nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")
    with pytest.raises(InputError, match="padding_mode 'reflect'"):
        propagate(layer, Box(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4)))


def test_batch_normalization_without_statistics_has_no_rule():
    layer = nn.BatchNorm2d(1, track_running_stats=False)
    with pytest.raises(InputError, match="needs running statistics"):
        propagate(layer, Box(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4)))


def test_a_module_of_ones_own_can_bring_a_rule():
    class Negate(nn.Module):
        def forward(self, x):
            return torch.special.erf(x)  # never traced: the rule replaces the module

    @register_rule(Negate)
    def negate(module, box, slack):
        return Box(-box.center, box.radius)

    try:
        out = propagate(nn.Sequential(Negate(), nn.ReLU()), Box(torch.tensor([[-1.0]]), torch.tensor([[0.5]])))
    finally:
        del MODULE_RULES[Negate]
    assert (out.lower.item(), out.upper.item()) == (0.5, 1.5)


def test_arithmetic_written_in_forward():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor([0.5, -1.0]))
            self.weight = nn.Parameter(torch.tensor([[1.0, -1.0]]))

        def forward(self, x):
            x = ((x - self.mean) / 0.5).reshape(x.shape[0], -1)
            return 2 - F.linear(-1.0 * x, self.weight)

    out = propagate(Scaled(), Box(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.25]])))
    # x -> (x - mean)/0.5 = (1 +- 1, 2 +- 0.5); 2 + (first - second) = 2 + (-1) +- 1.5
    assert (out.lower.item(), out.upper.item()) == (-0.5, 2.5)


def test_pools_and_activations_called_as_functions():
    class Net(nn.Module):
        def forward(self, x):
            x = F.relu(F.max_pool2d(x, 2, stride=1), inplace=True)
            x = F.dropout(F.avg_pool2d(x, kernel_size=2), training=self.training)
            return F.adaptive_avg_pool2d(x, (1, 1)).squeeze(-1).squeeze(-1).add_(1.0).relu_()

    box = a_box(3, 2, 5, 5)
    out = propagate(Net().eval(), box)
    torch.manual_seed(1)
    for _ in range(50):
        got = Net().eval()(box.center + torch.randint(-1, 2, box.shape) * box.radius)
        assert (got <= out.upper + 1e-12).all()
        assert (got >= out.lower - 1e-12).all()


def test_slices_and_padding_written_in_forward():
    class Shortcut(nn.Module):
        def forward(self, x):
            return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 1, 1), value=2.0)

    box = a_box(2, 1, 4, 4)
    out = propagate(Shortcut(), box)
    torch.testing.assert_close(out.center, Shortcut()(box.center))
    torch.testing.assert_close(out.radius[:, 1], box.radius[:, 0, ::2, ::2])
    assert (out.radius[:, [0, 2]] == 0).all()


class Forward(nn.Module):
    """A network that is one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 3, 2, dtype=torch.float64))
        self.image = nn.Parameter(torch.randn(4, 3, 2, 1, dtype=torch.float64))
        self.bias = nn.Parameter(torch.randn(4, dtype=torch.float64))

    def forward(self, x):
        return self.function(self, x)


FUNCTIONS = {
    "conv1d": lambda net, x: F.conv1d(x, net.weight, net.bias, stride=2, padding=1),
    "conv1d of torch": lambda net, x: torch.conv1d(x, net.weight[:, :, :1], padding="same"),
    "conv2d": lambda net, x: F.conv2d(x.unsqueeze(3), net.image, net.bias, 1, (1, 0), 1, 1),
    "conv2d in groups": lambda net, x: F.conv2d(x.unsqueeze(3), net.image[:3, :1], groups=3),
    "linear": lambda net, x: F.linear(x, net.weight.reshape(-1)[:20].reshape(4, 5), net.bias),
    "relu": lambda net, x: F.relu(x), "leaky_relu": lambda net, x: F.leaky_relu(x, -0.3),
    "gelu": lambda net, x: F.gelu(x, approximate="tanh"), "silu": lambda net, x: F.silu(x),
    "sigmoid": lambda net, x: torch.sigmoid(x), "sigmoid as a method": lambda net, x: x.sigmoid(),
    "tanh": lambda net, x: torch.tanh(x), "tanh as a method": lambda net, x: x.tanh(),
    "layer_norm": lambda net, x: F.layer_norm(x, (5,), net.bias.repeat(2)[:5], eps=0.1),
    "pools": lambda net, x: F.adaptive_avg_pool1d(F.max_pool1d(F.avg_pool1d(x, 2, 1), 2, 1, 0, 1, True), 2),
    "neg": lambda net, x: -x, "neg of torch": lambda net, x: torch.neg(x), "neg as a method": lambda net, x: x.neg(),
    "cat": lambda net, x: torch.cat([x, -x, x.relu()], dim=1),
    "cat with a constant": lambda net, x: torch.cat((x, net.bias[:1].expand(x.shape[0], 1, 5)), 1),
    "concat": lambda net, x: torch.concat([x, x], -1),
    "chunk": lambda net, x: torch.chunk(x, 2, dim=2)[1] - x.chunk(3, 2)[0],
    "split": lambda net, x: torch.cat(x.split([1, 2], dim=1)[::-1], dim=1),
    "split of torch": lambda net, x: torch.split(x, 2, dim=-1)[2] + x[:, :, :1],
}  # fmt: skip


@pytest.mark.parametrize("slack", [None, REAL])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_in_forward_enclose_what_they_give(name, slack):
    net, box = Forward(FUNCTIONS[name]), a_box(3, 3, 5)
    out = propagate(net, box, slack=slack)
    room = 0 if slack else 1e-12
    torch.manual_seed(1)
    for number in range(100):
        share = 2 * torch.rand(box.shape, dtype=torch.float64) - 1
        got = net(box.center + (share.sign() if number % 2 else share) * box.radius)
        assert (got <= out.upper + room).all()
        assert (got >= out.lower - room).all()
    at_point = propagate(net, Box(box.center, torch.zeros_like(box.center)))
    torch.testing.assert_close(at_point.center, net(box.center))
    assert at_point.radius.max() < 1e-12


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "layer_norm", "cat", "split"])
def test_gradients_reach_the_weights_of_functions(name):
    net, box = Forward(FUNCTIONS[name]), a_box(3, 3, 5)
    center = box.center.clone().requires_grad_()
    propagate(net, Box(center, box.radius)).upper.sum().backward()
    assert center.grad.abs().sum() > 0
    if "conv" in name:
        assert (net.weight if name == "conv1d" else net.image).grad.abs().sum() > 0


@pytest.mark.parametrize("function", [
    lambda net, x: torch.cat([x, x], dim=0)[:2], lambda net, x: torch.chunk(x, 2)[0], lambda net, x: x.split(1)[0],
    lambda net, x: x.split(1, -3)[0], lambda net, x: F.layer_norm(x, (2, 3, 5)),
])  # fmt: skip
def test_what_joins_or_parts_the_samples_of_a_batch_is_refused(function):
    with pytest.raises(InputError, match="over the samples of a batch|mixes the samples"):
        propagate(Forward(function), a_box(2, 3, 5))


@pytest.mark.parametrize(("layer", "shape"), [
    (nn.Conv1d(2, 2, 3), (2, 5)), (nn.Conv2d(2, 2, 3), (2, 5, 5)),  # without a batch, the samples would be channels
])  # fmt: skip
def test_a_convolution_needs_an_axis_of_samples(layer, shape):
    with pytest.raises(InputError, match="over the samples of a batch"):
        propagate(layer.double(), a_box(*shape))


def test_a_weight_that_depends_on_the_input_is_refused():
    with pytest.raises(InputError, match="depends on the input"):
        propagate(Forward(lambda net, x: F.linear(net.bias[:3], x[:, 0, :3])), a_box(2, 3, 5))


@pytest.mark.parametrize(("forward", "what"), [
    (lambda x: x * x, "product of two parts"), (lambda x: 1 / x, "division by a part"),
    (lambda x: torch.add(x, x, alpha=2), "'add' with these arguments"),
    (torch.exp, "operation 'exp'"), (lambda x: x.abs(), "operation 'abs'"),
])  # fmt: skip
def test_arithmetic_without_a_rule_is_named(forward, what):
    class Net(nn.Module):
        def forward(self, x):
            return forward(x)

    with pytest.raises(InputError, match=what):
        propagate(Net(), Box(torch.ones(1, 2), torch.zeros(1, 2)))


@pytest.mark.parametrize("scale", [1e-6, 1e-10, 1e-13])
def test_slack_encloses_sums_that_begin_with_the_bias(scale):
    # Each product is near or below half a unit in the last place of the bias, and so is what each step may lose.
    torch.manual_seed(0)
    layer = nn.Linear(784, 50).double()
    layer.weight.data = scale * torch.rand(50, 784, dtype=torch.float64)
    x = torch.rand(20, 784, dtype=torch.float64)
    out = propagate(layer, Box(x, torch.zeros_like(x)), slack=REAL)
    total = layer.bias.detach().repeat(20, 1)
    for i in range(784):
        total = total + x[:, i : i + 1] * layer.weight[:, i].detach()
    assert (total <= out.upper).all()
    assert (total >= out.lower).all()


def test_slack_encloses_a_subtraction_that_cancels():
    # The box of x - 1/2 for |x - 0.5| <= 1e-12 and clipped to [0, 1], in fractions: the center was rounded before.
    rng = np.random.default_rng(0)
    x, epsilon = torch.from_numpy(0.5 + 1e-12 * rng.normal(size=(500, 1))), 1e-12

    class Centerd(nn.Module):
        def forward(self, x):
            return x - 0.5

    out = propagate(Centerd(), input_box(x, epsilon), slack=REAL)
    for row, point in enumerate(x[:, 0].tolist()):
        center, radius = Fraction(out.center[row].item()), Fraction(out.radius[row].item())
        ends = [point + epsilon, point - epsilon]
        inside = [
            z if abs(Fraction(z) - Fraction(point)) <= Fraction(epsilon) else np.nextafter(z, point) for z in ends
        ]
        assert all(abs(Fraction(float(z)) - Fraction(1, 2) - center) <= radius for z in inside)
