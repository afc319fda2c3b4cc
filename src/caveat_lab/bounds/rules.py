"""How a box goes through each kind of layer. A layer without a rule has no bound, and the error names it.

Dropout is the identity and batch normalization uses its running statistics: bounds are of the network at rest, also
while it is being trained. ``slack`` widens each box by what rounding can do in the arithmetic of the network, and in
the bound itself; certificates use it, training does not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from caveat.errors import InputError
from caveat_lab.bounds.activations import ACTIVATIONS, activation_box
from caveat_lab.bounds.arithmetic import Arithmetic
from caveat_lab.bounds.box import Box
from caveat_lab.bounds.calls import LAYER_CALLS, LAYER_METHODS
from caveat_lab.bounds.layer_norm import layer_norm_box

__all__ = [
    "AFFINE_LAYERS",
    "FUNCTION_RULES",
    "METHOD_RULES",
    "MODULE_RULES",
    "has_rule",
    "module_rule",
    "register_rule",
]

Slack = Arithmetic | None  # None: no widening
Rule = Callable[[Any, Box, Slack], Box]
Map = Callable[[Tensor], Tensor]


def register_rule(*kinds: type[nn.Module], affine: bool = False) -> Callable[[Rule], Rule]:
    """Add a rule for a module of your own: ``rule(module, box, slack) -> Box`` must enclose all it can give.

    ``slack`` is None in training. In a certificate it is the ``Arithmetic`` of the network, and the box must hold what
    rounding does there: ``box.widened(terms, slack)`` before a sum of that many products.

    Parameters
    ----------
    *kinds
        Classes of modules.
    affine
        Whether the rule sends the center as the module sends a point, and the radius through the absolute weights. Only
        then can rounding be carried through the module by lines.

    Returns
    -------
    callable
        A decorator for the rule.

    Examples
    --------
    >>> class Half(nn.Module):
    ...     def forward(self, x):
    ...         return x / 2
    >>> @register_rule(Half)
    ... def half(module, box, slack):
    ...     return Box(box.center / 2, box.radius / 2)  # exact in every arithmetic
    >>> del MODULE_RULES[Half]  # only here, to leave no trace
    """

    def keep(rule: Rule) -> Rule:
        for kind in kinds:
            MODULE_RULES[kind] = rule
            if affine:
                AFFINE_LAYERS.add(kind)
        return rule

    return keep


def has_rule(module: nn.Module) -> bool:
    return type(module) in MODULE_RULES


def module_rule(module: nn.Module, name: str) -> Rule:
    rule = MODULE_RULES.get(type(module))
    if rule is None:
        kinds = ", ".join(sorted(kind.__name__ for kind in MODULE_RULES))
        raise InputError(f"no bound is known for layer '{name}' of type {type(module).__name__}. "
                         f"Known: {kinds}, and additions; add others with bounds.register_rule.")  # fmt: skip
    return rule


class _ReLUOfBox(torch.autograd.Function):
    """Both ends of a box through max(., 0) in a few passes over memory, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, center: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        upper = (center + radius).clamp_min_(0)
        lower = (center - radius).clamp_min_(0)
        middle = torch.lerp(lower, upper, 0.5)
        if not any(ctx.needs_input_grad):
            return middle, upper.sub_(middle)
        ctx.save_for_backward(lower, upper)
        return middle, upper - middle

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        of_center, of_radius = grads
        lower, upper = ctx.saved_tensors
        of_upper = (of_center + of_radius).mul_(0.5).mul_(upper > 0)
        of_lower = (of_center - of_radius).mul_(0.5).mul_(lower > 0)
        return of_upper + of_lower, of_upper.sub_(of_lower)


def relu(box: Box, slack: Slack) -> Box:
    """ReLU is monotone: it acts on both ends."""
    if slack is not None:
        box = box.widened(1)
    box = Box(*_ReLUOfBox.apply(box.center, box.radius))  # type: ignore[no-untyped-call]
    return box if slack is None else box.widened(1)  # a unit that is off for the whole box stays exactly 0


