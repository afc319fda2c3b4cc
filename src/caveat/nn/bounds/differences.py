r"""Upper bounds of all logit differences, with the last layer elided.

$$ u_{kl} = (z_k - z_l) + |W_k - W_l| \cdot r, \qquad z = W c + b $$

bounds f_k - f_l over the box; u_kk = 0. One product with the difference of two rows is tighter than the difference of
two bounds, which would let the same hidden unit be high for k and low for l.
Bitterwolf, Meinke and Hein, NeurIPS 2020, eqs. (4)-(5) (elision of the last layer).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from caveat.nn.bounds.box import Box, input_box, per_sample, rounding
from caveat.nn.bounds.interval import before_head, propagate

__all__ = ["difference_bounds", "differences_of_head", "differences_of_logits"]

_BLOCK = 2**24  # entries of |W_k - W_l| held at once
_ROWS = 128  # samples in one go: the many light steps of a box are made while it is still in the cache


def difference_bounds(
    model: nn.Module,
    x: Tensor,
    epsilon: float | Tensor,
    clip: tuple[float, float] | None = (0.0, 1.0),
    *,
    elide: bool = True,
    slack: bool = False,
) -> Tensor:
    """Upper bounds (n, K, K) of f_k - f_l over the ball around each input. Differentiable; in the model's float type.

    Parameters
    ----------
    model
        A network that ``propagate`` knows.
    x
        Inputs (n, ...), inside ``clip``.
    epsilon
        Radius in the largest entry; one number, or one per sample.
    clip
        Range of inputs, or None.
    elide
        Bound pairs through the last linear layer at once. False is looser; it exists to compare.
    slack
        Widen by rounding, for certificates.

    Examples
    --------
    >>> head = nn.Linear(1, 2, bias=False)
    >>> _ = head.weight.data.copy_(torch.tensor([[2.0], [1.0]]))
    >>> difference_bounds(head, torch.tensor([[0.5]]), 0.5)[0].tolist()  # f_0 - f_1 = x, at most 1
    [[0.0, 1.0], [0.0, 0.0]]
    >>> difference_bounds(head, torch.tensor([[0.5]]), 0.5, elide=False)[0].tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    if x.shape[0] > _ROWS:
        reach = per_sample(epsilon, x).flatten().expand(x.shape[0])
        parts = zip(torch.split(x, _ROWS), torch.split(reach, _ROWS), strict=True)
        return torch.cat([difference_bounds(model, a, e, clip, elide=elide, slack=slack) for a, e in parts])
    box = input_box(x, epsilon, clip)
    if not elide:
        return differences_of_logits(propagate(model, box, slack=slack))
    box, head = before_head(model, box, slack=slack)
    return differences_of_logits(box) if head is None else differences_of_head(box, head.weight, head.bias, slack=slack)


def differences_of_head(box: Box, weight: Tensor, bias: Tensor | None, *, slack: bool = False) -> Tensor:
    """Upper bounds (n, K, K) of all differences of W h + b for h in the box."""
    classes, width = weight.shape
    if slack:
        box = box.widened(width)
    logits = F.linear(box.centre, weight, bias)
    rows = max(1, _BLOCK // (classes * width))
    spread = torch.cat([
        F.linear(box.radius, (weight[k : k + rows, None] - weight).abs().flatten(0, 1)) for k in range(0, classes, rows)
    ], dim=1).reshape(-1, classes, classes)  # fmt: skip
    upper = logits[:, :, None] - logits[:, None, :] + spread
    if slack:  # the difference of two logits is off by the rounding of both, however close their rows are
        size = F.linear(box.centre.abs() + box.radius, weight.abs(), None if bias is None else bias.abs())
        off = rounding(width, weight.dtype) * (size[:, :, None] + size[:, None, :])
        upper = upper + off * ~torch.eye(classes, dtype=torch.bool)
    return upper


def differences_of_logits(box: Box) -> Tensor:
    """Upper bounds (n, K, K) from bounds of each logit alone: looser, for a network with another last layer."""
    upper = box.upper[:, :, None] - box.lower[:, None, :]
    return upper * ~torch.eye(upper.shape[1], dtype=torch.bool, device=upper.device)
