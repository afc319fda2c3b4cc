"""Soundness by brute force: every corner and a dense grid of the box, over random weights."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import input_box, propagate  # noqa: E402
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402
from caveat_lab.bounds.interval import before_head, traced  # noqa: E402


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), epsilon=st.floats(0, 0.6), kind=st.sampled_from(["dense", "conv", "residual"]))
def test_nothing_on_the_box_leaves_the_bounds(make_net, everywhere, seed, epsilon, kind):
    net = make_net(kind, seed)
    x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        logits = net(everywhere(x[0], epsilon))
        out = propagate(net, input_box(x, epsilon), slack=REAL)
    assert (logits <= out.upper).all()
    assert (logits >= out.lower).all()


@pytest.mark.parametrize("kind", ["dense", "conv", "residual"])
def test_radius_zero_gives_the_forward_pass(make_net, kind):
    net, x = make_net(kind, 0), torch.rand(7, 1, 2, 2, dtype=torch.float64)
    out = propagate(net, input_box(x, 0.0), slack=REAL)
    torch.testing.assert_close(out.center, net(x))
    assert (out.lower <= net(x)).all()
    assert (net(x) <= out.upper).all()
    assert out.radius.max() < 1e-11


def test_a_larger_radius_never_gives_a_smaller_box(make_net):
    net, x = make_net("residual", 3), torch.rand(9, 1, 2, 2, dtype=torch.float64)
    small, large = (propagate(net, input_box(x, e)) for e in (0.1, 0.2))
    assert (large.upper >= small.upper - 1e-12).all()
    assert (large.lower <= small.lower + 1e-12).all()


def test_bounds_are_of_the_network_at_rest_also_in_training(make_net):
    net, x = make_net("conv", 1), torch.rand(5, 1, 2, 2, dtype=torch.float64)
    at_rest = propagate(net, input_box(x, 0.1))
    training = propagate(net.train(), input_box(x, 0.1))
    torch.testing.assert_close(training.upper, at_rest.upper)


def test_the_last_linear_layer_is_found_behind_dropout_and_beside_a_side_head():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.side, self.head = (
                nn.Linear(3, 4),
                nn.Softmax(1),
                nn.Sequential(nn.Linear(4, 2), nn.Dropout()),
            )

        def forward(self, x):
            h = self.body(x).relu()
            self.side(h)  # runs, is not the answer, and needs no rule
            return self.head(h)

    net = Net()
    box, head = before_head(net, input_box(torch.rand(2, 3), 0.1))
    assert head.weight is net.head[0].weight
    assert head.bias is net.head[0].bias
    assert box.shape == (2, 4)


def test_a_network_with_another_end_has_no_head():
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    box, head = before_head(net, input_box(torch.rand(2, 3), 0.1))
    assert head is None
    assert box.shape == (2, 2)


def test_an_exchanged_layer_is_noticed():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    before = propagate(net, input_box(torch.ones(1, 2), 0.0)).center
    net[1] = nn.ReLU()
    after = propagate(net, input_box(torch.ones(1, 2), 0.0)).center
    torch.testing.assert_close(after, net(torch.ones(1, 2)))
    assert not torch.equal(before, after)
    assert traced(net) is traced(net)


@pytest.mark.parametrize(("forward", "what"), [
    (lambda self, x: self.a(x) if x.sum() > 0 else x, "cannot be read"),
    (lambda self, x, y: self.a(x), "missing 1 required positional argument"),
    (lambda self, x: (self.a(x), x), "must return one tensor"),
])  # fmt: skip
def test_forward_passes_that_have_no_bound_say_why(forward, what):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)

    Net.forward = forward
    with pytest.raises(InputError, match=what):
        propagate(Net(), input_box(torch.ones(1, 2), 0.0))


@pytest.mark.parametrize("name", ["small_cnn", "xs", "l", "vgg13", "resnet18", "resnet20"])
def test_the_architectures_of_the_library_have_bounds(name):
    architectures = pytest.importorskip("caveat_lab.networks.architectures")
    torch.manual_seed(0)
    net = architectures.make(name, in_shape=(1, 28, 28), classes=10).eval()
    x = torch.rand(1, 1, 28, 28)
    with torch.no_grad():
        out = propagate(net, input_box(x, 1e-4))
        torch.testing.assert_close(propagate(net, input_box(x, 0.0)).center, net(x), atol=1e-3, rtol=1e-3)
        for sign in (-1, 1):
            logits = net((x + sign * 1e-4 * torch.randn_like(x).sign()).clamp(0, 1))
            assert (logits <= out.upper + 1e-3).all()
            assert (logits >= out.lower - 1e-3).all()


def test_gradients_reach_weights_and_inputs(make_net):
    net, x = make_net("residual", 2), torch.rand(4, 1, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: propagate(net, input_box(z, 0.05, clip=None)).upper, (x,))
    propagate(net, input_box(x, 0.1)).upper.sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())
