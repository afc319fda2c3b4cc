from __future__ import annotations

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")

from caveat_lab.bounds import Box, input_box  # noqa: E402


def test_the_box_stops_at_the_range_of_inputs():
    box = input_box(torch.tensor([[0.1, 0.5, 0.95]], dtype=torch.float64), 0.25)
    # 0.1 +- 0.25 -> [0, 0.35]; 0.5 -> [0.25, 0.75]; 0.95 -> [0.7, 1]
    torch.testing.assert_close(box.lower, torch.tensor([[0.0, 0.25, 0.7]], dtype=torch.float64))
    torch.testing.assert_close(box.upper, torch.tensor([[0.35, 0.75, 1.0]], dtype=torch.float64))


def test_without_a_range_it_is_the_whole_ball():
    box = input_box(torch.tensor([[0.1]]), 0.5, clip=None)
    assert box.lower.item() == pytest.approx(-0.4)
    assert box.upper.item() == pytest.approx(0.6)


def test_each_sample_may_have_its_own_radius():
    box = input_box(torch.full((2, 1, 2, 2), 0.5), torch.tensor([0.0, 0.25]))
    assert box.radius[0].max() == 0
    assert box.radius[1].min() == 0.25


def test_a_radius_of_the_wrong_shape_is_named():
    with pytest.raises(InputError, match=r"one per sample \(2,\), got \(3,\)"):
        input_box(torch.zeros(2, 4), torch.zeros(3))


def test_a_range_the_wrong_way_round_is_named():
    with pytest.raises(InputError, match="clip must be"):
        input_box(torch.zeros(2, 4), 0.1, clip=(1.0, 0.0))


def test_widening_grows_with_size_and_leaves_zero_alone():
    box = Box(torch.tensor([0.0, 1.0, 100.0], dtype=torch.float64), torch.zeros(3, dtype=torch.float64)).widened(10)
    assert box.radius[0] == 0
    assert 0 < box.radius[1] < box.radius[2] < 1e-11


@pytest.mark.parametrize("value", [-0.5, 1.5, float("nan")])
def test_a_ball_around_an_input_outside_the_range_is_refused(value):
    # Around 1.5 with radius 0.3 it would run from 1.2 to 1: a negative radius, which a certified loss would reward.
    x = torch.tensor([[0.5, 0.5], [0.5, value]])
    with pytest.raises(InputError, match="x must lie between 0 and 1, got values from"):
        input_box(x, 0.3)
    assert input_box(torch.nan_to_num(x), 0.3, None).radius.min() > 0
