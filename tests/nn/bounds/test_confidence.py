from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import (  # noqa: E402
    confidence_loss,
    difference_bounds,
    effective_gate,
    gated_log_confidence,
    input_box,
    joint_log_probabilities,
    log_confidence,
    log_confidence_lower,
    log_confidence_upper,
    propagate,
    spread_upper,
)
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402
from caveat_lab.robust.density_ratio import gated_log_confidence as on_arrays  # noqa: E402


def test_by_hand_for_two_classes():
    # f_0 - f_1 in [-1, 2]: u_01 = 2, u_10 = 1. Largest confidence: class 0 at 2: 1/(1 + e^-2).
    # Smallest certified: class 0 at f_0 - f_1 = -1 gives 1/(1 + e^1); class 1 at f_1 - f_0 = -2 gives 1/(1 + e^2).
    differences = torch.tensor([[[0.0, 2.0], [1.0, 0.0]]], dtype=torch.float64)
    assert log_confidence_upper(differences).exp().item() == pytest.approx(1 / (1 + math.exp(-2)))
    assert log_confidence_lower(differences).exp().item() == pytest.approx(1 / (1 + math.exp(1)))
    assert spread_upper(differences).item() == 0  # 2 - log 2 > 0 says nothing
    assert confidence_loss(differences).item() == pytest.approx(math.log(3))


def test_by_hand_for_three_classes():
    # rows k of u: class 0: (0, 1, 2) -> -log(1 + e^-1 + e^-2); eq. (7): 2 - log 3
    differences = torch.tensor([[[0.0, 1.0, 2.0], [0.0, 0.0, 0.5], [0.1, 0.2, 0.0]]], dtype=torch.float64)
    assert log_confidence_upper(differences).item() == pytest.approx(-math.log(1 + math.exp(-1) + math.exp(-2)))
    # columns l: (0, 0, 0.1), (1, 0, 0.2), (2, 0.5, 0): the first is the smallest sum
    assert log_confidence_lower(differences).item() == pytest.approx(-math.log(2 + math.exp(0.1)))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), epsilon=st.floats(0, 0.6), kind=st.sampled_from(["dense", "conv", "residual"]))
def test_confidence_stays_between_the_bounds_and_eq_7_is_looser(make_net, everywhere, seed, epsilon, kind):
    net = make_net(kind, seed)
    x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        found = log_confidence(net(everywhere(x[0], epsilon)))
        differences = difference_bounds(net, x, epsilon, slack=REAL)
    upper = log_confidence_upper(differences)
    assert found.max() <= upper + 1e-15
    assert found.min() >= log_confidence_lower(differences) - 1e-15
    assert (upper <= spread_upper(differences) + 1e-12).all()


def test_a_softmax_of_upper_logits_is_no_bound(make_net, everywhere):
    # Pitfall 1: raising all logits together leaves a softmax where it was, so its maximum can lie under real values.
    beaten = below_clean = 0
    for seed in range(30):
        net = make_net("dense", seed)
        x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
        with torch.no_grad():
            wrong = log_confidence(propagate(net, input_box(x, 0.3)).upper)
            right = log_confidence_upper(difference_bounds(net, x, 0.3))
            found = log_confidence(net(everywhere(x[0], 0.3))).max()
            below_clean += bool(wrong < log_confidence(net(x)) - 1e-9)
        beaten += bool(found > wrong + 1e-9)
        assert found <= right + 1e-12
    assert beaten > 10
    assert below_clean > 0


def test_the_loss_is_quadratic_near_zero_and_logarithmic_far_away():
    small, large = (confidence_loss(torch.full((1, 1, 1), v, dtype=torch.float64)).item() for v in (1e-3, 1e6))
    assert small == pytest.approx(5e-7, rel=1e-5)
    assert large == pytest.approx(2 * math.log(1e6) - math.log(2), rel=1e-6)


def test_log_confidence_does_not_saturate():
    # float32 softmax of 40 against 0 is exactly 1, and log-softmax exactly 0; -log(1 + e^-40) is neither
    logits = torch.tensor([[40.0, 0.0], [80.0, 0.0]], requires_grad=True)
    values = log_confidence(logits)
    assert values[0].item() == pytest.approx(-math.exp(-40), rel=1e-6)
    assert values[0] < values[1] < 0
    values.sum().backward()
    assert (logits.grad != 0).all()


def test_two_equal_logits_share():
    logits = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    assert log_confidence(logits).exp().item() == pytest.approx(0.25)
    assert torch.isfinite(torch.autograd.grad(log_confidence(logits).sum(), logits)[0]).all()


@given(seed=st.integers(0, 2**31))
@settings(max_examples=30)
def test_log_confidence_is_the_largest_log_softmax(seed):
    logits = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 5
    torch.testing.assert_close(log_confidence(logits), torch.log_softmax(logits, 1).amax(1))


def test_the_mixture_by_hand():
    # sigma(g) = 0.75, p_in = (0.8, 0.2): 0.75 * 0.8 + 0.25 / 2 = 0.725
    found = joint_log_probabilities(torch.tensor([[math.log(4), 0.0]]), torch.tensor([math.log(3)])).exp()
    assert found.tolist() == [[pytest.approx(0.725), pytest.approx(0.275)]]


