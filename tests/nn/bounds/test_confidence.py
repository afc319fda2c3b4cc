from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from caveat.nn.bounds import (  # noqa: E402
    confidence_loss,
    difference_bounds,
    input_box,
    log_confidence,
    log_confidence_lower,
    log_confidence_upper,
    propagate,
    spread_upper,
)


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
        differences = difference_bounds(net, x, epsilon, slack=True)
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
