import math

import pytest

torch = pytest.importorskip("torch")

from caveat import InputError  # noqa: E402
from caveat.nn.training.cub import (  # noqa: E402
    certified_count,
    confidence_upper_loss,
    largest_difference,
    quantile_upper_loss,
)


def test_the_loss_by_hand():
    # m = 0: log 1 = 0. m = 2: log(1 + 4/2) = log 3. m = 4: log(1 + 16/2) = log 9.
    losses = confidence_upper_loss(torch.tensor([0.0, 2.0, 4.0]))
    assert losses.tolist() == pytest.approx([0.0, math.log(3), math.log(9)])


def test_the_slope_by_hand_and_by_autograd():
    # d/dm log(1 + m^2/2) = m / (1 + m^2/2): 0 at 0, 2/3 at 2, 4/9 at 4.
    m = torch.tensor([0.0, 2.0, 4.0], requires_grad=True)
    confidence_upper_loss(m).sum().backward()
    assert m.grad.tolist() == pytest.approx([0, 2 / 3, 4 / 9])


def test_the_largest_difference_is_over_pairs_not_over_the_last_axis():
    upper = torch.zeros(2, 3, 3)
    upper[0, 2, 1], upper[1, 0, 2] = 5.0, 7.0
    assert largest_difference(upper).tolist() == [5.0, 7.0]
    with pytest.raises(InputError, match=r"\(n, K, K\), got shape \(2, 3\)"):
        largest_difference(torch.zeros(2, 3))


def test_the_count_of_the_appendix():
    # GOOD_60 with 128 outliers: 76 certified and 52 point samples (appendix E).
    assert certified_count(128, 0.6) == 76
    assert [certified_count(10, q) for q in (0, 0.8, 1)] == [0, 8, 10]


def test_the_easy_share_is_certified_and_the_hard_rest_is_not_dropped():
    # Sorted by the ball: 1, 2, 4, 6. q = 0.5 certifies 1 and 2; the points of 4 and 6 are 0.5 and 3.
    ball = torch.tensor([4.0, 1.0, 6.0, 2.0])
    point = torch.tensor([0.5, 0.25, 3.0, 1.5])
    expected = (math.log(1 + 1 / 2) + math.log(1 + 4 / 2) + math.log(1 + 0.25 / 2) + math.log(1 + 9 / 2)) / 4
    assert quantile_upper_loss(ball, point, 0.5).item() == pytest.approx(expected)


def test_the_ends_of_the_quantile():
    ball, point = torch.tensor([4.0, 1.0]), torch.tensor([2.0, 1.0])
    assert quantile_upper_loss(ball, point, 1).item() == pytest.approx((math.log(9) + math.log(1.5)) / 2)
    assert quantile_upper_loss(ball, point, 0).item() == pytest.approx((math.log(3) + math.log(1.5)) / 2)


def test_the_gradient_goes_to_the_ball_of_the_easy_and_to_the_point_of_the_hard():
    ball = torch.tensor([4.0, 1.0], requires_grad=True)
    point = torch.tensor([2.0, 0.5], requires_grad=True)
    quantile_upper_loss(ball, point, 0.5).backward()
    assert ball.grad.tolist() == pytest.approx([0.0, 1 / 1.5 / 2])
    assert point.grad.tolist() == pytest.approx([2 / 3 / 2, 0.0])


def test_shapes_that_do_not_fit():
    with pytest.raises(InputError, match="must be vectors of the same length"):
        quantile_upper_loss(torch.zeros(3), torch.zeros(2), 0.5)
    with pytest.raises(InputError, match="quantile must be a finite number, at least 0 and at most 1, got 80"):
        quantile_upper_loss(torch.zeros(2), torch.zeros(2), 80)