def test_the_bound_of_the_paper():
    # (K - 1)/K sigma(ub) + 1/K
    gate = torch.tensor([-3.0, 0.5, 4.0], dtype=torch.float64)
    want = 0.9 * torch.sigmoid(gate) + 0.1
    torch.testing.assert_close(gated_log_confidence(gate, 10).exp(), want)


@given(gate=st.floats(-30, 30), confidence=st.floats(0.1, 1))
def test_arrays_and_tensors_agree_and_the_mixture_attains_it(gate, confidence):
    g, c = torch.tensor([gate], dtype=torch.float64), torch.tensor([math.log(confidence)], dtype=torch.float64)
    found = gated_log_confidence(g, 10, c).item()
    assert found == pytest.approx(float(on_arrays([gate], 10, [math.log(confidence)])[0]), abs=1e-14)
    share = 1 / (1 + math.exp(-gate))
    assert math.exp(found) == pytest.approx(share * confidence + (1 - share) / 10)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), epsilon=st.floats(0, 0.5))
def test_no_attacker_passes_the_bounds(make_net, everywhere, seed, epsilon):
    classifier, detector = make_net("dense", seed), make_net("conv", seed + 1)
    detector[-1] = nn.Linear(12, 1).double()
    x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        points = everywhere(x[0], epsilon)
        found = joint_log_probabilities(classifier(points), detector(points)[:, 0]).amax(dim=1)
        gate = propagate(detector, input_box(x, epsilon), slack=REAL)
        differences = difference_bounds(classifier, x, epsilon, slack=REAL)
        free = gated_log_confidence(gate.upper[:, 0], 3)
        tight = gated_log_confidence(gate.upper[:, 0], 3, log_confidence_upper(differences))
        lower = gated_log_confidence(gate.lower[:, 0], 3, log_confidence_lower(differences))
    assert found.max() <= tight + 1e-12
    assert (tight <= free).all()
    assert found.min() >= lower - 1e-12


def test_a_closed_gate_gives_the_uniform_distribution():
    assert np.exp(gated_log_confidence(torch.tensor([-800.0], dtype=torch.float64), 7).item()) == pytest.approx(1 / 7)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_a_bound_near_one_is_not_rounded_below_the_truth(classes):
    # log(1/K + (1 - 1/K) / (1 + e^-g)) in sixty digits. As a difference of two logarithms it is off by 5e-16, and from
    # g = 25 on that is more than what is missing to 1.
    gates = np.linspace(-60, 60, 241)
    found = gated_log_confidence(torch.from_numpy(gates), classes).numpy()
    with localcontext(prec=60):
        k = Decimal(classes)
        exact = [(1 / k + (1 - 1 / k) / (1 + (-Decimal(g)).exp())).ln() for g in gates]
        off = np.array([float((Decimal(float(f)) - e) / e) for f, e in zip(found, exact, strict=True)])
    assert np.abs(off).max() < 1e-15  # bounds leave 8 units in the last place, 1.8e-15
    assert np.abs(on_arrays(gates, classes) / found - 1).max() < 1e-15


def test_the_effective_gate_by_hand():
    # sigma(g) = 0.75, p_in = (0.8, 0.2): the confidence is 0.725, so log(0.225 / 0.275).
    found = effective_gate(torch.tensor([[math.log(4), 0.0]]), torch.tensor([math.log(3)]))
    assert found.tolist() == [pytest.approx(math.log(0.225 / 0.275), rel=1e-5)]


@given(gate=st.floats(-25, 25), logits=st.lists(st.floats(-8, 8), min_size=3, max_size=3))
def test_a_sure_classifier_with_the_effective_gate_is_as_confident(gate, logits):
    assume(max(logits) - min(logits) > 1e-3)
    z, g = torch.tensor([logits], dtype=torch.float64), torch.tensor([gate], dtype=torch.float64)
    found = effective_gate(z, g)
    assert found.item() <= gate + 1e-12
    want = log_confidence(joint_log_probabilities(z, g))
    torch.testing.assert_close(gated_log_confidence(found, 3), want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_effective_gate_tells_apart_and_has_a_slope_where_confidence_has_none(dtype):
    z = torch.tensor([[3.0, 0.0, 0.0]] * 4 + [[0.0, 0.0, 0.0]], dtype=dtype)
    g = torch.tensor([-900.0, -800.0, 800.0, 900.0, 5.0], dtype=dtype, requires_grad=True)
    found = effective_gate(z, g)
    assert found[0] < found[1] < found[2]
    # With an open gate what is left is the classifier's own: log((c - 1/3) / (1 - c)), 1 / c = 1 + 2 e^-3.
    own = 1 / (1 + 2 * math.exp(-3))
    assert found[2].item() == found[3].item() == pytest.approx(math.log((own - 1 / 3) / (1 - own)), rel=1e-5)
    (slope,) = torch.autograd.grad(found.sum(), g)
    assert torch.isfinite(slope).all()
    assert slope[:2].tolist() == [1.0, 1.0]
