import math

import pytest

torch = pytest.importorskip("torch")

from caveat import InputError  # noqa: E402
from caveat.nn.training.quantile import certified_count, point_differences, quantile_loss  # noqa: E402


def bounds(*largest):
    """Bounds of two classes whose largest difference is as given; the other direction is certainly negative."""
    found = torch.zeros(len(largest), 2, 2)
    found[:, 0, 1] = torch.tensor(largest)
    found[:, 1, 0] = -1.0
    return found


def logits(*spread):
    return torch.tensor([[value, 0.0] for value in spread])


def test_the_count_of_the_appendix():
    # GOOD_60 with 128 outliers: 76 certified and 52 point samples (appendix E).
    assert certified_count(128, 0.6) == 76
    assert [certified_count(10, q) for q in (0, 0.8, 1)] == [0, 8, 10]


def test_point_differences_are_bounds_of_a_ball_without_radius():
    from caveat.nn.bounds import difference_bounds

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    x = torch.rand(5, 4)
    torch.testing.assert_close(point_differences(net(x)), difference_bounds(net, x, 0.0), atol=1e-6, rtol=1e-5)


def test_the_easy_share_is_certified_and_the_hard_rest_is_not_dropped():
    # Sorted by the ball: 1, 2, 4, 6. q = 0.5 certifies 1 and 2; the points of 4 and 6 are 0.5 and 3.
    # L_CUB(m) = log(1 + m^2 / 2).
    loss = quantile_loss(bounds(4.0, 1.0, 6.0, 2.0), logits(0.5, 0.25, 3.0, 1.5), 0.5)
    expected = (math.log(1 + 1 / 2) + math.log(1 + 4 / 2) + math.log(1 + 0.25 / 2) + math.log(1 + 9 / 2)) / 4
    assert loss.item() == pytest.approx(expected)


def test_the_ends_of_the_quantile():
    ball, point = bounds(4.0, 1.0), logits(2.0, 1.0)
    assert quantile_loss(ball, point, 1).item() == pytest.approx((math.log(9) + math.log(1.5)) / 2)
    assert quantile_loss(ball, point, 0).item() == pytest.approx((math.log(3) + math.log(1.5)) / 2)


def test_the_gradient_goes_to_the_ball_of_the_easy_and_to_the_point_of_the_hard():
    # d/dm log(1 + m^2/2) = m / (1 + m^2/2): 1/1.5 at 1 and 2/3 at 2; each counts one half of the mean.
    ball = bounds(4.0, 1.0).requires_grad_()
    point = logits(2.0, 0.5).requires_grad_()
    quantile_loss(ball, point, 0.5).backward()
    assert ball.grad[:, 0, 1].tolist() == pytest.approx([0.0, 1 / 1.5 / 2])
    assert point.grad[:, 0].tolist() == pytest.approx([2 / 3 / 2, 0.0])


def test_shapes_that_do_not_fit():
    with pytest.raises(InputError, match=r"of the same outliers, got shapes \(3, 2, 2\) and \(2, 2\)"):
        quantile_loss(bounds(1.0, 1.0, 1.0), logits(1.0, 1.0), 0.5)
    with pytest.raises(InputError, match="quantile must be a finite number, at least 0 and at most 1, got 80"):
        quantile_loss(bounds(1.0), logits(1.0), 80)
