"""Linear bounds: sound by brute force, tighter than boxes, and an error for unsupported layers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import difference_bounds, input_box  # noqa: E402
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402
from caveat_lab.bounds.crown import crown_by_sample, crown_differences  # noqa: E402


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
    monkeypatch.setattr("caveat_lab.bounds.crown._ROWS", 2)
    torch.testing.assert_close(crown_differences(net, input_box(x, 0.3)), whole)


ACTIVATIONS = [
    nn.LeakyReLU(0.1), nn.LeakyReLU(1.5), nn.LeakyReLU(-0.5), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(),
    nn.Sigmoid(), nn.Tanh(),
]  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5])
def test_nothing_on_the_box_leaves_the_bounds_of_other_activations(everywhere, activation, epsilon):
    for seed in range(6):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), activation, nn.Linear(6, 5), activation, nn.Linear(5, 3))
        net = net.double()
        for weight in net.parameters():
            weight.data.mul_(2)
        x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
        with torch.no_grad():
            logits = net(everywhere(x[0], epsilon, steps=7))
            largest = (logits[:, :, None] - logits[:, None, :]).amax(dim=0)
        assert (largest <= crown_differences(net, input_box(x, epsilon).widened(1))[0]).all()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_other_activations_are_bounded_more_tightly_than_by_boxes(activation):
    torch.manual_seed(0)
    parts = [part for _ in range(3) for part in (nn.Linear(8, 8), activation)]
    net, x = nn.Sequential(*parts, nn.Linear(8, 3)).double(), torch.rand(10, 8, dtype=torch.float64)
    box, lines = difference_bounds(net, x, 0.05), crown_differences(net, input_box(x, 0.05))
    off = ~torch.eye(3, dtype=torch.bool)
    gain = lines[:, off] + lines.transpose(1, 2)[:, off], box[:, off] + box.transpose(1, 2)[:, off]
    assert gain[0].mean() < 0.8 * gain[1].mean()  # the width of each difference, u_kl + u_lk


def test_sequences_and_parametrized_layers_are_bounded():
    torch.manual_seed(0)
    norm = nn.utils.parametrizations.weight_norm
    net = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.SiLU(), nn.AvgPool1d(2), nn.Flatten(), norm(nn.Linear(9, 4)))
    net, x = net.double().eval(), torch.rand(2, 2, 6, dtype=torch.float64)
    upper = crown_differences(net, input_box(x, 0.1))
    assert (upper <= difference_bounds(net, x, 0.1, slack=REAL) + 1e-9).all()
    share = 2 * torch.rand(500, *x.shape, dtype=torch.float64) - 1
    points = (x + 0.1 * share.sign()).clamp(0, 1)
    with torch.no_grad():
        logits = net(points.flatten(0, 1)).reshape(500, 2, 4)
    assert (logits[..., :, None] - logits[..., None, :] <= upper).all()


def test_many_classes_are_carried_back_some_at_a_time(largest_tensor, monkeypatch):
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 30)).double(), torch.rand(4, 3).double()
    whole = crown_differences(net, input_box(x, 0.1))
    monkeypatch.setattr("caveat_lab.bounds.crown._ROWS", 30)
    with largest_tensor() as largest:
        rows = list(crown_by_sample(net, input_box(x, 0.1)))
    torch.testing.assert_close(torch.stack(rows), whole)
    assert largest.entries <= 30 * 30


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
