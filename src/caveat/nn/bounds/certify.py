"""Certified bounds of confidence, which no attacker within the radius can pass.

Computed in float64 and widened by the possible rounding. A number that is not finite is an error, never a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from caveat._internal.checks import as_count, as_number, as_positive, check_finite, check_known
from caveat.errors import CaveatError, InputError
from caveat.nn._heads import per_sample
from caveat.nn._walk import place_of, to_numpy
from caveat.nn.bounds.box import check_range, input_box
from caveat.nn.bounds.confidence import log_confidence, log_confidence_lower, log_confidence_upper, log_one_plus
from caveat.nn.bounds.crown import crown_by_sample
from caveat.nn.bounds.differences import log_probability_bounds
from caveat.nn.bounds.tracing import copied, does_more, first_line, state_of
from caveat.results import ScoreBounds

__all__ = ["as_double", "certifiable", "checked_inputs", "confidence_bounds", "device_of", "epsilon_star", "in_batches",
           "label_bounds", "logits_of"]  # fmt: skip

Clip = tuple[float, float] | None
Pair = tuple[Tensor, Tensor]
_LAST = 8 * torch.finfo(torch.float64).eps  # rounding of the last step, from differences to a log-probability
_MISREAD = 1e-9  # no rounding of float64 is so large
_POINTS = 8  # of the balls, at which bounds of radius 0 are compared with the network


def confidence_bounds(
    model: nn.Module,
    x: ArrayLike | Tensor,
    epsilon: float,
    *,
    clip: Clip = (0.0, 1.0),
    method: str = "ibp",
    refine: int = 0,
    threshold: float | None = None,
    batch_size: int = 256,
) -> ScoreBounds:
    """Bounds of the log-confidence of a classifier over all inputs within epsilon in every entry.

    Upper bounds are eq. (6) of Bitterwolf, Meinke and Hein, NeurIPS 2020, with the last layer elided; lower bounds are
    the same argument. For outliers a low upper bound is good; for inliers a high lower bound.

    Parameters
    ----------
    model
        A classifier that returns logits, made of layers ``propagate`` knows. It is left as it is; bounds are of the
        network at rest (dropout off, running statistics). A model with a method ``log_confidence_bounds(x, epsilon)
        -> (lower, upper)`` is used instead; it gets float64 inputs and an epsilon per sample.
    x
        Inputs (n, ...), inside ``clip``.
    epsilon
        The radius.
    clip
        Range of inputs; an attacker cannot leave it. None: no range.
    method
        ``"ibp"``: interval bounds, one pass. ``"crown"``: linear bounds for every sample, tighter and much slower
        (a quarter of a second each for a small network), for chains of linear layers, convolutions and activations.
    refine
        At most this many samples get linear bounds after interval bounds left them open: those on one side of the
        threshold whose bound is on the other, the nearest first.
    threshold
        The log-confidence that decides, such as the 5 % quantile of the inliers. Needed with ``refine``.
    batch_size
        Samples in one pass.

    Returns
    -------
    ScoreBounds
        ``value`` is the log-confidence at the inputs, ``lower`` and ``upper`` are its bounds, each of shape (n,).

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> bounds = confidence_bounds(model, torch.full((2, 4), 0.5), 0.1)
    >>> bool((bounds.lower <= bounds.value).all() and (bounds.value <= bounds.upper).all())
    True
    """
    check_known(method, ("ibp", "crown"), "method")
    if as_count(refine, "refine", least=0) and threshold is None:
        raise InputError("refine needs threshold, the log-confidence that decides, which is None.")
    net, inputs = _prepared(model, x, clip, batch_size)
    reach = _reach(epsilon, inputs)
    with torch.no_grad(), _unchanged(net):
        value = log_confidence(logits_of(net, inputs, size=batch_size))
        lower, upper = bounds_of(net, inputs, reach, clip, batch_size)
        chosen = torch.arange(inputs.shape[0] if method == "crown" else 0, device=inputs.device)
        if method != "crown" and threshold is not None and refine:
            chosen = _open(value, lower, upper, threshold)[:refine]
        if chosen.numel():
            low, high = _linear(net, inputs[chosen], reach[chosen], clip)
            lower[chosen], upper[chosen] = torch.maximum(lower[chosen], low), torch.minimum(upper[chosen], high)
        _demand_enclosed(value, lower, upper, "the unchanged input of")
        _demand_agreement(net, inputs, reach, clip, lower, upper)
    return ScoreBounds(
        value=to_numpy(value), lower=to_numpy(lower), upper=to_numpy(upper), epsilon=float(epsilon),
        method=method if method == "crown" or not chosen.numel() else "ibp, crown", refined=int(chosen.numel()),
    )  # fmt: skip


def label_bounds(
    model: nn.Module, x: ArrayLike | Tensor, epsilon: float, *, clip: Clip = (0.0, 1.0), batch_size: int = 256
) -> ScoreBounds:
    """Bounds (n, K) of the nonconformity -log p_y of every label over all inputs within epsilon in every entry.

    The larger, the stranger. What ``robust.certified_sets`` needs: ``lower`` at test time, ``upper`` at calibration.

    Parameters
    ----------
    model, x, epsilon, clip, batch_size
        As in ``confidence_bounds``, by interval bounds; a model's own ``log_confidence_bounds`` is not used.

    Returns
    -------
    ScoreBounds
        ``value``, ``lower`` and ``upper``, each of shape (n, K).

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> bounds = label_bounds(model, torch.full((2, 4), 0.5), 0.1)
    >>> bounds.value.shape, bool((bounds.lower <= bounds.value).all() and (bounds.value <= bounds.upper).all())
    ((2, 3), True)
    """
    net, inputs = _prepared(model, x, clip, batch_size)
    reach = _reach(epsilon, inputs)
    with torch.no_grad(), _unchanged(net):
        value = -_log_probabilities(logits_of(net, inputs, size=batch_size))
        least, most = log_probability_bounds(net, inputs, reach, clip)
        _demand_finite(least, most)
        lower, upper = -most * (1 - _LAST), -least * (1 + _LAST)
        _demand_enclosed(value, lower, upper, "the unchanged input of")
        _demand_agreement(net, inputs, reach, clip)
    return ScoreBounds(
        value=to_numpy(value), lower=to_numpy(lower), upper=to_numpy(upper), epsilon=float(epsilon), method="ibp"
    )


def epsilon_star(
    model: nn.Module,
    x: ArrayLike | Tensor,
    threshold: float,
    *,
    largest: float = 1.0,
    clip: Clip = (0.0, 1.0),
    steps: int = 12,
    batch_size: int = 256,
) -> NDArray[np.float64]:
    """The largest radius (n,) for which the log-confidence provably stays at or below a threshold. Higher is better.

    By bisection, all samples at once: the bound rises with the radius. What is returned was certified itself, and the
    true radius up to which the certificate holds is less than ``largest / 2**steps`` larger.

    Parameters
    ----------
    model, x
        As in ``confidence_bounds``.
    threshold
        A log-confidence, such as the 5 % quantile of the inliers.
    largest
        Where to stop looking.
    clip
        As in ``confidence_bounds``.
    steps
        Halvings; each costs one pass.
    batch_size
        As in ``confidence_bounds``.

    Returns
    -------
    array
        NaN where even the unchanged input is not certified, 0 where only that is.

    Examples
    --------
    >>> head = nn.Linear(1, 2, bias=False)
    >>> _ = head.weight.data.copy_(torch.tensor([[4.0], [0.0]]))  # log-confidence rises with x
    >>> top = float(log_confidence(head(torch.tensor([[0.75]]))).detach())
    >>> epsilon_star(head, [[0.25], [0.5], [0.9]], top).round(2)
    array([0.5 , 0.25,  nan])
    """
    as_positive(largest, "largest")
    net, inputs = _prepared(model, x, clip, batch_size)

    def holds(radius: Tensor) -> Tensor:
        return bounds_of(net, inputs, radius, clip, batch_size)[1] <= threshold

    with torch.no_grad(), _unchanged(net):
        good = inputs.new_zeros(inputs.shape[0])
        bad = torch.full_like(good, float(largest))
        value = log_confidence(logits_of(net, inputs, size=batch_size))
        _demand_enclosed(value, *bounds_of(net, inputs, good, clip, batch_size), "the unchanged input of")
        _demand_agreement(net, inputs, bad, clip)
        at_rest, everywhere = holds(good), holds(bad)
        for _ in range(as_count(steps, "steps")):
            middle = (good + bad) / 2
            sound = holds(middle)
            good, bad = torch.where(sound, middle, good), torch.where(sound, bad, middle)
        good = torch.where(everywhere, torch.full_like(good, float(largest)), good)
        return to_numpy(torch.where(at_rest, good, torch.full_like(good, torch.nan)))


def _prepared(model: nn.Module, x: ArrayLike | Tensor, clip: Clip, batch_size: int) -> tuple[nn.Module, Tensor]:
    """The model made ``certifiable`` and its checked inputs."""
    as_count(batch_size, "batch_size")
    return certifiable(model), checked_inputs(x, clip, device_of(model))


def bounds_of(net: nn.Module, inputs: Tensor, reach: Tensor, clip: Clip, batch_size: int) -> Pair:
    """Lower and upper bounds of the log-confidence of a model made ``certifiable``."""
    own: Any = getattr(net, "log_confidence_bounds", None)
    if own is not None and does_more(net):
        raise InputError(f"{type(net).__name__} brings its own bounds, which do not cover its hooks. Remove the hooks.")
    lower, upper = [], []
    for x, epsilon in zip(torch.split(inputs, batch_size), torch.split(reach, batch_size), strict=True):
        if own is not None:
            low, high = own(x.clone(), epsilon) if clip == (0.0, 1.0) else own(x.clone(), epsilon, clip=clip)
        else:
            low, high = (bound.amax(dim=1) for bound in log_probability_bounds(net, x, epsilon, clip))
        _demand_finite(low, high)
        lower.append(low.double() * (1 + _LAST))
        upper.append(high.double().clamp(max=0.0) * (1 - _LAST))
    return torch.cat(lower), torch.cat(upper)


def _log_probabilities(logits: Tensor) -> Tensor:
    """log p_y (n, K) that does not saturate at 0, as log-softmax does; one class at a time."""
    classes = torch.arange(logits.shape[1], device=logits.device)
    each = [log_one_plus((logits - logits[:, k, None])[:, classes != k], dim=1) for k in classes]
    return -torch.stack(each, dim=1)


def _open(value: Tensor, lower: Tensor, upper: Tensor, threshold: float) -> Tensor:
    """Samples whose bound crosses the threshold though they do not, the nearest first."""
    past = torch.where(value <= threshold, upper - threshold, threshold - lower)
    crossing = (past > 0).nonzero()[:, 0]
    return crossing[past[crossing].argsort(stable=True)]


def _linear(net: nn.Module, inputs: Tensor, reach: Tensor, clip: Clip) -> Pair:
    if hasattr(net, "log_confidence_bounds"):
        raise InputError(f"{type(net).__name__} brings its own bounds, which CROWN cannot refine. Use method 'ibp'.")
    lower, upper = torch.empty_like(reach), torch.empty_like(reach)
    box = input_box(inputs, reach, clip).widened(1)
    for row, differences in enumerate(crown_by_sample(net, box)):
        _demand_finite(differences)
        lower[row], upper[row] = log_confidence_lower(differences[None]), log_confidence_upper(differences[None])
    return lower * (1 + _LAST), upper * (1 - _LAST)


def _reach(epsilon: float, inputs: Tensor) -> Tensor:
    return torch.full_like(inputs.flatten(1)[:, 0], as_number(epsilon, "epsilon", least=0))


def _demand_finite(*bounds: Tensor) -> None:
    for bound in bounds:
        if not bool(torch.isfinite(bound).all()):
            raise InputError("a bound is not finite, so nothing is certified. Look for huge or NaN weights.")


def _demand_enclosed(value: Tensor, lower: Tensor, upper: Tensor, where: str) -> None:
    """A value inside the ball that leaves the bounds shows a network whose forward pass was read wrongly."""
    wrong = ~(torch.maximum(value - upper, lower - value) <= _MISREAD * (1 + value.abs()))  # so is NaN
    if bool(wrong.any()):
        row = int(wrong.flatten(1).any(dim=1).nonzero()[0]) if wrong.ndim > 1 else int(wrong.nonzero()[0])
        raise InputError(f"the network leaves its bounds at {where} row {row}, so nothing is certified. "
                         "Look for changes in place, for chance, and for rules or bounds of your own.")  # fmt: skip


def _demand_agreement(net: nn.Module, inputs: Tensor, reach: Tensor, clip: Clip, *bounds: Tensor) -> None:
    """Compare the network with its bounds at random points of the balls: at radius 0 there, and in the ball.

    The unchanged input alone is not enough: where logits are uniform, an overlooked factor does not show. Points
    are given to the network two by two and to the bounds at once, so an answer that depends on the batch shows too.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(inputs.shape[0], (_POINTS,), generator=generator).to(inputs.device)
    moves = 2 * torch.rand((_POINTS, *inputs.shape[1:]), dtype=inputs.dtype, generator=generator) - 1
    moves[::2] = moves[::2].sign()  # every other point is a corner
    box = input_box(inputs[rows], reach[rows], clip)
    points = torch.clamp(box.center + moves.to(inputs.device) * box.radius, box.lower, box.upper)
    points = points if clip is None else points.clamp(*clip)
    order = torch.arange(_POINTS, device=points.device).reshape(2, -1).T.flatten()
    logits = logits_of(net, points[order], size=2)[order.argsort()]
    none, where = torch.zeros_like(reach[rows]), "a random point of the ball of"
    if hasattr(net, "log_confidence_bounds"):
        _demand_enclosed(log_confidence(logits), *bounds_of(net, points, none, clip, _POINTS), where)
        copies = points.clone()
        net(copies)
        if not torch.equal(copies, points):  # bounds of its parts are for the unchanged input
            raise InputError(f"{type(net).__name__} brings its own bounds and changes its input in place.")
    else:
        lower, upper = log_probability_bounds(net, points, none, clip, elide=False)  # at radius 0 as tight
        _demand_enclosed(_log_probabilities(logits), lower, upper, where)
    if bounds:
        lower, upper = (bound[rows] for bound in bounds)
        _demand_enclosed(log_confidence(logits), lower, upper, where)


