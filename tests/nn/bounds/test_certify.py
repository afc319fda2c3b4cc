"""Certificates: what they bound, how they are refined, and when they are refused."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

from caveat.nn.float64 import device_of  # noqa: E402
from caveat_lab.bounds import (  # noqa: E402
    confidence_bounds,
    difference_bounds,
    epsilon_star,
    gated_log_confidence,
    label_bounds,
    log_confidence_upper,
)
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402
from caveat_lab.bounds.exact import exact_logits  # noqa: E402
from caveat_lab.bounds.passes import as_double  # noqa: E402


@pytest.mark.parametrize("kind", ["dense", "conv", "residual"])
def test_bounds_enclose_the_value_and_every_point(make_net, everywhere, kind):
    net = make_net(kind, 4)
    x = torch.rand(6, 1, 2, 2)
    bounds = confidence_bounds(net, x, 0.2, batch_size=4)
    assert bounds.value.dtype == bounds.upper.dtype == np.float64
    assert (bounds.lower <= bounds.value).all()
    assert (bounds.value <= bounds.upper).all()
    assert (bounds.upper <= 0).all()
    for i in range(6):
        with torch.no_grad():
            found = torch.log_softmax(net(everywhere(x[i].double(), 0.2)), 1).amax(1).numpy()
        assert found.max() <= bounds.upper[i] + 1e-15
        assert found.min() >= bounds.lower[i] - 1e-15


def test_float32_bounds_can_lie_below_the_truth_and_float64_ones_do_not():
    # Pitfall 9: sums in float32 are off by 1e-4 at the size of 180, so a "bound" may be passed by the network itself
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(600, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 3))
    for weight in net.parameters():
        weight.data.mul_(4)
    x = torch.rand(200, 600)
    exact = copy.deepcopy(net).double()
    with torch.no_grad():
        logits = exact(x.double())
        truth = logits[:, :, None] - logits[:, None, :]
        narrow = difference_bounds(net, x, 0.0).double()
        wide = difference_bounds(exact, x.double(), 0.0, slack=REAL)
    assert (narrow < truth).any()
    assert (wide >= truth).all()
    assert (wide - truth).max() < 1e-8


def test_a_constant_network_is_enclosed_to_the_last_bit():
    # nothing can change, so bounds and value differ by rounding alone, and must still be on the right sides
    net = nn.Linear(3, 7)
    net.weight.data.zero_()
    net.bias.data = torch.linspace(-1, 40, 7)
    for scale in (1.0, 3.0, 0.0):
        net.bias.data *= scale
        bounds = confidence_bounds(net, torch.rand(4, 3), 0.3)
        assert (bounds.lower <= bounds.value).all()
        assert (bounds.value <= bounds.upper).all()
        labels = label_bounds(net, torch.rand(4, 3), 0.3)
        assert (labels.lower <= labels.value).all()
        assert (labels.value <= labels.upper).all()


def test_the_model_is_left_as_it_was(make_net):
    net = make_net("conv", 0).float().train()
    before = copy.deepcopy(net.state_dict())
    confidence_bounds(net, torch.rand(3, 1, 2, 2), 0.1)
    assert net.training
    for name, value in net.state_dict().items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("wrong", [np.nan, 1e300])
def test_a_number_that_is_not_finite_is_refused(wrong):
    # Pitfall 10: nan_to_num would turn this into a guarantee
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    net[0].weight.data[0, 0] = wrong
    net[2].weight.data *= 1e10
    with pytest.raises(InputError, match="not finite, so nothing is certified"):
        confidence_bounds(net, torch.full((2, 2), 0.5), 0.1)


def test_crown_for_all_and_refinement_for_some(make_net):
    net, x = make_net("dense", 7), torch.rand(12, 1, 2, 2)
    box, lines = confidence_bounds(net, x, 0.2), confidence_bounds(net, x, 0.2, method="crown")
    assert (lines.upper <= box.upper).all()
    assert (lines.upper < box.upper).any()
    assert (lines.lower >= box.lower).all()
    assert lines.refined == 12
    threshold = float(np.median(box.upper))
    some = confidence_bounds(net, x, 0.2, refine=3, threshold=threshold)
    changed = (some.upper != box.upper) | (some.lower != box.lower)
    assert some.refined <= 3
    assert changed.sum() <= 3
    open_ = np.where(box.value <= threshold, box.upper > threshold, box.lower < threshold)
    assert open_[changed].all()
    assert some.method == "ibp, crown"


def test_decided_samples_are_not_refined(make_net):
    net, x = make_net("dense", 7), torch.rand(5, 1, 2, 2)
    bounds = confidence_bounds(net, x, 0.0, refine=5, threshold=-10.0)  # every value is above, and so is every bound
    assert bounds.refined == 0
    assert bounds.method == "ibp"


class OwnBound(nn.Module):
    """A gated classifier whose gate is x0 - 0.5 times 10, and that knows its bound."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(2, 1)
        self.gate.weight.data, self.gate.bias.data = torch.tensor([[10.0, 0.0]]), torch.tensor([-5.0])

    def forward(self, x):
        share = torch.sigmoid(self.gate(x))
        return torch.log(torch.cat([share + (1 - share) / 2, (1 - share) / 2], dim=1))

    def log_confidence_bounds(self, x, epsilon, clip=(0.0, 1.0)):  # no slack: it says nothing of rounding in float32
        low, high = x[:, 0] - epsilon, x[:, 0] + epsilon
        if clip is not None:
            low, high = low.clamp(min=clip[0]), high.clamp(max=clip[1])
        return gated_log_confidence(10 * low - 5, 2), gated_log_confidence(10 * high - 5, 2)


