"""Certified bounds of confidence, which no attacker within the radius can pass, for the arithmetic that is deployed.

Two bounds are computed in float64: one of the network in real numbers, ``exact``, and one that holds what rounding can
do in the arithmetic of the model. The second is the smaller of two: boxes that are widened in every layer, and the
exact bound plus the errors that lines carry through the network (``roundoff``). Where rounding exceeds what a bound
leaves, a row has no certificate.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from caveat._internal.checks import as_count, as_number, as_positive, check_known
from caveat.errors import InputError
from caveat.nn._walk import demand_weights, to_numpy
from caveat.nn.float64 import copied, device_of, in_float64
from caveat.results import ScoreBounds
from caveat_lab.bounds.arithmetic import FLOAT64, REAL, Arithmetic, arithmetic_of
from caveat_lab.bounds.box import Box, cast_box, input_box
from caveat_lab.bounds.confidence import (
    demand_classes,
    log_confidence,
    log_confidence_lower,
    log_confidence_upper,
    log_one_plus,
)
from caveat_lab.bounds.crown import crown_by_sample
from caveat_lab.bounds.deployed import demand_kept, demand_same_layers
from caveat_lab.bounds.differences import log_probability_bounds
from caveat_lab.bounds.passes import checked_inputs, logits_of
from caveat_lab.bounds.roundoff import difference_errors
from caveat_lab.bounds.tracing import does_more, state_of

__all__ = ["confidence_bounds", "epsilon_star", "label_bounds"]

Clip = tuple[float, float] | None
Which = Literal["model", "float64"]
Pair = tuple[Tensor, Tensor]
_LAST = 8 * torch.finfo(torch.float64).eps  # rounding of the last step, from differences to a log-probability
_MISREAD = 1e-9  # no rounding of float64 is so large
_WORTH = 1e-3  # rounding of a bound that lines may make smaller; they take as long as some dozen boxes
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
    arithmetic: Which = "model",
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
        -> (lower, upper)`` is used instead; it gets float64 inputs, an epsilon per sample and, by a parameter
        ``slack``, the ``Arithmetic`` whose rounding the bounds must hold. Without that parameter it has certificates
        for ``arithmetic="float64"`` only.
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
    arithmetic
        ``"model"``: bounds of the model as it is deployed, in its own float type, whatever the order of its sums.
        ``"float64"``: bounds of ``nn.in_float64(model)``, much tighter; then that network must be deployed.
    batch_size
        Samples in one pass. The model is also run in batches of this size, and its answers compared with the bounds.

    Returns
    -------
    ScoreBounds
        ``value`` is the log-confidence at the inputs, ``lower`` and ``upper`` are its bounds, each of shape (n,), for
        the arithmetic that ``arithmetic`` names. An infinite bound is no certificate: rounding exceeds its margin.
        ``exact`` has the same numbers for the network in real numbers, and ``slack`` is the difference.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> bounds = confidence_bounds(model, torch.full((2, 4), 0.5), 0.1)
    >>> bool((bounds.lower <= bounds.value).all() and (bounds.value <= bounds.upper).all())
    True
    >>> bounds.arithmetic, bool((bounds.slack < 1e-5).all())
    ('float32', True)
    """
    check_known(method, ("ibp", "crown"), "method")
    if as_count(refine, "refine", least=0) and threshold is None:
        raise InputError("refine needs threshold, the log-confidence that decides, which is None.")
    task = _task(model, x, clip, batch_size, arithmetic)
    net, inputs, reach = task.net, task.inputs, _reach(epsilon, task.inputs)
    with torch.no_grad(), _unchanged(net):
        value = log_confidence(logits_of(net, inputs, size=batch_size))
        lower, upper = task.bounds(reach, REAL)
        low, high = task.bounds(reach, task.slack)
        chosen = torch.arange(inputs.shape[0] if method == "crown" else 0, device=inputs.device)
        if method != "crown" and threshold is not None and refine:
            chosen = _open(value, lower, upper, threshold)[:refine]
        if chosen.numel():
            for sides, tight in zip(((lower, upper), (low, high)), task.linear(chosen, reach), strict=True):
                sides[0][chosen] = torch.fmax(sides[0][chosen], tight[0])
                sides[1][chosen] = torch.fmin(sides[1][chosen], tight[1])
        _demand_enclosed(value, lower, upper, "the unchanged input of")
        _demand_agreement(net, inputs, reach, clip, lower, upper)
        low, high = _certificates(low, high, most=0.0)
        answer = task.run(log_confidence, reach, low, high)
    how = {
        "epsilon": float(epsilon),
        "refined": int(chosen.numel()),
        "method": method if method == "crown" or not chosen.numel() else "ibp, crown",
    }
    return _results((answer, low, high), (value, lower, upper), task.slack, **how)


