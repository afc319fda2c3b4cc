from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from caveat import InputError  # noqa: E402
from caveat_lab.attacks import STARTS, Ball, apgd, checkpoints, climber, make_start, monotone  # noqa: E402


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


def start(name, x, epsilon=0.3, objective=lambda z: z.flatten(1).sum(dim=1), **options):
    ball = Ball(torch.as_tensor(x, dtype=torch.float64), epsilon)
    return make_start(name, ball, objective, np.random.default_rng(0), **options)


@pytest.mark.parametrize("name", [*STARTS, "toward_id"])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0])
def test_every_start_is_inside_ball_and_range(name, epsilon):
    x = torch.rand(20, 1, 3, 3, dtype=torch.float64)
    z = start(name, x, epsilon, candidates=torch.rand(10, 1, 3, 3, dtype=torch.float64), tries=4)
    assert z.shape == x.shape
    assert ((z - x).abs() <= epsilon + 1e-15).all()
    assert ((z >= 0) & (z <= 1)).all()


def test_contrast_by_hand():
    # epsilon 0.3: above 0.7 becomes white, the rest darker by 0.3
    assert start("contrast", [[0.71, 0.7, 0.5, 0.1]]).tolist() == [[1.0, pytest.approx(0.4), pytest.approx(0.2), 0.0]]


def test_decontrast_by_hand():
    # mean 0.5: 0.1 may go to 0.4, 0.9 to 0.6, 0.5 stays
    assert start("decontrast", [[0.1, 0.5, 0.9]]).tolist() == [
        [pytest.approx(0.4), pytest.approx(0.5), pytest.approx(0.6)]
    ]


def test_the_largest_change_of_a_full_start_is_epsilon():
    x = torch.full((5, 30), 0.5, dtype=torch.float64)
    assert (start("full", x, 0.2) - x).abs().amax(dim=1).tolist() == [pytest.approx(0.2)] * 5


def test_toward_takes_the_best_candidate_of_each_sample():
    # the objective likes bright images: of the candidates, 0.9 projected to x + 0.3
    candidates = torch.tensor([[0.2, 0.2], [0.9, 0.9], [0.4, 0.4]], dtype=torch.float64)
    z = start("toward_id", [[0.1, 0.1], [0.8, 0.8]], candidates=candidates)
    torch.testing.assert_close(z, torch.tensor([[0.4, 0.4], [0.9, 0.9]], dtype=torch.float64))


def test_toward_stays_if_no_candidate_is_better():
    z = start("toward_id", [[0.9, 0.9]], candidates=torch.zeros(3, 2, dtype=torch.float64))
    assert z.tolist() == [[0.9, 0.9]]


def test_toward_in_small_batches_is_the_same():
    x, candidates = torch.rand(7, 4, dtype=torch.float64), torch.rand(9, 4, dtype=torch.float64)
    torch.testing.assert_close(
        start("toward_id", x, candidates=candidates), start("toward_id", x, candidates=candidates, batch_size=2)
    )


def test_toward_needs_candidates():
    with pytest.raises(InputError, match="needs candidates"):
        start("toward_id", [[0.5]])


def test_an_unknown_start_is_named():
    with pytest.raises(InputError, match="Did you mean 'contrast'"):
        start("contrst", [[0.5]])