def test_a_model_may_bring_its_own_bound():
    bounds = confidence_bounds(OwnBound(), [[0.2, 0.5], [0.9, 0.5]], 0.3, arithmetic="float64")
    # gate at 0.5 is 0: 1/2 + 1/4; at the clip 1.0 it is 5
    assert np.exp(bounds.upper) == pytest.approx([0.75, 0.5 + 0.5 / (1 + np.exp(-5))])
    assert (bounds.lower <= bounds.value).all()
    assert (bounds.value <= bounds.upper).all()
    wide = confidence_bounds(OwnBound(), [[0.2, 0.5], [0.9, 0.5]], 0.3, clip=None, arithmetic="float64")
    assert wide.upper[1] > bounds.upper[1]
    with pytest.raises(InputError, match="which CROWN cannot refine"):
        confidence_bounds(OwnBound(), [[0.2, 0.5]], 0.3, method="crown", arithmetic="float64")
    with pytest.raises(InputError, match="do not cover the rounding of float32"):
        confidence_bounds(OwnBound(), [[0.2, 0.5]], 0.3)


def test_epsilon_star_is_certified_and_nearly_the_largest(make_net):
    net, x = make_net("dense", 2), torch.rand(10, 1, 2, 2)
    clean = confidence_bounds(net, x, 0.0)
    threshold = float(np.median(clean.value))  # half of the samples are above it as they are
    radius = epsilon_star(net, x, threshold, steps=14)
    for i in range(10):
        if np.isnan(radius[i]):
            assert clean.upper[i] > threshold
            continue
        assert confidence_bounds(net, x[i : i + 1], radius[i]).upper[0] <= threshold
        if radius[i] < 1:
            assert confidence_bounds(net, x[i : i + 1], radius[i] + 2**-14).upper[0] > threshold
    assert np.isnan(radius).any()
    assert (radius > 0).any()


def test_epsilon_star_says_all_where_nothing_can_happen():
    net = nn.Linear(2, 2)
    net.weight.data.zero_()
    net.bias.data.zero_()
    assert epsilon_star(net, [[0.5, 0.5]], np.log(0.6), largest=0.7).tolist() == [0.7]


def test_label_bounds_enclose_the_scores_of_every_label(make_net, everywhere):
    net, x = make_net("conv", 1), torch.rand(4, 1, 2, 2)
    bounds = label_bounds(net, x, 0.2, batch_size=3)
    assert bounds.value.shape == (4, 3)
    for i in range(4):
        with torch.no_grad():
            found = -torch.log_softmax(net(everywhere(x[i].double(), 0.2)), 1).numpy()
        assert (found <= bounds.upper[i] + 1e-14).all()
        assert (found >= bounds.lower[i] - 1e-14).all()
    # the most likely label has the lowest score, and its lower bound is the upper bound of the log-confidence
    np.testing.assert_allclose(-bounds.lower.min(axis=1), confidence_bounds(net, x, 0.2).upper)