def label_bounds(
    model: nn.Module,
    x: ArrayLike | Tensor,
    epsilon: float,
    *,
    clip: Clip = (0.0, 1.0),
    arithmetic: Which = "model",
    batch_size: int = 256,
) -> ScoreBounds:
    """Bounds (n, K) of the nonconformity -log p_y of every label over all inputs within epsilon in every entry.

    The larger, the stranger. What ``robust.certified_sets`` needs: ``lower`` at test time, ``upper`` at calibration.

    Parameters
    ----------
    model, x, epsilon, clip, arithmetic, batch_size
        As in ``confidence_bounds``, by interval bounds; a model's own ``log_confidence_bounds`` is not used.

    Returns
    -------
    ScoreBounds
        ``value``, ``lower`` and ``upper``, each of shape (n, K); ``exact`` and ``slack`` as there.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> bounds = label_bounds(model, torch.full((2, 4), 0.5), 0.1)
    >>> bounds.value.shape, bool((bounds.lower <= bounds.value).all() and (bounds.value <= bounds.upper).all())
    ((2, 3), True)
    """
    task = _task(model, x, clip, batch_size, arithmetic)
    net, inputs, reach = task.net, task.inputs, _reach(epsilon, task.inputs)
    with torch.no_grad(), _unchanged(net):
        value = -_log_probabilities(logits_of(net, inputs, size=batch_size))
        least, most = _of_labels(net, inputs, reach, clip, REAL)
        lower, upper = -most * (1 - _LAST), -least * (1 + _LAST)
        _demand_enclosed(value, lower, upper, "the unchanged input of")
        _demand_agreement(net, inputs, reach, clip)
        least, most = _certificates(*_of_labels(net, inputs, reach, clip, task.slack))
        answer = task.run(lambda logits: -_log_probabilities(logits), reach, -most, -least)
    sides = (answer, -most, -least), (value, lower, upper)
    return _results(*sides, task.slack, epsilon=float(epsilon), method="ibp")