@contextmanager
def _unchanged(net: nn.Module) -> Iterator[None]:
    """Raise if passes through the network changed it: its next answer may differ."""

    def state() -> Any:
        tensors = chain(net.named_parameters(), net.named_buffers())
        sums = [(name, None if is_lazy(value) else str(value.detach().double().sum())) for name, value in tensors]
        return state_of(net), sums

    before = state()
    yield
    if state() != before:
        raise InputError(f"{type(net).__name__} changes itself in a forward pass at rest, so nothing is certified.")


def certifiable(model: nn.Module) -> nn.Module:
    """A copy of the model in float64 and at rest, on the device of the model."""
    name = type(model).__name__
    net = copied(model)
    try:
        net = net.to(device_of(model)).double().eval()
    except Exception as error:  # a change of type may run code of the model too
        raise InputError(f"{name} cannot be copied in float64 ({first_line(error)}).") from error
    awake = [part or name for part, module in net.named_modules() if module.training]
    if awake:
        raise InputError(f"{name} has no state of rest: '{awake[0]}' stays in training mode after eval().")
    return net


def device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter or buffer; the CPU where that has no float64."""
    device = place_of(model, None)
    return torch.device("cpu") if device.type == "mps" else device


def as_double(x: ArrayLike | Tensor, device: torch.device | None = None) -> Tensor:
    """A float64 tensor, on the CPU by default."""
    if not isinstance(x, Tensor):  # torch takes no read-only array (a memory map) and no negative strides
        x = torch.from_numpy(np.require(x, dtype=np.float64, requirements=["C", "W"]))
    return x.detach().to(torch.device("cpu") if device is None else device, torch.float64)


def checked_inputs(x: ArrayLike | Tensor, clip: Clip, device: torch.device | None = None) -> Tensor:
    """Inputs as a float64 tensor, finite and inside the range."""
    inputs = as_double(x, device)
    if inputs.ndim < 2 or 0 in inputs.shape:
        raise InputError(f"x must be a non-empty batch of inputs (n, ...), got shape {tuple(inputs.shape)}.")
    rows = inputs.flatten(1)
    check_finite(rows.cpu().numpy(), "x")
    if clip is not None:
        check_range(rows, clip)
    return inputs


def logits_of(net: nn.Module, inputs: Tensor, *, size: int) -> Tensor:
    """Logits (n, K) of inputs, some at a time."""
    return per_sample(in_batches(net, inputs, size=size), len(inputs), "the model must return logits (n, K)")


def in_batches(call: Callable[[Tensor], Tensor], inputs: Tensor, *, size: int) -> Tensor:
    """The outputs of a network for all inputs, in batches of copies: it may write into its input."""
    try:
        return torch.cat([call(part.clone()) for part in torch.split(inputs, size)])
    except CaveatError:
        raise
    except Exception as error:  # a forward pass may raise anything
        shape = tuple(inputs.shape[1:])
        raise InputError(f"the model cannot take inputs of shape {shape}: {first_line(error)}.") from error