def affine(
    box: Box, terms: int, slack: Slack, point: Map, size: Map, constant: Tensor | None = None, *, whole: int = 1
) -> Box:
    """Center through the map, radius through its absolute weights.

    ``whole``: how many times the result the sums can be, as those of a mean are.
    """
    if slack is None:
        return Box(point(box.center), size(box.radius))
    lost, box = slack.relative(terms), box.widened(terms, slack)
    center, radius = point(box.center), size(box.radius)
    if constant is not None:  # a sum that begins with it is rounded at its size in every step
        radius = radius + lost * constant.abs()
    reach = box.center.abs() + box.radius
    if bool((radius > lost * slack.largest / whole).any()):  # the radius is at least ``lost`` times the largest sum
        sums = size(reach) if constant is None else size(reach) + constant.abs()
        radius = slack.in_range(radius, sums, 1 / whole)
    radius = radius + slack.underflow(terms, reach)
    return Box(center, radius).widened(1)


def linear(box: Box, weight: Tensor, bias: Tensor | None, slack: Slack) -> Box:
    return affine(
        box, weight.shape[1], slack,
        lambda c: F.linear(c, weight, bias), lambda r: F.linear(r, weight.abs()), bias,
    )  # fmt: skip


def _conv(module: Any, box: Box, slack: Slack) -> Box:
    if module.padding_mode != "zeros":
        raise InputError(f"a {type(module).__name__} must pad with zeros to have a bound, got padding_mode "
                         f"{module.padding_mode!r}.")  # fmt: skip
    weight: Tensor = module.weight
    _demand_samples_apart(f"a {type(module).__name__}", box.center.ndim != weight.ndim)  # then samples are channels
    function: Any = F.conv1d if isinstance(module, nn.Conv1d) else F.conv2d
    how = (module.stride, module.padding, module.dilation, module.groups)
    return affine(
        box, weight[0].numel(), slack,
        lambda c: function(c, weight, module.bias, *how), lambda r: function(r, weight.abs(), None, *how),
        None if module.bias is None else module.bias.reshape(-1, *[1] * (weight.ndim - 2)),
    )  # fmt: skip


def _batch_norm(module: nn.BatchNorm2d, box: Box, slack: Slack) -> Box:
    if module.running_mean is None or module.running_var is None:
        raise InputError("a batch normalization needs running statistics to have a bound, this one keeps none.")
    scale = (module.running_var + module.eps).rsqrt()
    if module.weight is not None:
        scale = scale * module.weight
    shift = -module.running_mean * scale
    if module.bias is not None:
        shift = shift + module.bias
    like = (1, -1, *[1] * (box.center.ndim - 2))
    scale, shift = scale.reshape(like), shift.reshape(like)
    if slack is not None:  # (x - mean) cancels: its rounding is of the size of the mean, and of the bias
        own = module.running_mean.reshape(like).abs() * slack.relative(8)
        box = Box(box.center, box.radius + own)
    constant = None if module.bias is None else module.bias.reshape(like)
    return affine(box, 8, slack, lambda c: c * scale + shift, lambda r: r * scale.abs(), constant)


def _layer_norm(module: nn.LayerNorm, box: Box, slack: Slack) -> Box:
    _demand_samples_apart("a LayerNorm", len(module.normalized_shape) >= box.center.ndim)
    return layer_norm_box(module, box, slack)


def _identity(module: nn.Module, box: Box, slack: Slack) -> Box:
    return box


def _max_pool(module: nn.MaxPool1d | nn.MaxPool2d, box: Box, slack: Slack) -> Box:
    if slack is not None:
        box = box.widened(1)
    box = Box.between(module(box.lower), module(box.upper))
    return box if slack is None else box.widened(1)


def _avg_pool(module: nn.AvgPool1d | nn.AvgPool2d, box: Box, slack: Slack) -> Box:
    size = module.kernel_size
    terms = size * size if isinstance(size, int) else math.prod(size)
    # divisor_override may be negative, and larger than the window
    whole = max(terms, abs(getattr(module, "divisor_override", None) or 1))
    return affine(box, terms, slack, module, lambda r: module(r).abs(), whole=whole)


def _adaptive_avg_pool(module: nn.Module, box: Box, slack: Slack) -> Box:
    terms = math.prod(box.shape[-2:])
    return affine(box, terms, slack, module, module, whole=terms)


def _reshaped(how: Callable[[Tensor], Tensor], box: Box) -> Box:
    return Box(how(box.center), how(box.radius))


