r"""Upper bounds of all logit differences, with the last layer elided.

$$ u_{kl} = (z_k - z_l) + |W_k - W_l| \cdot r, \qquad z = W c + b $$

bounds f_k - f_l over the box; u_kk = 0. One product with the difference of two rows is tighter than the difference of
two bounds, which would let the same hidden unit be high for k and low for l.
Bitterwolf, Meinke and Hein, NeurIPS 2020, eqs. (4)-(5) (elision of the last layer).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from caveat.errors import InputError
from caveat_lab.bounds.arithmetic import REAL, Arithmetic
from caveat_lab.bounds.box import Box, input_box, per_sample
from caveat_lab.bounds.confidence import log_one_plus
from caveat_lab.bounds.interval import before_head, propagate

__all__ = ["difference_bounds", "largest_difference_bound", "log_probability_bounds"]

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
    slack: Arithmetic | None = None,
) -> Tensor:
    """Upper bounds (n, K, K) of f_k - f_l over the ball around each input. Differentiable; in the model's float type.

    For many classes use ``confidence_bounds``, ``label_bounds`` or ``largest_difference_bound``, which hold no array of
    all pairs of classes.

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
        Widen by the rounding of a network in this arithmetic, for certificates; the network itself is in float64.

    Returns
    -------
    Tensor of shape (n, K, K)
        The upper bounds.

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
    model: nn.Module, box: Box, *, elide: bool = True, slack: Arithmetic = REAL, errors: Tensor | None = None
) -> Pair:
    r"""Lower and upper bounds (n, K) of each log p_k over a box of inputs, widened by rounding.

    $$ -\log \sum_l e^{u_{lk}} \le \log p_k \le -\log \sum_l e^{-u_{kl}} $$

    As ``log_probability_lower`` and ``log_probability_upper`` of ``difference_bounds``, but without an array of all
    pairs of classes. ``errors`` (n, K, K) is added to the bound of each difference. Not differentiable.

    >>> head = nn.Linear(1, 2, bias=False).double()
    >>> _ = head.weight.data.copy_(torch.tensor([[2.0], [1.0]]))
    >>> half = torch.full((1, 1), 0.5).double()
    >>> lower, upper = log_probability_bounds(head, Box(half, half))  # f_0 - f_1 = x, from 0 to 1
    >>> lower.exp().numpy().round(3), upper.exp().numpy().round(3)
    (array([[0.5  , 0.269]]), array([[0.731, 0.5  ]]))
    """
    sides = list[Pair]()
    with torch.no_grad():
        for rows in torch.split(torch.arange(box.shape[0], device=box.center.device), _ROWS):
            part = Box(box.center[rows], box.radius[rows])
            for k, gap, reach, own in _blocks(_last_layer(model, part, elide, slack)):
                spread = reach if errors is None else reach + errors[rows, k]
                if k.start == 0:  # one room for all: small results between large blocks would keep theirs from reuse
                    sides.append((gap.new_empty(gap.shape[::2]), gap.new_empty(gap.shape[::2])))
                lower, upper = sides[-1]
                torch.neg(log_one_plus((spread - gap).masked_fill_(own, -torch.inf), dim=2), out=lower[:, k])
                torch.neg(log_one_plus(gap.add_(spread).neg_().masked_fill_(own, -torch.inf), dim=2), out=upper[:, k])
    least, most = (torch.cat(side) for side in zip(*sides, strict=True))
    return least, most


def largest_difference_bound(
    model: nn.Module, x: Tensor, epsilon: float | Tensor, clip: Clip = (0.0, 1.0), *, elide: bool = True
) -> Tensor:
    r"""The largest of all difference bounds, max_kl u_kl, shape (n,): what GOOD trains. Differentiable.

    As ``largest_difference`` of ``difference_bounds`` with the same parameters, but without an array of all pairs of
    classes: the largest pair is searched in blocks, and gradients go through that pair alone. Of several largest pairs
    the first is taken, where ``largest_difference`` divides the gradient between them; both are subgradients.

    Parameters
    ----------
    model, x, epsilon, clip, elide
        As in ``difference_bounds``.

    Returns
    -------
    Tensor of shape (n,)
        The largest bound of each sample.

    Examples
    --------
    >>> head = nn.Linear(1, 2, bias=False)
    >>> _ = head.weight.data.copy_(torch.tensor([[2.0], [1.0]]))
    >>> largest_difference_bound(head, torch.tensor([[0.5]]), 0.5)  # f_0 - f_1 = x, at most 1
    tensor([1.], grad_fn=<CatBackward0>)
    """
    boxes = (input_box(part, reach, clip) for part, reach in _row_parts(x, epsilon))
    return torch.cat([_largest(_last_layer(model, box, elide, None)) for box in boxes])


