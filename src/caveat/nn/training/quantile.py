r"""The certified loss for the easier outliers of a batch, the plain one for the harder rest.

$$ \tfrac1M \Big[ \sum_{j \le \lfloor qM \rfloor} L_{CUB}(x_{\pi_j}; \epsilon)
   + \sum_{j > \lfloor qM \rfloor} L_{CUB}(x_{\pi_j}; 0) \Big] $$

where pi sorts the batch by its bounds at epsilon, ascending. A guarantee for an outlier that looks like an inlier can
only be had by lowering the confidence of inliers, so the hardest are asked for less.
Bitterwolf, Meinke and Hein, NeurIPS 2020, eq. (10).
"""

from __future__ import annotations

import math

from torch import Tensor

from caveat._internal.checks import as_number
from caveat.errors import InputError
from caveat.nn.bounds import confidence_loss, largest_difference

__all__ = ["certified_count", "point_differences", "quantile_loss"]


def certified_count(n: int, quantile: float) -> int:
    """How many of n outliers get the certified loss: floor(q n), exactly.

    >>> certified_count(128, 0.6), certified_count(100, 0.29)  # 0.29 * 100 is 28.999999999999996 in floats
    (76, 29)
    """
    q = as_number(quantile, "quantile", least=0, most=1)
    return math.floor(round(q * n, 9))


def point_differences(logits: Tensor) -> Tensor:
    """All logit differences (n, K, K) at the inputs themselves: bounds at epsilon 0, for one plain forward pass.

    >>> import torch
    >>> point_differences(torch.tensor([[3.0, 1.0]]))
    tensor([[[ 0.,  2.],
             [-2.,  0.]]])
    """
    return logits[:, :, None] - logits[:, None, :]


def quantile_loss(differences: Tensor, logits: Tensor, quantile: float) -> Tensor:
    """Eq. (10) without kappa: a mean over the outliers of a batch. Lower is better; 0 is uniform everywhere.

    Parameters
    ----------
    differences
        Upper bounds of logit differences over the ball, (M, K, K).
    logits
        At the outliers themselves, (M, K).
    quantile
        q: 1 certifies the whole batch (GOOD_100), 0 none of it (GOOD_0).

    Examples
    --------
    >>> import torch
    >>> differences = torch.zeros(2, 2, 2)
    >>> differences[:, 0, 1] = torch.tensor([4.0, 2.0])
    >>> quantile_loss(differences, torch.zeros(2, 2), 0.5)  # 2.0 is the easier one: (log 3 + log 1) / 2
    tensor(0.5493)
    """
    if differences.shape != (*logits.shape, logits.shape[1]) or not len(logits):
        raise InputError(f"differences (M, K, K) and logits (M, K) must be of the same outliers, "
                         f"got shapes {tuple(differences.shape)} and {tuple(logits.shape)}.")  # fmt: skip
    order = largest_difference(differences.detach()).argsort(stable=True)
    easy, hard = order.tensor_split([certified_count(len(order), quantile)])
    losses = confidence_loss(differences[easy]).sum() + confidence_loss(point_differences(logits[hard])).sum()
    return losses / len(order)