def _add(a: Any, b: Any, slack: Slack) -> Box:
    if isinstance(a, Box) and isinstance(b, Box):
        if slack is None:
            return Box(a.center + b.center, a.radius + b.radius)
        a, b = a.widened(1, slack), b.widened(1, slack)
        radius = a.radius + b.radius + slack.tiny
        return Box(a.center + b.center, slack.in_range(radius, a.center.abs() + b.center.abs() + radius))
    box, other = (a, b) if isinstance(a, Box) else (b, a)
    center = box.center + other
    box = Box(center, box.radius.expand_as(center))
    if slack is None:
        return box
    size = torch.as_tensor(other, device=center.device).abs()
    own = slack.lost(1) * size + slack.tiny  # a number is cast to the type of the network
    return Box(center, box.radius + own).widened(1, slack)


def _subtract(a: Any, b: Any, slack: Slack) -> Box:
    return _add(a, _negate(b, None) if isinstance(b, Box) else -b, slack)


def _scale(a: Any, b: Any, slack: Slack) -> Box:
    if isinstance(a, Box) and isinstance(b, Box):
        raise InputError("no bound is known for the product of two parts of the network.")
    box, factor = (a, b) if isinstance(a, Box) else (b, a)
    factor = torch.as_tensor(factor, dtype=box.center.dtype, device=box.center.device)
    return affine(box, 1, slack, lambda c: c * factor, lambda r: r * factor.abs())


def _divide(a: Any, b: Any, slack: Slack) -> Box:
    if isinstance(b, Box):
        raise InputError("no bound is known for a division by a part of the network.")
    return _scale(a, 1 / torch.as_tensor(b, dtype=a.center.dtype, device=a.center.device), slack)


def _mean(box: Box, *args: Any, slack: Slack, **kwargs: Any) -> Box:
    axes: Any = args[0] if args else kwargs.get("dim", kwargs.get("axis"))
    axes = (axes,) if isinstance(axes, int) else axes
    _demand_samples_apart("mean", not axes or any(axis % box.center.ndim == 0 for axis in axes))
    terms = math.prod(box.shape[axis] for axis in axes)
    return affine(box, terms, slack, lambda c: c.mean(*args, **kwargs), lambda r: r.mean(*args, **kwargs), whole=terms)


def _pad(box: Box, pad: Any, mode: str = "constant", value: float | None = None, *, slack: Slack) -> Box:
    if mode != "constant":
        raise InputError(f"F.pad must pad with a constant to have a bound, got mode {mode!r}.")
    _demand_samples_apart("F.pad", len(pad) > 2 * (box.center.ndim - 1))
    own = 0.0 if slack is None else slack.lost(1) * abs(value or 0.0)  # the number is cast
    return Box(F.pad(box.center, pad, value=value), F.pad(box.radius, pad, value=own))


def _item(box: Any, index: Any, slack: Slack) -> Any:
    if not isinstance(box, Box):  # one of the parts that chunk or split gave
        return box[index]
    first, *rest = index if isinstance(index, tuple) else (index,)
    left = first is Ellipsis and sum(part is not None for part in rest) < box.center.ndim
    _demand_samples_apart("an index", not (left or (isinstance(first, slice) and first == slice(None))))
    return Box(box.center[index], box.radius[index])


def _demand_samples_apart(what: str, mixed: bool) -> None:
    if mixed:  # then the answer for one input depends on what else is in the batch
        raise InputError(f"{what} over the samples of a batch has no bound. Leave the first axis alone.")


def _attribute(box: Box, name: str, slack: Slack) -> Any:
    if name not in (
        "shape",
        "ndim",
        "dtype",
        "device",
    ):  # others hold values and would be constants
        raise InputError(f"no bound is known for the attribute '{name}' of a part of the network.")
    return getattr(box.center, name)


def _dropout(box: Box, p: float = 0.5, training: bool = True, inplace: bool = False, *, slack: Slack) -> Box:
    if training:  # bounds are of the network at rest, where this one still drops
        raise InputError("a dropout that is on at rest has no bound. Write F.dropout(x, p, training=self.training).")
    return box


def _shape_only(name: str) -> Callable[..., Box]:
    return lambda box, *args, slack, **kwargs: _reshaped(lambda t: getattr(t, name)(*args, **kwargs), box)