def test_clipping_the_box_is_tighter_and_evaluation_does_it(make_net):
    # Pitfall 5: GOOD trains on boxes that reach beyond [0, 1] and certifies clipped ones
    net, x = make_net("dense", 3), torch.tensor([[[[0.0, 1.0], [0.05, 0.95]]]])
    inside, beyond = confidence_bounds(net, x, 0.3), confidence_bounds(net, x, 0.3, clip=None)
    assert inside.upper[0] < beyond.upper[0]
    found = log_confidence_upper(difference_bounds(net, x.double(), 0.3, clip=None, slack=REAL))
    assert beyond.upper[0] == pytest.approx(found.item())


@pytest.mark.parametrize(("call", "what"), [
    (lambda n: confidence_bounds(n, torch.full((1, 2), 1.5), 0.1), "x must lie between 0 and 1, got values from 1.5"),
    (lambda n: confidence_bounds(n, torch.full((1, 2), np.nan), 0.1), "x has NaN, first at row 0"),
    (lambda n: confidence_bounds(n, torch.rand(2), 0.1), "batch of inputs"),
    (lambda n: confidence_bounds(n, torch.rand(1, 2), -0.1), "epsilon must be"),
    (lambda n: confidence_bounds(n, torch.rand(2, 2), np.array([0.1, 0.2])), "epsilon must be"),
    (lambda n: confidence_bounds(n, torch.rand(1, 2), 0.1, clip=(1.0, 0.0)), "clip must be"),
    (lambda n: confidence_bounds(n, torch.rand(1, 3), 0.1), r"cannot take inputs of shape \(3,\)"),
    (lambda n: confidence_bounds(n, torch.rand(1, 2), 0.1, method="crwn"), "Did you mean 'crown'"),
    (lambda n: confidence_bounds(n, torch.rand(1, 2), 0.1, refine=5), "refine needs threshold"),
    (lambda n: epsilon_star(n, torch.rand(1, 2), -1.0, largest=0), "largest must be"),
])  # fmt: skip
def test_wrong_arguments_are_named(call, what):
    with pytest.raises(InputError, match=what):
        call(nn.Linear(2, 2))


class DeviceIsSaid(TorchFunctionMode):
    """Every new tensor must say where it lies; random ones are drawn on the CPU, the same for every device."""

    makers = ("zeros", "ones", "empty", "full", "eye", "arange", "linspace", "tensor", "as_tensor", "rand", "randint")

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in [getattr(torch, name) for name in self.makers] and sys._getframe(1).f_globals["__name__"].startswith(
            "caveat"
        ):
            assert {"device", "generator"} & set(kwargs), f"{func.__name__} does not follow the model's device"
        return func(*args, **kwargs)


def test_bounds_are_made_on_the_device_of_the_model(make_net):
    # Without a second device: each tensor that bounds create must take its device from another one.
    net, dense, x = make_net("residual", 0), make_net("dense", 0), torch.rand(3, 1, 2, 2)
    with DeviceIsSaid():
        confidence_bounds(net, x, 0.1)
        confidence_bounds(dense, x, 0.1, method="crown")
        label_bounds(net, x, 0.1)
        epsilon_star(net, x, -0.5)
        exact_logits(net, x)


def test_a_model_stays_where_it_is_and_inputs_come_to_it():
    net = nn.Linear(3, 2, device="meta")
    assert device_of(net) == torch.device("meta")
    assert as_double([[0.1, 0.2, 0.3]], device_of(net)).device == torch.device("meta")
    assert device_of(nn.ReLU()) == torch.device("cpu")


def test_arrays_that_torch_does_not_take_as_they_are(recwarn):
    net, x = nn.Linear(4, 3), np.random.default_rng(0).random((5, 4))
    want = confidence_bounds(net, x, 0.1).upper
    locked = x.copy()
    locked.flags.writeable = False
    torch.set_warn_always(True)  # torch says it only once a process
    try:
        np.testing.assert_array_equal(confidence_bounds(net, locked, 0.1).upper, want)
    finally:
        torch.set_warn_always(False)
    np.testing.assert_allclose(confidence_bounds(net, x[::-1], 0.1).upper, want[::-1], rtol=1e-12)
    np.testing.assert_allclose(exact_logits(net, locked[::-1]), exact_logits(net, x)[::-1], rtol=1e-12)
    assert not recwarn