def epsilon_star(
    model: nn.Module,
    x: ArrayLike | Tensor,
    threshold: float,
    *,
    largest: float = 1.0,
    clip: Clip = (0.0, 1.0),
    steps: int = 12,
    arithmetic: Which = "model",
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
        Halvings; each costs one bound of all samples.
    arithmetic, batch_size
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
    task = _task(model, x, clip, batch_size, arithmetic)
    net, inputs = task.net, task.inputs

    def holds(radius: Tensor) -> Tensor:
        return task.bounds(radius, task.slack)[1] <= threshold

    with torch.no_grad(), _unchanged(net):
        good = inputs.new_zeros(inputs.shape[0])
        bad = torch.full_like(good, float(largest))
        value = log_confidence(logits_of(net, inputs, size=batch_size))
        _demand_enclosed(value, *task.bounds(good, REAL), "the unchanged input of")
        _demand_agreement(net, inputs, bad, clip)
        at_rest, everywhere = holds(good), holds(bad)
        for _ in range(as_count(steps, "steps")):
            middle = (good + bad) / 2
            sound = holds(middle)
            good, bad = torch.where(sound, middle, good), torch.where(sound, bad, middle)
        good = torch.where(everywhere, torch.full_like(good, float(largest)), good)
        beyond = torch.full_like(good, torch.inf)
        task.run(log_confidence, good, -beyond, torch.where(at_rest, torch.full_like(good, threshold), beyond))
        return to_numpy(torch.where(at_rest, good, torch.full_like(good, torch.nan)))


@final
@dataclass(frozen=True, eq=False)
class _Task:
    """What is certified: the model that is deployed, its copy in float64, its inputs and its arithmetic.

    What is deployed is run as a copy too: a hook may keep what it sees.
    """

    deployed: nn.Module
    net: nn.Module
    inputs: Tensor
    clip: Clip
    slack: Arithmetic
    batch_size: int

    def bounds(self, reach: Tensor, slack: Arithmetic) -> Pair:
        """Lower and upper bounds (n,) of the log-confidence."""
        own: Any = getattr(self.net, "log_confidence_bounds", None)
        if own is not None:
            own = _own_bounds(self.net, self.clip, slack)
        lower, upper = [], []
        for x, epsilon in zip(*(torch.split(part, self.batch_size) for part in (self.inputs, reach)), strict=True):
            if own is not None:
                low, high = own(x.clone(), epsilon)
                if slack is REAL:
                    _demand_finite(low, high)
                else:
                    low, high = _rounded(low.double(), high.double(), self.net(x[:1].clone()).shape[1], slack)
            else:
                low, high = (bound.amax(dim=1) for bound in _of_labels(self.net, x, epsilon, self.clip, slack))
            lower.append(low.double() * (1 + _LAST))
            upper.append(high.double().clamp(max=0.0) * (1 - _LAST))
        return torch.cat(lower), torch.cat(upper)

    def linear(self, rows: Tensor, reach: Tensor) -> tuple[Pair, Pair]:
        """Linear bounds of some rows: in real numbers, and with the rounding of the network."""
        if hasattr(self.net, "log_confidence_bounds"):
            name = type(self.net).__name__
            raise InputError(f"{name} brings its own bounds, which CROWN cannot refine. Use method 'ibp'.")
        box = input_box(self.inputs[rows], reach[rows], self.clip)
        errors = difference_errors(self.net, box, self.slack)
        sides = []
        for row, differences in enumerate(crown_by_sample(self.net, box.widened(1))):
            _demand_finite(differences)
            wide = differences + torch.inf if errors is None else differences + errors[row]
            ends = [(log_confidence_lower(one[None]), log_confidence_upper(one[None])) for one in (differences, wide)]
            rounded = _rounded(*ends[1], len(differences), self.slack)
            sides.append(torch.stack([*ends[0], *rounded]))
        lower, upper, low, high = torch.cat(sides, dim=1)
        return (lower * (1 + _LAST), upper * (1 - _LAST)), (low * (1 + _LAST), high.clamp(max=0.0) * (1 - _LAST))

    def run(self, measure: Any, reach: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """What the deployed model answers at the inputs, compared with the bounds there and at other points."""
        rows, points = _points(self.inputs, reach, self.clip)
        own = hasattr(self.net, "log_confidence_bounds")
        if self.deployed is not self.net and not own:
            demand_same_layers(self.deployed, self.net, self.inputs, self.slack, self.batch_size)
        return demand_kept(self.deployed, self.slack, self.batch_size, measure, self.inputs, points, rows, lower, upper)


def _task(model: nn.Module, x: ArrayLike | Tensor, clip: Clip, batch_size: int, arithmetic: Which) -> _Task:
    as_count(batch_size, "batch_size")
    check_known(arithmetic, ("model", "float64"), "arithmetic")
    demand_weights(model)
    net = in_float64(model)
    for weight in net.parameters():  # boxes are made of them in every layer, and no gradient of theirs is wanted
        if not is_lazy(weight):
            weight.requires_grad_(False)
    inputs = checked_inputs(x, clip, device_of(model))
    slack = FLOAT64 if arithmetic == "float64" else arithmetic_of(model)
    return _Task(copied(model) if arithmetic == "model" else net, net, inputs, clip, slack, batch_size)


def _own_bounds(net: nn.Module, clip: Clip, slack: Arithmetic) -> Any:
    """The bounds that a model brings, as a function of inputs and radii."""
    own: Any = net.log_confidence_bounds
    name, more = type(net).__name__, dict[str, Any]({} if clip == (0.0, 1.0) else {"clip": clip})
    if does_more(net):
        raise InputError(f"{name} brings its own bounds, which do not cover its hooks. Remove the hooks.")
    if "slack" in inspect.signature(own).parameters:
        more["slack"] = slack
    elif slack.dtype != torch.float64:
        raise InputError(
            f"{name} brings its own bounds, which do not cover the rounding of {slack.name}. Give "
            "log_confidence_bounds a parameter slack, or pass arithmetic='float64'."
        )

    def bounds(x: Tensor, epsilon: Tensor) -> Any:
        if slack.dtype != torch.float64:  # inputs are cast
            largest = x.abs().flatten(1).amax(dim=1) + epsilon
            epsilon = epsilon + slack.lost(1) * largest + slack.tiny
        return own(x, epsilon, **more)

    return bounds


def _of_labels(net: nn.Module, x: Tensor, epsilon: Tensor, clip: Clip, slack: Arithmetic) -> Pair:
    """Lower and upper bounds (n, K) of each log p_k; with rounding NaN or infinite where there is none."""
    box = input_box(x, epsilon, clip)
    exact = log_probability_bounds(net, box)
    if slack is REAL:
        _demand_finite(*exact)
        return exact
    least, most = log_probability_bounds(net, cast_box(box, slack), slack=slack)
    added = torch.stack(
        [(wide - real).abs() / (1 + real.abs()) for wide, real in zip((least, most), exact, strict=True)]
    )
    rows = ((added > _WORTH) & added.isfinite()).any(dim=2).any(dim=0).nonzero()[:, 0]
    if rows.numel():
        some = Box(box.center[rows], box.radius[rows])
        if (errors := difference_errors(net, some, slack)) is not None:
            low, high = log_probability_bounds(net, some, errors=errors)
            least[rows], most[rows] = torch.fmax(least[rows], low), torch.fmin(most[rows], high)
    return _rounded(least, most, least.shape[1], slack)


def _rounded(lower: Tensor, upper: Tensor, classes: int, slack: Arithmetic) -> Pair:
    """With the rounding of a softmax: of its exponentials, their sum and the logarithm, for arguments and result."""
    room = slack.lost(classes + 8)
    return lower - room * (1 + lower.abs()), upper + room * (1 + upper.abs())


def _certificates(lower: Tensor, upper: Tensor, *, most: float = torch.inf) -> Pair:
    """Bounds that are certificates; infinite where one is not finite, or an upper one not below ``most``."""
    none = ~(lower.isfinite() & upper.isfinite())
    return lower.masked_fill(none, -torch.inf), upper.masked_fill(none | (upper >= most), torch.inf)


def _results(deployed: Any, exact: Any, slack: Arithmetic, **how: Any) -> ScoreBounds:
    sides: tuple[dict[str, Any], ...] = tuple(
        dict(zip(("value", "lower", "upper"), map(to_numpy, side), strict=True)) for side in (deployed, exact)
    )
    plain = ScoreBounds(**sides[1], **how, arithmetic=REAL.name)
    return ScoreBounds(**sides[0], **how, arithmetic=slack.name, exact=plain)


def _log_probabilities(logits: Tensor) -> Tensor:
    """log p_y (n, K) that does not saturate at 0, as log-softmax does; one class at a time."""
    demand_classes(logits)
    classes = torch.arange(logits.shape[1], device=logits.device)
    each = [log_one_plus((logits - logits[:, k, None])[:, classes != k], dim=1) for k in classes]
    return -torch.stack(each, dim=1)


def _open(value: Tensor, lower: Tensor, upper: Tensor, threshold: float) -> Tensor:
    """Samples whose bound crosses the threshold though they do not, the nearest first."""
    past = torch.where(value <= threshold, upper - threshold, threshold - lower)
    crossing = (past > 0).nonzero()[:, 0]
    return crossing[past[crossing].argsort(stable=True)]


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


def _points(inputs: Tensor, reach: Tensor, clip: Clip) -> Pair:
    """Some rows, and a random point of the ball of each."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(inputs.shape[0], (_POINTS,), generator=generator).to(inputs.device)
    moves = 2 * torch.rand((_POINTS, *inputs.shape[1:]), dtype=inputs.dtype, generator=generator) - 1
    moves[::2] = moves[::2].sign()  # every other point is a corner
    box = input_box(inputs[rows], reach[rows], clip)
    points = torch.clamp(box.center + moves.to(inputs.device) * box.radius, box.lower, box.upper)
    return rows, points if clip is None else points.clamp(*clip)


def _demand_agreement(net: nn.Module, inputs: Tensor, reach: Tensor, clip: Clip, *bounds: Tensor) -> None:
    """Compare the network with its bounds at random points of the balls: at radius 0 there, and in the ball.

    The unchanged input alone is not enough: where logits are uniform, an overlooked factor does not show. Points
    are given to the network two by two and to the bounds at once, so an answer that depends on the batch shows too.
    """
    rows, points = _points(inputs, reach, clip)
    order = torch.arange(_POINTS, device=points.device).reshape(2, -1).T.flatten()
    logits = logits_of(net, points[order], size=2)[order.argsort()]
    none, where = torch.zeros_like(reach[rows]), "a random point of the ball of"
    if hasattr(net, "log_confidence_bounds"):
        own = _Task(net, net, points, clip, REAL, _POINTS)
        _demand_enclosed(log_confidence(logits), *own.bounds(none, REAL), where)
        copies = points.clone()
        net(copies)
        if not torch.equal(copies, points):  # bounds of its parts are for the unchanged input
            raise InputError(f"{type(net).__name__} brings its own bounds and changes its input in place.")
    else:
        lower, upper = log_probability_bounds(net, input_box(points, none, clip), elide=False)  # at radius 0 as tight
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
