"""Linear bounds: sound by brute force, tighter than boxes, and an error for unsupported layers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn.bounds import difference_bounds, input_box  # noqa: E402
from caveat.nn.bounds.crown import crown_differences  # noqa: E402


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), epsilon=st.floats(0, 0.6), kind=st.sampled_from(["dense", "conv"]))
def test_nothing_on_the_box_leaves_the_bounds(make_net, everywhere, seed, epsilon, kind):
    net = make_net(kind, seed)
    x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        logits = net(everywhere(x[0], epsilon))
        found = (logits[:, :, None] - logits[:, None, :]).amax(dim=0)
    upper = crown_differences(net, input_box(x, epsilon))[0]
    assert (found <= upper).all()
    assert (upper.diagonal() == 0).all()


def test_tighter_than_boxes_where_depth_makes_boxes_loose():
    torch.manual_seed(0)
    net = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(8, 8), nn.ReLU())], nn.Linear(8, 3)).double()
    x = torch.rand(10, 8, dtype=torch.float64)
    box, lines = difference_bounds(net, x, 0.05), crown_differences(net, input_box(x, 0.05))
    off = ~torch.eye(3, dtype=torch.bool)
    assert lines[:, off].mean() < 0.6 * box[:, off].mean()


def test_exact_where_no_unit_can_switch():
    # all units on: the network is linear on the box, and so is the bound
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    for layer in (net[0], net[2]):
        layer.weight.data.abs_()
        layer.bias.data.fill_(5)
    x = torch.rand(2, 3, dtype=torch.float64)
    weight = net[4].weight @ net[2].weight @ net[0].weight
    row = weight[0] - weight[1]
    logits = net(x)
    want = logits[:, 0] - logits[:, 1] + 0.1 * row.abs().sum()
    found = crown_differences(net, input_box(x, 0.1, clip=None))[:, 0, 1]
    torch.testing.assert_close(found, want, atol=1e-6, rtol=0)


def test_the_triangle_by_hand():
    # relu(z), z in [-1, 3]: below 3/4 (z + 1), so relu(z) - z/2 <= 3/4 + z/4 <= 3/2 at z = 3
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    net[0].weight.data, net[0].bias.data = torch.tensor([[1.0], [1.0]]).double(), torch.tensor([0.0, 10.0]).double()
    net[2].weight.data = torch.tensor([[1.0, -0.5], [0.0, 0.0]]).double()  # relu(z) - (z + 10)/2
    net[2].bias.data = torch.tensor([5.0, 0.0]).double()
    box = input_box(torch.tensor([[1.0]]).double(), 2.0, clip=None)
    assert crown_differences(net, box)[0, 0, 1].item() == pytest.approx(1.5, abs=1e-6)


def test_rows_in_blocks_change_nothing(make_net, monkeypatch):
    net, x = make_net("dense", 5), torch.rand(3, 1, 2, 2, dtype=torch.float64)
    whole = crown_differences(net, input_box(x, 0.3))
    monkeypatch.setattr("caveat.nn.bounds.crown._ROWS", 2)
    torch.testing.assert_close(crown_differences(net, input_box(x, 0.3)), whole)


@pytest.mark.parametrize(("layer", "what"), [(nn.MaxPool2d(2, stride=1), "does not know 'MaxPool2d'")])
def test_layers_without_lines_are_named(layer, what):
    net = nn.Sequential(nn.Conv2d(1, 1, 1), layer, nn.Flatten(), nn.Linear(1, 2)).double()
    with pytest.raises(InputError, match=what):
        crown_differences(net, input_box(torch.rand(1, 1, 2, 2).double(), 0.1))


def test_residual_networks_are_refused(make_net):
    with pytest.raises(InputError, match="needs a chain"):
        crown_differences(make_net("residual", 0), input_box(torch.rand(1, 1, 2, 2).double(), 0.1))


def test_slack_encloses_logits_that_cancel():
    # Both logits are the same sum of hidden units in another order: equal in real numbers, different by their rounding
    # in the network. The coefficients of their difference cancel, and their own size says nothing about that.
    torch.manual_seed(0)
    units, weight = nn.Linear(6, 64).double(), 1e6 * torch.randn(64, dtype=torch.float64)
    first, head = nn.Linear(6, 256).double(), nn.Linear(256, 2, bias=False).double()
    first.weight.data, first.bias.data = units.weight.detach().repeat(4, 1), units.bias.detach().repeat(4)
    head.weight.data[0] = torch.cat([weight, 0.3 * weight, 0.7 * weight, -weight])
    head.weight.data[1] = torch.cat([0.7 * weight, -weight, 0.3 * weight, weight])
    net, x = nn.Sequential(first, nn.ReLU(), head), torch.rand(100, 6, dtype=torch.float64)
    upper = crown_differences(net, input_box(x, 0.0).widened(1))
    with torch.no_grad():
        logits = net(x)
    assert (logits[:, 0] != logits[:, 1]).any()
    assert (logits[:, :, None] - logits[:, None, :] <= upper).all()
