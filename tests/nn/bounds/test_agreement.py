"""A forward pass that cannot be traced, or is traced wrongly, is an error; in-place writes go to a copy."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from caveat_lab.bounds import (  # noqa: E402
    agreement,
    confidence_bounds,
    difference_bounds,
    epsilon_star,
    input_box,
    label_bounds,
    log_confidence,
    propagate,
)
from caveat_lab.bounds.exact import exact_logits  # noqa: E402


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
    with pytest.raises(InputError, match="changed in place and read again"):
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


BOUNDS = [
    lambda net, x: confidence_bounds(net, x, 0.1),
    lambda net, x: label_bounds(net, x, 0.1),
    lambda net, x: epsilon_star(net, x, -0.5),
    lambda net, x: difference_bounds(net, x, 0.1),
]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_an_alias_that_the_graph_does_not_show_is_refused(bounds):
    with pytest.raises(InputError, match="changed in place and read again"):
        bounds(network(hidden), torch.rand(3, 3))


@pytest.mark.parametrize("bounds", BOUNDS[:3])
def test_a_graph_that_was_read_wrongly_shows_at_random_points_where_logits_are_uniform(monkeypatch, bounds):
    # Without the comparison of operations, 8 points of the ball show the factor that the input hides.
    net = network(lambda net, x: (4 if isinstance(x, torch.Tensor) else 1) * net.head(net.a(x))).double()
    x = torch.rand(1, 3, dtype=torch.float64)
    net.head.bias.data -= net(x)[0].detach() / 4
    with pytest.raises(InputError, match="does not compute what its graph of layers says"):
        bounds(net, x)
    monkeypatch.setattr(agreement, "_compare", lambda *args: None)
    with pytest.raises(InputError, match="leaves its bounds at a random point"):
        bounds(net, x)


def test_a_hook_on_a_layer_belongs_to_the_network():
    # The audit's case: logits are uniform at x, so the clean value shows nothing, and a hook multiplies the logits.
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), torch.full((1, 4), 0.5)
    net[2].bias.data -= net(x)[0].detach()
    plain = confidence_bounds(net, x, 0.2).upper[0]
    net[2].register_forward_hook(lambda module, args, out: 4 * out)
    corners = x + 0.2 * (2 * torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 4) - 1)
    reached = log_confidence(net(corners)).max().item()
    assert plain < reached <= confidence_bounds(net, x, 0.2).upper[0]


def test_a_hook_for_all_modules_is_seen():
    net, x = nn.Sequential(nn.Linear(4, 3)), torch.rand(2, 4)
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, out: 4 * out if isinstance(module, nn.Linear) else None
    )
    try:
        bounds = confidence_bounds(net, x, 0.0)
        want = log_confidence(net(x)).detach()
    finally:
        handle.remove()
    np.testing.assert_allclose(bounds.value, want, rtol=1e-4)
    np.testing.assert_allclose(bounds.upper, want, rtol=1e-4)


def test_a_hook_that_comes_later_is_noticed():
    net, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), torch.rand(3, 2)
    before = difference_bounds(net, x, 0.1)
    handle = net[2].register_forward_hook(lambda module, args, out: 2 * out)
    torch.testing.assert_close(difference_bounds(net, x, 0.0)[:, 0, 1], torch.diff(-net(x)).flatten())
    handle.remove()
    torch.testing.assert_close(difference_bounds(net, x, 0.1), before)


@pytest.mark.parametrize(("forward", "what"), [
    (lambda net, x: net.head(net.a(x) * torch.randn(4)), "random numbers with aten.randn"),
    (lambda net, x: net.head(net.a(x) + torch.empty(4).uniform_()), "random numbers with aten.uniform"),
    (lambda net, x: net.head(net.a(x) if x.sum() > 0 else x), "cannot be read"),
    (lambda net, x: net.head(net.a(x) - net.a(x).mean(0)), "samples of a batch"),
    (lambda net, x: net.head(net.a(x)[[2, 1, 0]]), "samples of a batch"),
    (lambda net, x: net.head(F.pad(net.a(x), (0, 0, 1, -1))), "samples of a batch"),
    (lambda net, x: net.head(net.a(x).unsqueeze(0)).squeeze(0), "mixes the samples"),
])  # fmt: skip
def test_chance_branches_and_batches_are_named(forward, what):
    with pytest.raises(InputError, match=what):
        confidence_bounds(network(forward), torch.rand(3, 3), 0.1)


def test_a_network_that_changes_itself_is_refused():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls = nn.Linear(3, 3), 0

        def forward(self, x):
            self.calls += 1  # has no part in the answer today
            return self.layer(x)

    with pytest.raises(InputError, match="changes itself"):
        confidence_bounds(Counts(), torch.rand(2, 3), 0.1)


def test_a_layer_that_stays_in_training_mode_is_named():
    class Awake(nn.Dropout):
        def train(self, mode=True):
            return super().train(True)

    with pytest.raises(InputError, match="'1' stays in training mode"):
        confidence_bounds(nn.Sequential(nn.Linear(3, 3), Awake()), torch.rand(2, 3), 0.1)


def test_layers_without_weights_yet_are_refused():
    with pytest.raises(InputError, match="changes itself|cannot be read"):
        confidence_bounds(nn.Sequential(nn.LazyLinear(3)), torch.rand(2, 3), 0.1)


def test_weights_outside_of_the_model_are_refused_in_training():
    outside = nn.Parameter(torch.ones(4))
    net = network(lambda net, x: net.head(net.a(x) * (2 * outside)))
    with pytest.raises(InputError, match="not its parameters"):
        difference_bounds(net, torch.rand(2, 3), 0.1)


def test_a_layer_called_by_keyword_and_a_container_of_torch():
    net, x = network(lambda net, x: net.head(input=net.a(x))), torch.rand(4, 3)
    want = confidence_bounds(net, x, 0.1).upper
    np.testing.assert_array_equal(confidence_bounds(nn.DataParallel(net), x, 0.1).upper, want)


def test_a_model_that_cannot_be_copied_is_named():
    net = nn.Sequential(nn.Linear(3, 3))
    net.kept = net(torch.rand(1, 3))  # torch copies no tensor that has a history
    with pytest.raises(InputError, match="cannot be copied"):
        confidence_bounds(net, torch.rand(2, 3), 0.1)


@pytest.mark.parametrize("call", [*BOUNDS[:3], exact_logits])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_what_the_caller_gives_is_never_written_to(call, kind):
    def writes(net, x):
        x *= 0.5
        return net.head(net.relu(net.a(x)))

    x = np.random.default_rng(0).random((3, 3))
    given = kind(x.copy())
    call(network(writes).double(), given)
    np.testing.assert_array_equal(given, x)
    call(nn.Sequential(nn.Threshold(0.9, 0.0, inplace=True) if call is exact_logits else nn.ReLU(inplace=True),
                       nn.Linear(3, 2)), given)  # fmt: skip
    np.testing.assert_array_equal(given, x)


def test_bounds_are_of_the_input_that_was_given_and_not_of_what_the_model_makes_of_it():
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(1, 2, bias=False)
            self.head.weight.data[:] = torch.tensor([[4.0], [0.0]])

        def forward(self, x):
            x *= 0.5
            return self.head(x)

    # f_0 - f_1 = 2 x over [0.25, 0.75]
    assert np.exp(confidence_bounds(Halves(), [[0.5]], 0.25).upper[0]) == pytest.approx(1 / (1 + np.exp(-1.5)))


class Gated(nn.Module):
    """A model that brings its bounds: nothing is more confident than 0.9."""

    def __init__(self, before=None):
        super().__init__()
        self.layer, self.before = nn.Linear(3, 2), before

    def forward(self, x):
        if self.before is not None:
            self.before(x)
        return torch.log_softmax(self.layer(x).clamp(-1, 1), dim=1)

    def log_confidence_bounds(self, x, epsilon):
        return torch.full(x.shape[:1], np.log(0.5)), torch.full(x.shape[:1], np.log(0.9))


def test_a_model_with_its_own_bounds_may_have_no_hooks_and_must_leave_its_input_alone():
    x = torch.rand(2, 3)
    assert confidence_bounds(Gated(), x, 0.1, arithmetic="float64").upper == pytest.approx(np.log(0.9))
    hooked = Gated()
    hooked.register_forward_hook(lambda module, args, out: 4 * out)
    with pytest.raises(InputError, match="do not cover its hooks"):
        confidence_bounds(hooked, x, 0.1)
    with pytest.raises(InputError, match="changes its input in place"):
        confidence_bounds(Gated(lambda z: z.mul_(0.5)), x, 0.1, arithmetic="float64")


def test_the_model_is_not_written_to_and_not_kept_alive():
    net = network(lambda net, x: net.head(net.a(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])))
    before = dict(vars(net))
    propagate(net.train(), input_box(torch.rand(2, 3), 0.1))
    assert vars(net) == {**before, "training": True}
    assert all(module.training for module in net.modules())
    gone = weakref.ref(net)
    del net, before
    gc.collect()
    assert gone() is None


def test_weights_that_are_computed_from_others():
    def made():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        nn.utils.parametrizations.weight_norm(net[0])
        nn.utils.parametrizations.spectral_norm(net[2])
        return net.eval()

    net, plain, x = made(), made(), torch.rand(3, 3)
    for layer in (plain[0], plain[2]):
        nn.utils.parametrize.remove_parametrizations(layer, "weight")
    got, want = (difference_bounds(model, x, 0.1, elide=False) for model in (net, plain))
    torch.testing.assert_close(got, want)
    got.sum().backward()
    assert net[0].parametrizations.weight.original1.grad.abs().sum() > 0


def test_values_behind_an_attribute_are_no_constants():
    with pytest.raises(InputError, match="attribute 'data'"):
        confidence_bounds(network(lambda net, x: net.head(net.a(x) + net.a(x.data))), torch.rand(3, 3), 0.1)


def test_dropout_that_never_rests_is_refused_and_one_that_does_is_ignored_in_training():
    always = network(lambda net, x: net.head(F.dropout(net.a(x), 0.5)))
    with pytest.raises(InputError, match="training=self.training"):
        confidence_bounds(always, torch.rand(3, 3), 0.1)
    usual = network(lambda net, x: net.head(F.dropout(net.a(x), 0.5, training=net.training)))
    x = torch.rand(3, 3)
    assert torch.equal(difference_bounds(usual.train(), x, 0.1), difference_bounds(usual.eval(), x, 0.1))
    assert confidence_bounds(usual, x, 0.1).n == 3
