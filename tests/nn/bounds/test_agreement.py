from __future__ import annotations

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from caveat.nn import confidence_bounds  # noqa: E402
from caveat.nn.bounds import difference_bounds, epsilon_star, label_bounds  # noqa: E402


def network(forward):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.head = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 3)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            return forward(self, x)

    torch.manual_seed(0)
    return Net()


def relu_then_old_name(net, x):
    y = net.a(x)
    z = net.relu(y)
    return net.head(y - z)  # the network takes the difference of a tensor and itself


def function_then_old_name(net, x):
    y = net.a(x)
    return net.head(F.relu(y, True) + y)


def method_then_old_name(net, x):
    y = net.a(x)
    return net.head(y.add_(1.0) + y)


def a_view_written_to(net, x):
    y = net.a(x)
    view = y.flatten(1)
    y.relu_()
    return net.head(view)


def chain(net, x):
    return net.head(net.relu(net.b(net.relu(net.a(x)))))


def shortcut(net, x):
    y = net.relu(net.a(x))
    return net.head(net.b(y).add_(y).flatten(1).relu_())


@pytest.mark.parametrize(
    "forward", [relu_then_old_name, function_then_old_name, method_then_old_name, a_view_written_to]
)
def test_an_old_name_of_changed_memory_is_refused(forward):
    with pytest.raises(InputError, match="in place, and .* reads it afterwards"):
        confidence_bounds(network(forward), torch.rand(3, 3), 0.1)


@pytest.mark.parametrize("forward", [chain, shortcut])
def test_changes_in_place_that_nobody_sees_are_allowed(forward):
    net, x = network(forward), torch.rand(20, 3)
    assert confidence_bounds(net, x, 0.1).n == 20
    assert torch.isfinite(difference_bounds(net.train(), x, 0.1)).all()


def hidden(net, x):  # += is read as an addition, so the graph does not show that the old name changes too
    y = net.a(x)
    old = y
    y += net.b(y)
    return net.head(y + old)


@pytest.mark.parametrize("bounds", [confidence_bounds, label_bounds, epsilon_star])
def test_a_network_that_leaves_its_bounds_at_the_input_is_refused(bounds):
    with pytest.raises(InputError, match="leaves its bounds at the unchanged input of row 0"):
        bounds(network(hidden), torch.rand(3, 3), 0.001)


def test_values_behind_an_attribute_are_no_constants():
    with pytest.raises(InputError, match="attribute 'data'"):
        confidence_bounds(network(lambda net, x: net.head(net.a(x) + net.a(x.data))), torch.rand(3, 3), 0.1)


def test_dropout_that_never_rests_is_refused_in_certificates_and_ignored_in_training():
    always = network(lambda net, x: net.head(F.dropout(net.a(x), 0.5)))
    with pytest.raises(InputError, match="training=self.training"):
        confidence_bounds(always, torch.rand(3, 3), 0.1)
    usual = network(lambda net, x: net.head(F.dropout(net.a(x), 0.5, training=net.training)))
    x = torch.rand(3, 3)
    assert torch.equal(difference_bounds(usual.train(), x, 0.1), difference_bounds(usual.eval(), x, 0.1))
    assert confidence_bounds(usual, x, 0.1).n == 3
