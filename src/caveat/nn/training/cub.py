r"""Losses on the certified upper bounds of logit differences.

With $ub_{kl}(x; \epsilon) \ge \max_{z \in B(x, \epsilon)} f_k(z) - f_l(z)$ and $m = \max_{k,l} ub_{kl}$:

$$ L_{CUB} = \log(1 + m^2 / 2) $$

is quadratic for small differences and logarithmic for large ones, so that it does not drown the cross-entropy.
Bitterwolf, Meinke and Hein, NeurIPS 2020, eq. (8); its quantile form is eq. (10).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from caveat._checks import as_number
from caveat.errors import InputError

__all__ = ["certified_count", "confidence_upper_loss", "largest_difference", "quantile_upper_loss"]


def largest_difference(upper: Tensor) -> Tensor:
    """max_kl ub_kl of each sample, from bounds (n, K, K) whose diagonal is 0. Zero means: certainly uniform.

    >>> largest_difference(torch.tensor([[[0.0, 2.0], [-1.0, 0.0]]]))
    tensor([2.])
    """
    if upper.ndim != 3 or upper.shape[1] != upper.shape[2]:
        raise InputError(f"upper must hold bounds of logit differences (n, K, K), got shape {tuple(upper.shape)}.")
    return upper.flatten(1).amax(dim=1)


def confidence_upper_loss(difference: Tensor) -> Tensor:
    r"""L_CUB of each sample from its largest difference: log(1 + m^2 / 2). Lower is better; 0 is uniform.

    Examples
    --------
    >>> confidence_upper_loss(torch.tensor([0.0, 2.0]))  # log 1 and log 3
    tensor([0.0000, 1.0986])
    """
    return torch.log1p(difference.square() / 2)


def certified_count(n: int, quantile: float) -> int:
    """How many of n outliers get the certified loss: floor(q n), exactly.

    >>> certified_count(128, 0.6), certified_count(100, 0.29)  # 0.29 * 100 is 28.999999999999996 in floats
    (76, 29)
    """
    q = as_number(quantile, "quantile", least=0, most=1)
    return math.floor(round(q * n, 9))


def quantile_upper_loss(ball: Tensor, point: Tensor, quantile: float) -> Tensor:
    r"""Mean over the batch of L_CUB at epsilon for the easier share q and at 0 for the harder rest. Lower is better.

    $$ \tfrac1M \Big[ \sum_{j \le \lfloor qM \rfloor} L_{CUB}(x_{\pi_j}; \epsilon)
       + \sum_{j > \lfloor qM \rfloor} L_{CUB}(x_{\pi_j}; 0) \Big] $$

    where pi sorts the batch by its bounds at epsilon, ascending: eq. (10). A guarantee for an outlier that looks like
    an inlier can only be had by lowering the confidence of inliers, so the hardest are asked for less.

    Parameters
    ----------
    ball
        Largest difference of each sample over its ball, shape (M,).
    point
        Largest difference at the sample itself, shape (M,): largest logit minus smallest.
    quantile
        q: 1 certifies the whole batch (GOOD_100), 0 none of it (GOOD_0).

    Examples
    --------
    >>> ball, point = torch.tensor([4.0, 2.0]), torch.tensor([0.0, 0.0])
    >>> quantile_upper_loss(ball, point, 0.5)  # 2.0 is the easier one: (log 3 + log 1) / 2
    tensor(0.5493)
    """
    if ball.shape != point.shape or ball.ndim != 1 or not len(ball):
        raise InputError(f"ball and point must be vectors of the same length, "
                         f"got shapes {tuple(ball.shape)} and {tuple(point.shape)}.")  # fmt: skip
    certified = certified_count(len(ball), quantile)
    order = torch.argsort(ball.detach(), stable=True)
    easy, hard = order[:certified], order[certified:]
    return (confidence_upper_loss(ball[easy]).sum() + confidence_upper_loss(point[hard]).sum()) / len(ball)