def _as_layer(make: Callable[..., nn.Module]) -> Callable[..., Box]:
    """The rule of the layer that a call stands for."""

    def rule(input: Any, *args: Any, slack: Slack, **kwargs: Any) -> Box:  # torch's name, so that a call may use it
        if not isinstance(input, Box):
            raise InputError("no bound is known for a layer whose weight depends on the input.")
        layer = make(*args, **kwargs)
        return MODULE_RULES[type(layer)](layer, input, slack)

    return rule


def _activation(kind: type[nn.Module]) -> Rule:
    return lambda module, box, slack: activation_box(ACTIVATIONS[kind](module), box, slack)


def _negate(box: Box, slack: Slack) -> Box:
    return Box(-box.center, box.radius)


def _cat(tensors: Any, dim: int = 0, *, slack: Slack) -> Box:
    like = next(part.center for part in tensors if isinstance(part, Box))
    _demand_samples_apart("torch.cat", dim % like.ndim == 0)
    parts = [part if isinstance(part, Box) else Box(part, torch.zeros_like(part)) for part in tensors]
    return Box(torch.cat([part.center for part in parts], dim), torch.cat([part.radius for part in parts], dim))


def _parts(cut: Callable[..., Any]) -> Callable[..., list[Box]]:
    """Chunk or split: a list of boxes."""

    def rule(box: Box, *args: Any, slack: Slack, **kwargs: Any) -> list[Box]:
        axis = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        _demand_samples_apart(cut.__name__, axis % box.center.ndim == 0)
        sides = (cut(side, *args, **kwargs) for side in (box.center, box.radius))
        return [Box(*part) for part in zip(*sides, strict=True)]

    return rule


MODULE_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: lambda module, box, slack: linear(box, module.weight, module.bias, slack),
    nn.Conv1d: _conv,
    nn.Conv2d: _conv,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.LayerNorm: _layer_norm,
    **{kind: _activation(kind) for kind in ACTIVATIONS},
    nn.ReLU: lambda module, box, slack: relu(box, slack),
    nn.Flatten: lambda module, box, slack: _reshaped(module, box),
    nn.Identity: _identity,
    nn.Dropout: _identity,
    nn.Dropout1d: _identity,
    nn.Dropout2d: _identity,
    nn.AvgPool1d: _avg_pool,
    nn.AvgPool2d: _avg_pool,
    nn.AdaptiveAvgPool1d: _adaptive_avg_pool,
    nn.AdaptiveAvgPool2d: _adaptive_avg_pool,
    nn.MaxPool1d: _max_pool,
    nn.MaxPool2d: _max_pool,
}

AFFINE_LAYERS: set[type[nn.Module]] = {
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.Flatten,
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
}

METHOD_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("add", "add_"), _add), **dict.fromkeys(("sub", "sub_"), _subtract),
    **dict.fromkeys(("mul", "mul_"), _scale), **dict.fromkeys(("div", "div_"), _divide),
    **dict.fromkeys(("neg", "neg_"), _negate),
    "mean": _mean,
    "chunk": _parts(Tensor.chunk),
    "split": _parts(Tensor.split),
    "size": lambda box, *args, slack: box.center.size(*args),
    "dim": lambda box, slack: box.center.dim(),
    **{name: _as_layer(make) for name, make in LAYER_METHODS.items()},
    **{name: _shape_only(name) for name in ("flatten", "view", "reshape", "contiguous", "squeeze", "unsqueeze")},
}  # fmt: skip

FUNCTION_RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    **{call: _as_layer(make) for call, make in LAYER_CALLS.items()},
    **dict.fromkeys((operator.add, operator.iadd, torch.add), _add),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub), _subtract),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul), _scale),
    **dict.fromkeys((operator.truediv, operator.itruediv, torch.div), _divide),
    **dict.fromkeys((operator.neg, torch.neg, torch.negative), _negate),
    **dict.fromkeys((F.dropout, F.dropout1d, F.dropout2d), _dropout),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), _cat),
    torch.chunk: _parts(torch.chunk),
    torch.split: _parts(torch.split),
    torch.mean: _mean,
    F.pad: _pad,
    operator.getitem: _item,
    getattr: _attribute,
}
