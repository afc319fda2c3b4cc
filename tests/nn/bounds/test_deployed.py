"""Certificates hold for the model that is deployed, in its own arithmetic, or there is none."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.robust import DensityRatio, Mixture, sandwich

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from tests.nn.bounds.generated import strongest  # noqa: E402
from torch import nn  # noqa: E402

from caveat.nn import in_float64  # noqa: E402  # noqa: E402
from caveat_lab.attacks import attack_confidence  # noqa: E402
from caveat_lab.bounds import confidence_bounds, epsilon_star, label_bounds, log_confidence  # noqa: E402  # noqa: E402
from caveat_lab.networks.training import PRESETS, fit_preset  # noqa: E402
from caveat_lab.networks.training.ccu import CCUModel  # noqa: E402
from caveat_lab.networks.training.joint import JointModel, NegativeLinear  # noqa: E402

HALVES = (torch.bfloat16, torch.float16)


def said(net, x):
    with torch.no_grad():
        return log_confidence(net(x).double()).numpy()


def by_hand(*layers):
    """Linear layers from pairs (weight, bias), with ReLU after the first."""
    parts = []
    for numbers in layers:
        weight, bias = (torch.tensor(part, dtype=torch.float64) for part in numbers)
        part = nn.Linear(*reversed(weight.shape)).double()
        part.weight.data, part.bias.data = weight, bias
        parts += [part, nn.ReLU()] if not parts else [part]
    return nn.Sequential(*parts)


# networks from the literature on fooling verifiers


@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float32, 2.0**24), (torch.float64, 2.0**53), (torch.float16, 2048.0)]
)
def test_a_sum_that_swallows_its_input_has_no_certificate(dtype, size):
    # Zombori et al., "Fooling a complete neural network verifier", ICLR 2021: x + w - w is x in real numbers and a
    # multiple of 2 in floats. Around x = 1 the network says 1/2 in real numbers, and is certain in its own arithmetic.
    net = by_hand(([[1.0]], [size]), ([[1.0]], [-size]), ([[20.0], [0.0]], [-20.0, 0.0])).to(dtype)
    x = torch.ones(1, 1)
    bounds = confidence_bounds(net, x, 0.01, clip=(0.0, 2.0))
    points = torch.linspace(0.99, 1.01, 41)[:, None].to(dtype)
    if dtype == torch.float32:
        assert said(net, points).max() > bounds.exact.upper[0] + 0.5  # the certificate of before, beaten by far
    assert np.isinf(bounds.upper[0])
    assert not bounds.certified[0]
    assert "without a certificate, since rounding exceeds the margin" in str(bounds)
    assert not bounds.below(-1e-3)[0]
    assert np.isnan(epsilon_star(net, x, math.log(0.6), clip=(0.0, 2.0))[0])


def test_a_network_verified_in_real_numbers_is_beaten_in_float32_and_not_its_certificate():
    # Jia and Rinard, "Exploiting verified neural networks via floating point numerical error", SAS 2021: of inputs that
    # are robust in real numbers by a hair, many are not in floats.
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 3))
    x = torch.rand(200, 200)
    bounds = confidence_bounds(net, x, 0.0)
    beyond = said(net, x) > bounds.exact.upper
    assert beyond.mean() > 0.1
    assert (said(net, x) <= bounds.upper).all()
    assert (said(net, x) >= bounds.lower).all()
    generator = torch.Generator().manual_seed(0)
    for epsilon in (1e-7, 1e-4):
        reached = strongest(net, x, epsilon, torch.float32, generator, tries=12, climbs=6)
        assert (reached <= confidence_bounds(net, x, epsilon).upper).all()


def test_a_bias_hidden_in_two_layers_does_not_help():
    # The large number in the middle, and taken away in two steps: every order of the sums is covered.
    net = by_hand(
        ([[1.0]], [0.0]), ([[1.0], [1.0]], [2.0**24, 1.0]), ([[20.0, -20.0], [0.0, 0.0]], [-20 * 2.0**24, 0.0])
    )
    bounds = confidence_bounds(net.float(), torch.ones(1, 1), 0.01, clip=(0.0, 2.0))
    assert not np.isfinite(bounds.upper[0]) or bounds.upper[0] >= said(net, torch.ones(1, 1))[0]


# scaled and shifted layers


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e7])
def test_a_normalization_of_shifted_values_is_paid_for(shift):
    # A bias of 1000 before BatchNorm moves float32 by 2e-4, and hundreds of 1,500 rows lie above a bound in float64.
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(20, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 4)).eval()
    net[0].bias.data += shift
    net[1].running_mean.copy_(net[0].bias.detach())
    net[1].running_var.fill_(0.1)
    x = torch.rand(1500, 20)
    bounds = confidence_bounds(net, x, 0.0)
    if shift:
        assert (said(net, x) > bounds.exact.upper).sum() > 100
    assert (said(net, x) <= bounds.upper).all()
    assert (said(net, x) >= bounds.lower).all()
    assert bounds.certified.all() == (shift < 1e7)
    assert np.median(bounds.slack) > shift * 1e-8


def test_a_layer_norm_of_flat_images_is_paid_for():
    torch.manual_seed(0)
    net = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    flat = torch.full((300, 16), 0.7) + 1e-6 * torch.randn(300, 16)
    bounds = confidence_bounds(net, flat, 0.0)
    off = np.abs(said(net, flat) - bounds.exact.value)
    assert off.max() > 1e-7  # much more than where images have contrast
    assert (said(net, flat) <= bounds.upper).all()
    assert (said(net, flat) >= bounds.lower).all()
    assert bounds.slack[bounds.certified].min() > off.max()


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_certified_for_what_it_rounds(dtype):
    # The unchanged input alone passes a bound in float64 in a quarter of the rows.
    torch.manual_seed(0)
    net = nn.Linear(64, 10).to(dtype)
    x = torch.rand(64, 64).to(dtype)
    for epsilon in (0.0, 1e-4, 0.01):
        bounds = confidence_bounds(net, x, epsilon)
        assert bounds.arithmetic == str(dtype).removeprefix("torch.")
        reached = strongest(net, x, epsilon, dtype, torch.Generator().manual_seed(1))
        if not epsilon:
            assert (reached > bounds.exact.upper).mean() > 0.2
        assert (reached <= bounds.upper).all()


def test_an_overflow_of_half_precision_is_no_certificate():
    # 300 * 300 exceeds 65504, and float16 says NaN or certainty where real numbers say 1/2.
    net = by_hand(
        ([[300.0], [300.0]], [0.0, 0.0]), ([[300.0, 0.0], [0.0, 300.0]], [0.0, 0.0]), ([[1e-3, -1e-3]] * 2, [0.0, 0.0])
    )
    x = torch.full((1, 1), 0.25)
    assert confidence_bounds(net.float(), x, 0.01).certified.all()
    bounds = confidence_bounds(net.half(), torch.tensor([[1.0], [0.6], [0.1]]), 0.2)
    assert bounds.certified.tolist() == [False, False, True]
    assert np.isnan(bounds.value).tolist() == [True, False, False]  # the model itself overflows at the first


def test_long_sums_of_half_precision_have_no_certificate():
    # 300 products in bfloat16: 300 u > 1, so that an order of additions may lose everything.
    bounds = confidence_bounds(nn.Linear(300, 3).bfloat16(), torch.rand(4, 300), 0.0)
    assert np.isinf(bounds.upper).all()
    assert np.isinf(bounds.slack).all()
    assert bounds.exact.certified.all()
    labels = label_bounds(nn.Linear(300, 3).bfloat16(), torch.rand(4, 300), 0.0)
    assert np.isinf(labels.upper).all()


# a choice of arithmetic


def test_the_network_in_float64_has_its_own_tight_certificate():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(50, 40), nn.ReLU(), nn.Linear(40, 3))
    x = torch.rand(30, 50)
    model, double = confidence_bounds(net, x, 0.02), confidence_bounds(net, x, 0.02, arithmetic="float64")
    assert (model.arithmetic, double.arithmetic, double.exact.arithmetic) == ("float32", "float64", "real")
    np.testing.assert_array_equal(model.exact.upper, double.exact.upper)
    assert (double.slack > 0).all()
    assert double.slack.max() < 1e-12
    assert (model.slack > 1e3 * double.slack).all()
    deployed = in_float64(net)
    assert deployed[0].weight.dtype == torch.float64
    assert not deployed.training
    assert net[0].weight.dtype == torch.float32
    np.testing.assert_array_equal(confidence_bounds(deployed, x, 0.02).upper, double.upper)
    np.testing.assert_array_equal(double.value, said(deployed, x.double()))
    np.testing.assert_allclose(model.value, said(net, x), rtol=0, atol=1e-6)


def test_bounds_and_slack_of_labels_hold_in_the_type_of_the_model():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(50, 40), nn.GELU(), nn.Linear(40, 3))
    x = torch.rand(100, 50)
    for epsilon in (0.0, 0.01):
        bounds = label_bounds(net, x, epsilon)
        with torch.no_grad():
            scores = -net((x + epsilon).clamp(0, 1)).double().log_softmax(dim=1).numpy()
        assert (bounds.lower <= scores).all()
        assert (scores <= bounds.upper).all()
        assert bounds.slack.max() < 1e-4


def test_linear_bounds_pay_for_rounding_too():
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3)), torch.rand(40, 30)
    boxes, lines = confidence_bounds(net, x, 0.0), confidence_bounds(net, x, 0.0, method="crown")
    assert (said(net, x) > lines.exact.upper + 1e-9).any() or (said(net, x) > boxes.exact.upper).any()
    assert (said(net, x) <= lines.upper).all()
    assert (lines.upper <= boxes.upper).all()
    wide = confidence_bounds(net, x, 0.1, method="crown")
    assert (wide.upper < confidence_bounds(net, x, 0.1).upper).all()
    reached = strongest(net, x, 0.1, torch.float32, torch.Generator().manual_seed(0))
    assert (reached <= wide.upper).all()


def test_the_largest_radius_is_certified_for_the_model_itself():
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3)), torch.rand(20, 30)
    threshold = float(np.median(confidence_bounds(net, x, 0.0).value)) + 0.05
    model, double = (epsilon_star(net, x, threshold, arithmetic=how) for how in ("model", "float64"))
    some = ~np.isnan(model)
    assert some.any()
    assert (model[some] <= double[some]).all()
    assert (confidence_bounds(net, x[some], float(model[some].min())).upper <= threshold).all()


# hooks that take part only where nobody looks


def loud(when):
    def hook(module, args, out):
        return 4 * out if isinstance(out, torch.Tensor) and when(out) else None

    return hook


@pytest.mark.parametrize("when", [
    lambda out: out.dtype == torch.float32,
    lambda out: out.shape[0] == 1,
    lambda out: out.shape[0] == 7,
    lambda out: out.shape[0] >= 100,
    lambda out: torch.is_grad_enabled(),
    lambda out: not torch.is_grad_enabled(),
    lambda out: out.shape[0] == 7 and not torch.is_grad_enabled(),
    lambda out: out.dtype == torch.float32 and out.shape[0] >= 100 and torch.is_grad_enabled(),
])  # fmt: skip
@pytest.mark.parametrize("bounds", [
    lambda net, x: confidence_bounds(net, x, 0.1, batch_size=128),
    lambda net, x: label_bounds(net, x, 0.1, batch_size=128),
    lambda net, x: epsilon_star(net, x, -0.5, batch_size=128),
])  # fmt: skip
def test_hooks_by_type_batch_and_gradients_are_refused(when, bounds):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    net[2].register_forward_hook(loud(when))
    with pytest.raises(InputError, match=r"nothing is\s+certified|cannot be read"):
        bounds(net, torch.rand(3, 4))


def test_a_type_that_is_seen_while_the_graph_is_read_does_not_pass():
    # The type of a buffer, unlike that of a value, is known while a graph is read: each is true of its own network.
    class Louder(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("one", torch.ones(()))

        def forward(self, x):
            return x * (4 if self.one.dtype == torch.float32 else 1)

    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), Louder())
    with pytest.raises(InputError, match="has other layers in float32 than in float64"):
        confidence_bounds(net, torch.rand(2, 4), 0.1)


def test_models_with_own_bounds_are_run_in_their_type():
    class Own(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.layer, self.factor = nn.Linear(3, 2), factor

        def forward(self, x):
            logits = self.layer(x).clamp(-0.5, 0.5)
            return self.factor * logits if x.dtype == torch.float32 else logits

        def log_confidence_bounds(self, x, epsilon, slack):
            return torch.full(x.shape[:1], -1.0), torch.full(x.shape[:1], -0.1)

    assert confidence_bounds(Own(1), torch.rand(5, 3), 0.1).upper == pytest.approx(-0.1, abs=1e-5)
    with pytest.raises(InputError, match="leaves its bounds at an input of the ball"):
        confidence_bounds(Own(50), torch.rand(5, 3), 0.1)


def test_a_model_is_left_in_its_modes_with_its_buffers_and_without_what_was_seen():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    net[2].eval()
    seen = []
    net[2].register_forward_hook(lambda module, args, out: module.__dict__.setdefault("seen", []).append(out))
    before = copy.deepcopy(net.state_dict())
    confidence_bounds(net, torch.rand(3, 4), 0.1)
    assert [part.training for part in net] == [True, True, False, True, True]
    assert "seen" not in vars(net[2])
    assert not seen
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


# one logit


def test_a_single_logit_has_no_confidence_and_two_have_that_of_its_sigmoid():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)
            self.layer.weight.data.fill_(2.0)
            self.layer.bias.data.fill_(0.0)

        def forward(self, x):
            return F.pad(self.layer(x), (0, 1))

    for call in (confidence_bounds, label_bounds):
        with pytest.raises(
            InputError, match=r"at least 2 classes to have a confidence, got 1.*F.pad\(logit, \(0, 1\)\)"
        ):
            call(nn.Linear(1, 1), [[0.5]], 0.25)
    with pytest.raises(InputError, match="at least 2 classes"):
        attack_confidence(nn.Linear(1, 1), [[0.5]], 0.25, rng=0, steps=2)
    # 2 x reaches 1.5 at x = 0.75: the sigmoid of that
    assert np.exp(confidence_bounds(Two(), [[0.5]], 0.25).exact.upper[0]) == pytest.approx(1 / (1 + math.exp(-1.5)))


# inputs and models that cannot be taken


def test_an_input_one_ulp_outside_is_shown_with_all_its_digits():
    with pytest.raises(InputError, match="between 0 and 1, got values from 0.5 to 1.0000000000000002"):
        confidence_bounds(nn.Linear(2, 2), np.array([[0.5, np.nextafter(1, 2)]]), 0.1)


def test_a_model_without_numbers_and_a_compiled_one_are_explained():
    with pytest.raises(InputError, match="on the meta device, which holds no numbers"):
        confidence_bounds(nn.Linear(2, 2, device="meta"), [[0.5, 0.5]], 0.1)
    compiled = torch.compile(nn.Linear(2, 2), backend="eager")
    for call in (confidence_bounds, label_bounds):
        with pytest.raises(InputError, match="is compiled.*model._orig_mod"):
            call(compiled, [[0.5, 0.5]], 0.1)


def test_a_last_layer_whose_input_is_named_is_read():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, h):
            return F.linear(weight=self.layer.weight, bias=self.layer.bias, input=h)

    net, x = Named(), torch.rand(3, 4)
    np.testing.assert_array_equal(confidence_bounds(net, x, 0.1).upper, confidence_bounds(net.layer, x, 0.1).upper)


# gated classifiers and trained networks


def gated(kind):
    torch.manual_seed(3)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    if kind == "ccu":
        net = CCUModel(classifier, 4)
        net.set_ratio(DensityRatio(Mixture([1.0], [[0.3] * 16], [0.1]), Mixture([1.0], [[0.5] * 16], [0.2])))
        return net
    head = NegativeLinear(12) if kind == "negative" else nn.Linear(12, 1)
    detector = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), head)
    return JointModel(classifier, detector, 4, shift=0.3)


@pytest.mark.parametrize("kind", ["joint", "negative", "ccu"])
def test_gated_classifiers_hold_in_float32(kind):
    net = gated(kind)
    x = torch.rand(60, 1, 4, 4)
    for epsilon in (0.0, 1e-5, 0.05):
        bounds = confidence_bounds(net, x, epsilon)
        assert bounds.arithmetic == "float32"
        reached = strongest(net, x, epsilon, torch.float32, torch.Generator().manual_seed(0), tries=20, climbs=8)
        assert (reached <= bounds.upper).all()
        assert bounds.slack[bounds.certified].max() < 1e-3


def test_the_certificates_of_a_preset_are_not_passed_by_its_own_answers():
    # A network trained to certify: what the model says of the unchanged input lay above its bound by 1e-8.
    from caveat_lab import data

    images = data.digits()
    preset = copy.copy(PRESETS["tiny"])
    object.__setattr__(preset, "epochs", 8)
    net = fit_preset(preset, (images.inputs(), images.labels), threads=1, progress=False).model
    inside, outside = (torch.from_numpy(images.inputs()[rows]) for rows in (slice(0, 100), slice(100, 200)))
    bounds = confidence_bounds(net, outside, 0.0)
    inside, clean = said(net, inside), said(net, outside)
    assert (clean > bounds.exact.upper).any()
    areas = sandwich(inlier=inside, outlier=clean, outlier_attacked=clean, outlier_upper=np.minimum(bounds.upper, 0))
    assert areas.guaranteed <= areas.clean
    # With the bounds in real numbers, the slack is the room that rounding needs.
    real = bounds.exact.upper
    with pytest.raises(InputError, match="must not exceed outlier_upper"):
        sandwich(inlier=inside, outlier=clean, outlier_attacked=clean, outlier_upper=real, tolerance=0.0)
    held = sandwich(inlier=inside, outlier=clean, outlier_attacked=clean, outlier_upper=real, tolerance=bounds.slack)
    assert held.clean == areas.clean
