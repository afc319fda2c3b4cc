"""No model, however it is written, gets a certificate that an allowed input beats.

The models are small classifiers (4 inputs, 3 classes) with forward passes that are hard to trace.
"""

from __future__ import annotations

import copy
import itertools
import random
import types

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from caveat_lab.bounds import confidence_bounds, export_network, label_bounds, log_confidence  # noqa: E402  # noqa: E402
from caveat_lab.robust import Network  # noqa: E402


class Net(nn.Module):
    """Two hidden layers; ``between`` and ``start`` are what a twist puts into the forward pass."""

    def __init__(self, kind, seed):
        torch.manual_seed(seed)
        super().__init__()
        width = 6
        first = {
            "dense": [nn.Flatten(), nn.Linear(4, width)],
            "conv": [nn.Conv2d(1, 3, 2, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
                     nn.Linear(3, width)],
            "plain": [nn.Flatten(), nn.Linear(4, width, bias=False), nn.Dropout(0.5)],
        }  # fmt: skip
        self.first, self.relu = nn.Sequential(*first[kind]), nn.ReLU(inplace=seed % 2 == 0)
        self.second, self.head = nn.Linear(width, width), nn.Linear(width, 3)
        for weight in self.parameters():
            weight.data.mul_(2)
        self.start = self.between = None

    def forward(self, x):
        if self.start is not None:
            x = self.start(self, x)
        h = self.second(self.relu(self.first(x)))
        h = h.relu() if self.between is None else self.between(self, h)
        return self.head(h)


def classifier(twist, seed):
    """A model with a twist, and the input for which its logits are uniform before the twist is put in."""
    net = Net(("dense", "conv", "plain")[seed % 3], seed).eval()
    torch.manual_seed(seed)
    x = torch.rand(1, 1, 2, 2)
    if seed % 4:  # else logits are not uniform at the input
        net.head.bias.data -= net(x)[0].detach()
    return TWISTS[twist](net), x


def between(change):
    def twist(net):
        net.between = change
        return net

    return twist


def start(change):
    def twist(net):
        net.start = change
        return net

    return twist


def hooked(part, hook, *, pre=False, **how):
    def twist(net):
        module = net.get_submodule(part)
        (module.register_forward_pre_hook if pre else module.register_forward_hook)(hook, **how)
        return net

    return twist


def patched(part):
    def twist(net):
        module = net.get_submodule(part)
        plain = type(module).forward
        module.forward = types.MethodType(lambda self, x: 3 * plain(self, x), module)
        return net

    return twist


def exchanged(make):
    """The head exchanged for a layer with the same weights."""

    def twist(net):
        made = make(6, 3)
        made.load_state_dict(net.head.state_dict(), strict=False)
        net.head = made.eval()
        return net

    return twist


# in place, aliases


def sum_of_aliases(net, h):
    out = h
    out += h
    return out + h


def view_written_to(net, x):
    y = x.view(x.shape[0], -1)
    y *= 2
    return x


def input_written_to(net, x):
    x += 0.25
    return x


def slice_written_to(net, h):
    part = h[:, :3]
    part *= 5
    return h


def old_name(net, h):
    y = h
    z = F.relu(h, inplace=True)
    return y - 2 * z


def set_item(net, h):
    h[:, 0] = 4 * h[:, 1]
    return h


def through_data(net, h):
    h.data.mul_(3)
    return h


def through_detach(net, h):
    h.detach().mul_(3)
    return h


def given_out(net, h):
    torch.mul(h, 4.0, out=h)
    return h


def constant_written_to(net, h):
    shift = torch.ones(6)
    y = h + shift
    shift += 3 * torch.arange(6)
    return y * shift


def residual(net, h):
    before = h
    h = net.second(h.relu())
    h += before
    return h.relu()


def residual_with_alias(net, h):
    before = h
    h *= 3
    return h + before


def split_written_to(net, h):
    one, other = h.chunk(2, dim=1)
    one += 2 * other
    return h


def parts_added(net, h):
    one, other = h.split(3, dim=1)
    return torch.cat([one + other, one - 2 * other], dim=1).relu()


# chance, state, values, batches


def counted(net, h):
    net.calls = getattr(net, "calls", 0) + 1
    return h * net.calls


class Counter(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.net(x) * self.calls


class Remembers(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.last = net, None

    def forward(self, x):
        out = self.net(x)
        said = out if self.last is None else out + self.last.mean(0)
        self.last = out.detach()
        return said


class CallsTwice(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def __call__(self, x):
        return 2 * super().__call__(x) + super().__call__(x)

    def forward(self, x):
        return self.net(x)


class Reads(nn.Module):
    """What a stand-in for a tensor does not show: only real tensors are multiplied."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        out = self.net(x)
        return 4 * out if isinstance(out, torch.Tensor) else out


class SumOfAliases(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        out = h = self.net(x)
        out += h
        return out + h


class LoudLinear(nn.Linear):
    def forward(self, x):
        return 3 * super().forward(x)


class NoRest(nn.Dropout):
    def train(self, mode=True):
        return super().train(True)


class WakesUp(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.norm = net, nn.BatchNorm1d(3)

    def forward(self, x):
        self.norm.train()
        return self.norm(self.net(x))


def branch(net, h):
    return 4 * h if h.sum() > 0 else h


def branch_in_hook(module, args, out):
    return 4 * out if bool((out.abs() > 2).any()) else None


def hidden_branch_in_hook(module, args, out):
    """A branch that only a real tensor takes."""
    return 4 * out if isinstance(out, torch.Tensor) and bool((out.abs() > 2).any()) else None


def numpy_branch_in_hook(module, args, out):
    if isinstance(out, torch.Tensor) and np.abs(out.detach().numpy()).max() > 2:
        return 4 * out
    return None


def counting_branch_in_hook(module, args, out):
    if isinstance(out, torch.Tensor) and (out.abs() > 2).nonzero().shape[0] > 0:
        return 4 * out
    return None


def changed_in_hook(module, args, out):
    out.mul_(4)


def one_at_a_time_in_hook(module, args, out):
    return 4 * out if isinstance(out, torch.Tensor) and out.shape[0] == 1 else None


def loud_with_gradients_in_hook(module, args, out):
    return 4 * out if isinstance(out, torch.Tensor) and torch.is_grad_enabled() else None


def keep(module, args, out):
    module.__dict__.setdefault("seen", []).append(out)


READABLE = {
    "none": lambda net: net,
    "recording hook": hooked("second", keep),
    "residual": between(residual),
    "constant": between(lambda net, h: (h - 0.5) * torch.tensor([1.0, -1, 2, 0.5, 1, 1]) / 2),
    "constant made by torch": between(lambda net, h: h + torch.ones(6)),
    "weight norm": lambda net: nn.utils.parametrizations.weight_norm(net.second) and net,
    "spectral norm": lambda net: nn.utils.parametrizations.spectral_norm(net.head) and net,
    "layer used twice": between(lambda net, h: net.second(net.second(h.relu()).relu())),
    "input written to": start(lambda net, x: x.mul_(0.5)),
    "input written to by +=": start(input_written_to),
    "slices": between(lambda net, h: F.pad(h[:, ::2], (1, 2))),
    "wrapped": lambda net: nn.Sequential(nn.Identity(), net),
    "functional dropout": between(lambda net, h: F.dropout(h, 0.5, training=net.training)),
    "hook on the last layer": hooked("head", lambda module, args, out: 4 * out),
    "hook on the model": hooked("", lambda module, args, out: 4 * out),
    "hook before the model": hooked("", lambda module, args: (2 * args[0],), pre=True),
    "hook before a layer": hooked("second", lambda module, args: (2 * args[0],), pre=True),
    "hook on an activation": hooked("relu", lambda module, args, out: out - 1),
    "hook on a block": hooked("first", lambda module, args, out: 3 * out),
    "hook with keywords": hooked("head", lambda module, args, kwargs, out: 4 * out, with_kwargs=True),
    "patched layer": patched("second"),
    "patched head": patched("head"),
    "patched model": patched(""),
    "subclass of a layer": exchanged(LoudLinear),
    "own call": CallsTwice,
    "leaky relu": between(lambda net, h: F.leaky_relu(h, 0.2)),
    "leaky relu with a negative slope": between(lambda net, h: F.leaky_relu(h, -1.5)),
    "gelu": between(lambda net, h: F.gelu(h)),
    "gelu by tanh": between(lambda net, h: F.gelu(h, approximate="tanh")),
    "silu": between(lambda net, h: F.silu(h)),
    "silu in place": between(lambda net, h: F.silu(h, inplace=True)),
    "sigmoid": between(lambda net, h: 3 * h.sigmoid()),
    "tanh": between(lambda net, h: 3 * torch.tanh(h)),
    "layer norm": between(lambda net, h: F.layer_norm(h, (6,))),
    "negated": between(lambda net, h: torch.relu(-h)),
    "parts swapped": between(lambda net, h: torch.cat(h.chunk(2, dim=1)[::-1], dim=1).relu()),
    "parts added": between(parts_added),
    "spectral norm inside": lambda net: nn.utils.parametrizations.spectral_norm(net.second) and net,
    "weight norm of the head": lambda net: nn.utils.parametrizations.weight_norm(net.head) and net,
    "orthogonal": lambda net: nn.utils.parametrizations.orthogonal(net.second) and net,
}

# Their weights are computed in the forward pass, and rounded there in a way that has no bound.
RECOMPUTED = ("weight norm", "spectral norm", "spectral norm inside", "weight norm of the head", "orthogonal")

TWISTS = {
    **READABLE,
    "hook writes": hooked("head", changed_in_hook),
    "hook writes into a block": hooked("first", changed_in_hook),
    "hook branches": hooked("head", branch_in_hook),
    "hook branches on tensors": hooked("head", hidden_branch_in_hook),
    "hook branches by numpy": hooked("head", numpy_branch_in_hook),
    "hook branches by counting": hooked("head", counting_branch_in_hook),
    "hook for one": hooked("head", one_at_a_time_in_hook),
    "hook for gradients": hooked("head", loud_with_gradients_in_hook),
    "hook draws": hooked("head", lambda module, args, out: out * (1 + torch.rand(3))),
    "hook branches without asking": hooked("head", lambda module, args, out: torch.where(out > 0, 4 * out, out)),
    "hook scales by value": hooked("head", lambda module, args, out: out * out.detach().abs().max()),
    "sum of aliases": between(sum_of_aliases),
    "sum of aliases at the end": SumOfAliases,
    "view written to": start(view_written_to),
    "slice written to": between(slice_written_to),
    "old name": between(old_name),
    "parts of an alias": between(lambda net, h: torch.cat([h.chunk(2, dim=1)[0], h.mul_(2).chunk(2, dim=1)[1]], 1)),
    "tanh in place and read again": between(lambda net, h: h + 3 * torch.tanh_(h)),
    "set item": between(set_item),
    "through data": between(through_data),
    "through detach": between(through_detach),
    "given out": between(given_out),
    "constant written to": between(constant_written_to),
    "residual with alias": between(residual_with_alias),
    "split written to": between(split_written_to),
    "constant drawn": between(lambda net, h: h * torch.randn(6)),
    "drawn like": between(lambda net, h: h + torch.rand_like(h)),
    "drawn for the batch": between(lambda net, h: h + torch.rand(h.shape[0], 6)),
    "drawn by python": between(lambda net, h: h * random.uniform(1, 3)),
    "drawn by numpy": between(lambda net, h: h * float(np.random.uniform(1, 3))),  # noqa: NPY002
    "dropout always": between(lambda net, h: F.dropout(h, 0.5)),
    "dropout without rest": lambda net: nn.Sequential(NoRest(0.5), net),
    "wakes up": WakesUp,
    "counted": between(counted),
    "counted in a buffer": Counter,
    "remembers": Remembers,
    "reads": Reads,
    "branch": between(branch),
    "where": between(lambda net, h: torch.where(h > 0, 3 * h, h)),
    "clamped": between(lambda net, h: h.clamp(-0.1, 0.1)),
    "rounded": start(lambda net, x: x.round()),
    "half": start(lambda net, x: x.half().to(x.dtype)),
    "bits": start(lambda net, x: x.view(torch.int64 if x.dtype == torch.float64 else torch.int32).to(x.dtype)),
    "masked": between(lambda net, h: h * (h > 0)),
    "sorted": between(lambda net, h: h.sort(dim=1).values),
    "less the batch": between(lambda net, h: h - h.mean(0)),
    "less all": between(lambda net, h: h - h.mean()),
    "first of the batch": between(lambda net, h: h + 3 * h[:1]),
    "other order": start(lambda net, x: x.flip(0)),
    "other rows": start(lambda net, x: x[list(range(x.shape[0]))[::-1]]),
    "norm of the batch": lambda net: nn.Sequential(net, nn.BatchNorm1d(3, track_running_stats=False)),
    "square": between(lambda net, h: h * h),
    "product": between(lambda net, h: torch.matmul(h, h.T) @ h),
}

EPSILON = 0.2
PER_TWIST = 3
CASES = [(twist, seed) for seed, twist in enumerate(twist for twist in TWISTS for _ in range(PER_TWIST))]


def allowed(x, seed):
    """All corners of the ball, random points of it, and the input."""
    rng = np.random.default_rng(seed)
    low, high = (x.flatten() - EPSILON).clamp(min=0), (x.flatten() + EPSILON).clamp(max=1)
    corners = torch.tensor(list(itertools.product(*zip(low.tolist(), high.tolist(), strict=True))), dtype=torch.float64)
    inside = low + (high - low) * torch.from_numpy(rng.random((30, 4)))
    return torch.cat([corners, inside, x.flatten()[None]]).clamp(low, high).reshape(-1, *x.shape[1:])


def strongest(model, x, seed):
    """The largest log-confidence that corners, random points and steps along the gradient reach, in any batch."""
    net, points = copy.deepcopy(model).double().eval(), allowed(x.double(), seed)
    found = [said(net, points), *(said(net, point[None]) for point in points[:20]), said(net, points[20:22])]
    moved = x.double().clone()
    for _ in range(4):
        with torch.enable_grad():
            z = moved.clone().requires_grad_()
            value = log_confidence(net(z * 1.0))  # a product, so that a model may write into what it gets
            found.append(value.detach())
            value = value.sum()
            slope = torch.autograd.grad(value, z, allow_unused=True)[0] if value.requires_grad else None
        if slope is None:
            break
        moved = moved + 0.5 * EPSILON * slope.sign()
        moved = torch.maximum(torch.minimum(moved, x.double() + EPSILON), x.double() - EPSILON).clamp(0, 1)
        found.append(said(net, moved))
    return float(torch.cat(found).max())


def said(net, points):
    with torch.no_grad():
        return log_confidence(net(points.clone()))


@pytest.mark.parametrize("twist", TWISTS)
def test_a_model_is_refused_or_no_allowed_input_passes_its_bound(twist):
    certified = 0
    for name, seed in CASES:
        if name != twist:
            continue
        model, x = classifier(twist, seed)
        try:
            how = "float64" if twist in RECOMPUTED else "model"
            upper = confidence_bounds(model, torch.cat([x, 1 - x]), EPSILON, arithmetic=how).upper[0]
        except InputError:
            continue
        certified += 1
        assert strongest(model, x, seed) <= upper + 1e-9, f"{twist}, seed {seed}"
    assert certified == PER_TWIST or twist not in READABLE, f"{twist} can be read and was refused"


def test_enough_models_are_tried_and_enough_of_them_are_certified():
    assert len(CASES) >= 200
    assert len(READABLE) * PER_TWIST >= 60


@pytest.mark.parametrize("twist", TWISTS)
def test_an_exported_model_is_the_model(twist):
    model, x = classifier(twist, 1 if twist in ("none", "hook on the model") else 0)  # seed 1 begins with a convolution
    try:
        network = Network.of(export_network(model.double()))
    except InputError:
        return
    want = copy.deepcopy(model).eval()(x.double()).detach().numpy()
    np.testing.assert_allclose(network.logits(x.numpy()), want, rtol=1e-9)


@pytest.mark.parametrize("twist", RECOMPUTED[:4])
def test_weights_that_are_computed_in_float32_are_refused_with_a_remedy(twist):
    model, x = classifier(twist, 1)
    with pytest.raises(InputError, match="remove_parametrizations, or pass arithmetic='float64'"):
        confidence_bounds(model, x, EPSILON)
    for layer in (model.second, model.head):
        if nn.utils.parametrize.is_parametrized(layer):
            nn.utils.parametrize.remove_parametrizations(layer, "weight")
    assert confidence_bounds(model, x, EPSILON).arithmetic == "float32"


def test_bounds_of_labels_are_refused_for_the_same_models():
    for twist in ("sum of aliases", "constant drawn", "counted in a buffer", "less the batch", "hook branches"):
        model, x = classifier(twist, 1)
        with pytest.raises(InputError):
            label_bounds(model, x, EPSILON)