def _row_parts(x: Tensor, epsilon: float | Tensor) -> Iterator[Pair]:
    reach = per_sample(epsilon, x).flatten().expand(x.shape[0])
    return zip(torch.split(x, _ROWS), torch.split(reach, _ROWS), strict=True)


def _differences(model: nn.Module, box: Box, elide: bool, slack: Arithmetic | None) -> Tensor:
    blocks = _blocks(_last_layer(model, box, elide, slack))
    return torch.cat([(gap + spread).masked_fill(own, 0.0) for _, gap, spread, own in blocks], dim=1)


@final
@dataclass(frozen=True, eq=False)
class _LastLayer:
    """Logits z (n, K) at the center of the box, and how far a difference z_k - z_l can be from there.

    That is |W_k - W_l| . radius, with the radius (n, H) of the box before a linear layer W (K, H), plus what k and l
    add each (n, K): the radius of a logit if the last layer is not linear, rounding if it is. Either part may be None.
    """

    logits: Tensor
    own: Tensor | None
    weight: Tensor | None
    radius: Tensor | None

    def detached(self) -> _LastLayer:
        parts = (self.logits, self.own, self.weight, self.radius)
        return _LastLayer(*(None if part is None else part.detach() for part in parts))  # type: ignore[arg-type]


def _last_layer(model: nn.Module, box: Box, elide: bool, slack: Arithmetic | None) -> _LastLayer:
    box, head = before_head(model, box, slack=slack) if elide else (propagate(model, box, slack=slack), None)
    if head is None:  # bounds of each logit alone: looser
        last = _LastLayer(box.center, box.radius, None, None)
    else:
        terms, own = head.weight.shape[1], None
        if slack is not None:  # a difference of logits is off by the rounding of both, however close their rows are
            box = box.widened(terms)
            bias, size = None if head.bias is None else head.bias.abs(), box.center.abs() + box.radius
            sums = F.linear(size, head.weight.abs(), bias)
            own = slack.in_range(sums * slack.relative(terms), sums) + slack.underflow(terms, size)
        last = _LastLayer(F.linear(box.center, head.weight, head.bias), own, head.weight, box.radius)
    if last.logits.ndim != 2:
        raise InputError(f"the model must return logits (n, K) to have a bound, got {last.logits.ndim} axes.")
    return last


def _blocks(last: _LastLayer) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Some classes k, z_k - z_l (n, some k, K), the most that it can change by, and where k = l (some k, K).

    u_kl is the sum of the first two arrays, u_lk the second less the first.
    """
    logits, own, weight = last.logits, last.own, last.weight
    n, classes = logits.shape
    numbers = torch.arange(classes, device=logits.device)
    step = max(1, _BLOCK // (classes * max(n, 1 if weight is None else weight.shape[1])))
    room = None if weight is None or torch.is_grad_enabled() else weight.new_empty(step, *weight.shape)
    for first in range(0, classes, step):
        k = slice(first, first + step)
        spread = None if own is None else own[:, k, None] + own[:, None, :]
        if weight is not None and last.radius is not None:
            some = weight[k, None]
            rows = some - weight if room is None else torch.sub(some, weight, out=room[: len(some)])
            rows = rows.abs() if room is None else rows.abs_()
            apart = F.linear(last.radius, rows.flatten(0, 1)).reshape(n, -1, classes)
            spread = apart if spread is None else spread.add_(apart)
        assert spread is not None
        yield k, logits[:, k, None] - logits[:, None, :], spread, numbers[k, None] == numbers


def _largest(last: _LastLayer) -> Tensor:
    """max_kl u_kl (n,), with gradients through the largest pair."""
    n, classes = last.logits.shape
    best, pair = last.logits.new_full((n,), -torch.inf), torch.zeros(n, dtype=torch.long, device=last.logits.device)
    with torch.no_grad():
        for k, gap, spread, own in _blocks(last.detached()):
            largest, place = gap.add_(spread).masked_fill_(own, 0.0).flatten(1).max(dim=1)
            pair = torch.where(largest > best, place + k.start * classes, pair)
            best = torch.maximum(largest, best)
    first, second, rows = pair // classes, pair % classes, torch.arange(n, device=pair.device)
    largest = last.logits[rows, first] - last.logits[rows, second]
    if last.own is not None:
        largest = largest + last.own[rows, first] + last.own[rows, second]
    if last.weight is not None and last.radius is not None:
        apart = (last.weight[first] - last.weight[second]).abs()
        largest = largest + (apart * last.radius).sum(dim=1)
    return torch.where(first == second, torch.zeros_like(largest), largest)
