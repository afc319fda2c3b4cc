from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from caveat.nn.attacks import Ball, apgd, checkpoints, climber  # noqa: E402


def test_checkpoints_of_the_paper():
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(500) == [110, 205, 285, 350, 400, 435, 465, 495]


def test_floats_would_be_one_step_late():
    # Pitfall: 0.22 + 0.19 + 0.16 = 0.57, and ceil(0.57 * 100) is 58 in floating point
    assert math.ceil((0.22 + 0.19 + 0.16) * 100) == 58
    assert 57 in checkpoints(100)


@given(steps=st.integers(1, 2000))
def test_checkpoints_are_steps_that_exist(steps):
    marks = checkpoints(steps)
    assert marks == sorted(set(marks))
    assert 1 <= marks[0] <= marks[-1] <= steps


def test_a_hill_inside_the_ball_is_climbed_to_its_top():
    # f = -|z - t|^2 has its top at t inside the ball: momentum and halving must settle there, not on the border
    top = torch.tensor([[0.53, 0.41], [0.6, 0.3]], dtype=torch.float64)
    ball = Ball(torch.full((2, 2), 0.5, dtype=torch.float64), 0.3)
    points, values = apgd(climber(lambda z: -(z - top).square().sum(dim=1)), ball.x, ball, steps=100)
    torch.testing.assert_close(points, top, atol=0.01, rtol=0)
    assert (values > -2e-4).all()


def test_a_hill_outside_the_ball_is_met_at_the_border():
    ball = Ball(torch.tensor([[0.1, 0.9]], dtype=torch.float64), 0.3)
    points, _ = apgd(climber(lambda z: (z * torch.tensor([-1.0, 1.0])).sum(dim=1)), ball.x, ball, steps=5)
    torch.testing.assert_close(points, torch.tensor([[0.0, 1.0]], dtype=torch.float64))


def test_the_best_of_all_iterates_is_kept_the_last_included():
    seen = []

    def objective(z):
        value = z.sum(dim=1).detach() * 0 + torch.tensor(float(len(seen))) + 0 * z.sum(dim=1)
        seen.append(z.detach().clone())
        return value  # rises with every call, so that the last iterate is the best

    ball = Ball(torch.full((1, 2), 0.5), 0.1)
    points, values = apgd(climber(objective), ball.x, ball, steps=7)
    assert len(seen) == 8  # the start and each of the seven steps are evaluated
    assert values.item() == 7
    torch.testing.assert_close(points, seen[-1])


def test_samples_do_not_touch_each_other():
    torch.manual_seed(0)
    weight = torch.randn(6, 5, dtype=torch.float64)
    climb = climber(lambda z: torch.sin(4 * z @ weight.T).sum(dim=1))
    x = torch.rand(4, 5, dtype=torch.float64)
    together = apgd(climb, x, Ball(x, 0.2), steps=30)[1]
    alone = torch.cat([apgd(climb, row, Ball(row, 0.2), steps=30)[1] for row in x.split(1)])
    torch.testing.assert_close(together, alone)


def test_a_flat_objective_stays_where_it_is():
    x = torch.rand(3, 4)
    points, values = apgd(climber(lambda z: torch.zeros(z.shape[0])), x, Ball(x, 0.2), steps=10)
    torch.testing.assert_close(points, x)
    assert (values == 0).all()
