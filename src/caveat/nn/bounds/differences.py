r"""Upper bounds of all logit differences, with the last layer elided.

$$ u_{kl} = (z_k - z_l) + |W_k - W_l| \cdot r, \qquad z = W c + b $$

bounds f_k - f_l over the box; u_kk = 0. One product with the difference of two rows is tighter than the difference of
two bounds, which would let the same hidden unit be high for k and low for l.
Bitterwolf, Meinke and Hein, NeurIPS 2020, eqs. (4)-(5) (elision of the last layer).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from caveat.errors import InputError
from caveat.nn.bounds.box import Box, input_box, per_sample, rounding
from caveat.nn.bounds.confidence import log_one_plus
from caveat.nn.bounds.interval import before_head, propagate

__all__ = ["difference_bounds", "log_probability_bounds"]

_BLOCK = 2**20  # entries of |W_k - W_l| held at once: they stay in the cache
_ROWS = 128  # samples in one go: the many light steps of a box are made while it is still in the cache
Pair = tuple[Tensor, Tensor]
Clip = tuple[float, float] | None


def difference_bounds(
    model: nn.Module,
    x: Tensor,
    epsilon: float | Tensor,
    clip: Clip = (0.0, 1.0),
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
    parts = _row_parts(x, epsilon)
    return torch.cat([_differences(model, input_box(part, reach, clip), elide, slack) for part, reach in parts])


def log_probability_bounds(
    model: nn.Module, x: Tensor, epsilon: float | Tensor, clip: Clip = (0.0, 1.0), *, elide: bool = True
) -> Pair:
    r"""Lower and upper bounds (n, K) of each log p_k over the ball around each input, widened by rounding.

    $$ -\log \sum_l e^{u_{lk}} \le \log p_k \le -\log \sum_l e^{-u_{kl}} $$

    As ``log_probability_lower`` and ``log_probability_upper`` of ``difference_bounds`` with the same parameters, but
    without an array of all pairs of classes. Not differentiable.

    >>> head = nn.Linear(1, 2, bias=False).double()
    >>> _ = head.weight.data.copy_(torch.tensor([[2.0], [1.0]]))
    >>> lower, upper = log_probability_bounds(head, torch.tensor([[0.5]]).double(), 0.5)  # f_0 - f_1 = x, 0 to 1
    >>> lower.exp().numpy().round(3), upper.exp().numpy().round(3)
    (array([[0.5  , 0.269]]), array([[0.731, 0.5  ]]))
    """
    sides = list[Pair]()
    with torch.no_grad():
        for part, reach in _row_parts(x, epsilon):
            for k, gap, spread, own in _blocks(model, input_box(part, reach, clip), elide, True):
                if k.start == 0:  # one room for all: small results between large blocks would keep theirs from reuse
                    sides.append((gap.new_empty(gap.shape[::2]), gap.new_empty(gap.shape[::2])))
                lower, upper = sides[-1]
                torch.neg(log_one_plus((spread - gap).masked_fill_(own, -torch.inf), dim=2), out=lower[:, k])
                torch.neg(log_one_plus(gap.add_(spread).neg_().masked_fill_(own, -torch.inf), dim=2), out=upper[:, k])
    least, most = (torch.cat(side) for side in zip(*sides, strict=True))
    return least, most


def _row_parts(x: Tensor, epsilon: float | Tensor) -> Iterator[Pair]:
    reach = per_sample(epsilon, x).flatten().expand(x.shape[0])
    return zip(torch.split(x, _ROWS), torch.split(reach, _ROWS), strict=True)


def _differences(model: nn.Module, box: Box, elide: bool, slack: bool) -> Tensor:
    blocks = _blocks(model, box, elide, slack)
    return torch.cat([(gap + spread).masked_fill(own, 0.0) for _, gap, spread, own in blocks], dim=1)


def _blocks(model: nn.Module, box: Box, elide: bool, slack: bool) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Some classes k, z_k - z_l (n, some k, K), the most that it can change by, and where k = l (some k, K).

    u_kl is the sum of the first two arrays, u_lk the second less the first.
    """
    box, head = before_head(model, box, slack=slack) if elide else (propagate(model, box, slack=slack), None)
    if head is None:  # bounds of each logit alone: looser
        logits, size = box.centre, box.radius
    else:
        box = box.widened(head.weight.shape[1]) if slack else box
        logits, size = F.linear(box.centre, head.weight, head.bias), None
        if slack:  # the difference of two logits is off by the rounding of both, however close their rows are
            bias = None if head.bias is None else head.bias.abs()
            size = F.linear(box.centre.abs() + box.radius, head.weight.abs(), bias)
            size = size * rounding(head.weight.shape[1], size.dtype)
    if logits.ndim != 2:
        raise InputError(f"the model must return logits (n, K) to have a bound, got {logits.ndim} axes.")
    n, classes = logits.shape
    numbers = torch.arange(classes, device=logits.device)
    step = max(1, _BLOCK // (classes * max(n, 1 if head is None else head.weight.shape[1])))
    room = None if head is None or torch.is_grad_enabled() else head.weight.new_empty(step, *head.weight.shape)
    for first in range(0, classes, step):
        k = slice(first, first + step)
        own = numbers[k, None] == numbers
        spread = None if size is None else size[:, k, None] + size[:, None, :]
        if head is not None:
            some = head.weight[k, None]
            rows = some - head.weight if room is None else torch.sub(some, head.weight, out=room[: len(some)])
            rows = rows.abs() if room is None else rows.abs_()
            apart = F.linear(box.radius, rows.flatten(0, 1)).reshape(n, -1, classes)
            spread = apart if spread is None else spread.add_(apart)
        assert spread is not None
        yield k, logits[:, k, None] - logits[:, None, :], spread, own
