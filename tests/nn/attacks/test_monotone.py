from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from caveat.nn.attacks import Ball, climber, monotone  # noqa: E402


def test_values_never_fall():
    torch.manual_seed(0)
    weight = torch.randn(6, 5, dtype=torch.float64) * 3
    x = torch.rand(8, 5, dtype=torch.float64)
    climb = climber(lambda z: torch.sin(z @ weight.T).sum(dim=1))
    before = climb(x)[0]
    for steps in (1, 5, 20, 60):
        value = monotone(climb, x, Ball(x, 0.2), steps=steps)[1]
        assert (value >= before - 1e-12).all()
        before = value
    assert (before > climb(x)[0] + 0.1).all()


def test_one_step_by_hand():
    # f = z0, gradient (1, 0): velocity 1, step 0.1 -> 0.6; second: velocity 0.9 + 1 = 1.9, step 0.11 -> 0.6 + 0.209
    ball = Ball(torch.tensor([[0.5, 0.5]], dtype=torch.float64), 0.4)
    climb = climber(lambda z: z[:, 0])
    assert monotone(climb, ball.x, ball, steps=1)[0].tolist() == [[pytest.approx(0.6), 0.5]]
    assert monotone(climb, ball.x, ball, steps=2)[0].tolist() == [[pytest.approx(0.809), 0.5]]


def test_a_fall_is_taken_back_and_the_step_halved():
    # f = -|z - 0.52|: from 0.5 a step of 0.1 overshoots to 0.6 (worse), 0.05 to 0.55 (worse), 0.025 to 0.525 (better)
    ball = Ball(torch.tensor([[0.5]], dtype=torch.float64), 0.4)
    climb = climber(lambda z: -(z[:, 0] - 0.52).abs())
    assert monotone(climb, ball.x, ball, steps=1)[0].item() == 0.5
    assert monotone(climb, ball.x, ball, steps=2)[0].item() == 0.5
    assert monotone(climb, ball.x, ball, steps=3)[0].item() == pytest.approx(0.525)


def test_a_refused_step_leaves_no_velocity_behind():
    # After the two refusals above the velocity must still be 0 as at the start: the third push is the gradient alone.
    ball = Ball(torch.tensor([[0.5]], dtype=torch.float64), 0.4)
    climb = climber(lambda z: -(z[:, 0] - 0.52).abs())
    reached = monotone(climb, ball.x, ball, steps=3)[0].item()
    assert reached == pytest.approx(0.5 + 0.1 / 4 * 1.0)


def test_a_tie_is_a_success():
    # flat on the right: a refused tie would halve the step for ever
    ball = Ball(torch.tensor([[0.5]], dtype=torch.float64), 0.4)
    climb = climber(lambda z: z[:, 0].clamp(max=0.5))
    points, _ = monotone(climb, ball.x, ball, steps=1)
    assert points.item() >= 0.5
