"""Attack the confidence of a classifier: the worst of many tries for each sample.

The objective is the log-confidence, because confidence itself saturates at 1 in float32 and has no slope there. Values
are computed again in float64 at points that lie exactly inside the ball, so that each of them is at or below its
certificate. An attack only ever gives a lower bound of what is possible: a weak attack flatters a model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from caveat._internal.checks import Rng, as_count, as_number, as_rng, check_known
from caveat.errors import InputError
from caveat.nn._progress import tracked
from caveat.nn._walk import place_of, to_numpy
from caveat.nn.float64 import in_float64
from caveat_lab.attacks.ascent import RANDOM, Ball, Objective, apgd, climber, each_row, make_start, monotone
from caveat_lab.bounds.confidence import log_confidence
from caveat_lab.bounds.passes import checked_inputs

__all__ = ["OPTIMIZERS", "Attacked", "attack_confidence"]

OPTIMIZERS = {"apgd": apgd, "monotone": monotone}
Measure = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True, eq=False)
class Attacked:
    """What an attack reached.

    Parameters
    ----------
    points
        The worst point of each sample (n, ...), float64, inside ball and range.
    log_confidence
        The objective there (n,), float64. With a clean value counted, so never better for the defender than ``clean``.
    clean
        The objective at the unchanged inputs (n,).
    zero_gradient_share
        Share of samples whose gradient is exactly zero at the input: there a plain gradient attack cannot even begin.
    zero_gradients
        The same share at each start.
    per_attack
        The objective that each attack reached alone (n,), by name such as ``"apgd from contrast"``. ``"transfer 0"`` is
        the objective at the points that the first other model was attacked with, before this model is climbed from
        them.
    epsilon, direction
        As passed to ``attack_confidence``.
    gate
        Of a gated classifier the effective gate (n,) at the worst points, in whose terms it was attacked; else None.
    toward_candidates
        Whether an attack began at ``toward_id``, the strongest start against networks that are flat around outliers.

    Examples
    --------
    >>> attacked = attack_confidence(nn.Linear(2, 2), torch.full((3, 2), 0.5), 0.1, rng=0, steps=5)
    >>> attacked.points.shape, attacked.log_confidence.shape
    ((3, 2), (3,))
    """

    points: NDArray[np.float64]
    log_confidence: NDArray[np.float64]
    clean: NDArray[np.float64]
    zero_gradient_share: float
    zero_gradients: Mapping[str, float]
    per_attack: Mapping[str, NDArray[np.float64]]
    epsilon: float
    direction: str
    gate: NDArray[np.float64] | None = None
    toward_candidates: bool = True

    @property
    def n(self) -> int:
        return int(self.log_confidence.size)

    @property
    def caveat(self) -> str:
        """What makes the attack weak, in sentences: most gradients are zero, no start led to candidates. Else empty."""
        least, sentences = min(self.zero_gradients.values(), default=0.0), []
        if least > 0.5:
            sentences.append(
                f"At least {100 * least:.0f} % of the gradients are zero at every start: the attack is "
                "masked, and a stronger one may reach more."
            )
        if not self.toward_candidates:
            sentences.append(
                "No attack began at 'toward_id', which is often much stronger: pass candidates, inputs of "
                "the other side."
            )
        return " ".join(sentences)

    def __str__(self) -> str:
        moved = float(np.mean(np.abs(self.log_confidence - self.clean)))
        text = (
            f"{self.n} samples attacked within {self.epsilon:g} by {len(self.per_attack)} attacks ({self.direction}): "
            f"mean change of log-confidence {moved:.3f}, zero gradients {100 * self.zero_gradient_share:.0f} %"
        )
        return text + (f". {self.caveat}" if self.caveat else "")


def attack_confidence(
    model: nn.Module,
    x: ArrayLike | Tensor,
    epsilon: float,
    *,
    rng: Rng,
    objective: str | Measure = "log_confidence",
    direction: Literal["raise", "lower"] = "raise",
    clip: tuple[float, float] | None = (0.0, 1.0),
    optimizers: Sequence[str] = ("apgd", "monotone"),
    starts: Sequence[str] | None = None,
    candidates: ArrayLike | Tensor | None = None,
    tries: int = 64,
    steps: int = 100,
    monotone_steps: int | None = None,
    restarts: int = 1,
    transfer: Sequence[nn.Module | ArrayLike | Tensor] = (),
    batch_size: int = 512,
    progress: bool | None = None,
) -> Attacked:
    """The worst log-confidence that several attacks reach within epsilon of each input.

    Everything runs where the model is (its first parameter).

    Parameters
    ----------
    model
        A classifier that returns logits (or log-probabilities). It is left as it is and attacked at rest. A gated one,
        with a method ``effective_gate``, is attacked through that: its confidence rounds to 1/K and has no slope.
    x
        Inputs (n, ...), inside ``clip``.
    epsilon
        The radius.
    rng
        Draws random starts and candidates; the same seed gives the same attack.
    objective
        ``"log_confidence"``, or a callable that maps what the model returns to one number per sample (n,).
    direction
        ``"raise"`` for outliers, ``"lower"`` for inliers.
    clip
        Range of inputs, or None.
    optimizers
        ``"apgd"`` and ``"monotone"``, each from every start.
    starts
        Names of ``attacks.STARTS``, and ``"toward_id"``. Default: point, small, contrast, and toward_id if there are
        candidates.
    candidates
        Inputs of the other side (m, ...): training images when confidence is raised. Without them the attack is often
        much weaker, which ``Attacked.caveat`` says.
    tries
        How many candidates each sample tries.
    steps
        Steps of APGD. The paper takes 500, with 5 restarts.
    monotone_steps
        Steps of monotone PGD; default: twice as many as APGD. The paper takes 200.
    restarts
        How often random starts are drawn anew.
    transfer
        Other models, or points (n, ...) that an attack on another model reached (``Attacked.points``). A model is
        attacked in the same way first. Monotone PGD on this model then starts from each of these sets of points.
        Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix A.
    batch_size
        Samples in one pass.
    progress
        Show a bar on standard error; default: if that is a terminal.

    Returns
    -------
    Attacked
        ``log_confidence`` (n,) of the worst points, ``clean`` of the inputs, ``per_attack`` of each attack alone.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> attacked = attack_confidence(model, torch.full((2, 4), 0.5), 0.2, rng=0, steps=20)
    >>> bool((attacked.log_confidence > attacked.clean).all()), sorted(attacked.per_attack)[0]
    (True, 'apgd from contrast')
    """
    check_known(direction, ("raise", "lower"), "direction")
    as_number(epsilon, "epsilon", least=0)
    if not callable(objective):
        check_known(objective, ("log_confidence",), "objective")
    measure = objective if callable(objective) else log_confidence
    sign, rng = 1.0 if direction == "raise" else -1.0, as_rng(rng)
    inputs = checked_inputs(x, clip)
    others = None if candidates is None else _inputs_like(candidates, inputs, clip, "candidates", rows=False)
    if starts is None:
        starts = ("point", "small", "contrast") + (() if others is None else ("toward_id",))
    for name in optimizers:
        check_known(name, OPTIMIZERS, "optimizer")
    for name, count in (("restarts", restarts), ("tries", tries), ("steps", steps), ("batch_size", batch_size)):
        as_count(count, name)
    budget = {"apgd": steps, "monotone": as_count(2 * steps if monotone_steps is None else monotone_steps,
                                                  "monotone_steps")}  # fmt: skip
    if not (starts and optimizers) and not transfer:
        raise InputError("optimizers and starts must each name at least one where transfer is empty, got none.")

    runner = _Runner(model, measure, sign, Ball(inputs, float(epsilon), clip), batch_size)
    reached, zero = dict[str, Tensor](), dict[str, float]()
    for start in tracked(starts, "attacking", progress):
        first = runner.starts(start, rng, others, tries, restarts if start in RANDOM else 1)
        value, moving = runner.look(first)
        zero[start] = 1 - float(moving[: len(inputs)].double().mean())
        for name in optimizers:
            reached[f"{name} from {start}"] = runner.run(name, first, value, moving, budget[name])
    for i, other in enumerate(transfer):
        points: Any = other
        if isinstance(other, nn.Module):
            points = attack_confidence(
                other, inputs, epsilon, rng=rng, objective=objective, direction=direction, clip=clip,
                optimizers=optimizers, starts=starts, candidates=others, tries=tries, steps=steps,
                monotone_steps=budget["monotone"], restarts=restarts, batch_size=batch_size, progress=progress,
            ).points  # fmt: skip
        first = runner.inside(_inputs_like(points, inputs, clip, f"transfer {i}", rows=True))
        reached[f"transfer {i}"] = first
        reached[f"monotone from transfer {i}"] = runner.run("monotone", first, *runner.look(first), budget["monotone"])
    if (zero_share := zero.get("point")) is None:
        zero_share = 1 - float(runner.look(runner.ball.x)[1].double().mean())
    net = in_float64(model)
    ball = Ball(inputs.to(place_of(net, None)), float(epsilon), clip)
    worst = _worst(net, measure, ball, reached, sign, batch_size)
    return Attacked(
        **worst, zero_gradient_share=zero_share, zero_gradients=zero, epsilon=float(epsilon), direction=direction,
        toward_candidates="toward_id" in starts or not starts,
    )  # fmt: skip


def _input_type(net: nn.Module) -> torch.dtype:
    """Precision of the layers. Densities that gate a network (CCU) are float64 parameters whatever its layers are."""
    types = [parameter.dtype for parameter in net.parameters() if parameter.is_floating_point()] or [torch.float32]
    return next((kind for kind in types if kind != torch.float64), types[0])


@final
class _Runner:
    """One model under attack, in its own precision and where it is, over batches of rows."""

    def __init__(self, model: nn.Module, measure: Measure, sign: float, ball: Ball, batch_size: int) -> None:
        net = copy.deepcopy(model).eval().requires_grad_(False)
        self.objective = _climbed(net, measure, sign)
        self.climb = climber(self.objective)
        self.ball = Ball(ball.x.to(place_of(net, None), _input_type(net)), ball.epsilon, ball.clip)
        self.batch_size = batch_size

    def inside(self, points: Tensor) -> Tensor:
        """Points as this model takes them, inside its ball."""
        return self.ball.project(points.to(self.ball.x))

    def starts(self, name: str, rng: np.random.Generator, others: Tensor | None, tries: int, copies: int) -> Tensor:
        """Starts (copies * n, ...), one copy of the batch after the other."""
        others = None if others is None else others.to(self.ball.x)
        points = [
            make_start(name, self.ball, self.objective, rng, candidates=others, tries=tries, batch_size=self.batch_size)
            for _ in range(copies)
        ]
        return torch.cat(points)

    def look(self, start: Tensor) -> tuple[Tensor, Tensor]:
        """Values at the start, and which samples have a slope there at all."""
        values, gradients = zip(*map(self.climb, torch.split(start, self.batch_size)), strict=True)
        slope = torch.cat([gradient.flatten(1).abs().amax(dim=1) for gradient in gradients])
        return torch.cat(values), slope > 0

    def run(self, optimizer: str, start: Tensor, value: Tensor, moving: Tensor, steps: int) -> Tensor:
        """The best point (n, ...) that the optimizer reaches from any copy of the start; rows without slope stay."""
        n, points, values = self.ball.x.shape[0], start.clone(), value.clone()
        for rows in torch.split(moving.nonzero()[:, 0], self.batch_size):
            if rows.numel():
                part = self.ball.rows(rows % n)
                points[rows], values[rows] = OPTIMIZERS[optimizer](self.climb, start[rows], part, steps=steps)
        which = values.reshape(-1, n).argmax(dim=0)
        return points.reshape(-1, *self.ball.x.shape)[which, torch.arange(n, device=which.device)]


def _worst(
    net: nn.Module, measure: Measure, ball: Ball, reached: Mapping[str, Tensor], sign: float, batch_size: int
) -> dict[str, Any]:
    """Every point evaluated in float64, and for each sample the worst, the clean point included."""

    def value(objective: Objective, points: Tensor) -> Tensor:
        with torch.no_grad():
            values = torch.cat([objective(part) for part in torch.split(points, batch_size)])
        if bool(torch.isnan(values).any()):
            raise InputError("the model gives NaN. Look for huge or NaN weights.")
        return values

    climbed, requested = _climbed(net, measure, sign), _requested(net, measure, sign)
    gated = _gated(net, measure)
    clean = best = value(climbed, ball.x)
    plain = value(requested, ball.x) if gated else clean
    points, per_attack = ball.x, {}
    for name, ends in reached.items():
        end = ball.project(ends.to(ball.x))
        height = value(climbed, end)
        up = height > best
        points, best = torch.where(each_row(up, end), end, points), torch.where(up, height, best)
        per_attack[name] = to_numpy(sign * torch.maximum(value(requested, end) if gated else height, plain))
    worst = torch.maximum(value(requested, points), plain) if gated else best
    return {
        "points": to_numpy(points), "log_confidence": to_numpy(sign * worst), "clean": to_numpy(sign * plain),
        "per_attack": per_attack, "gate": to_numpy(sign * best) if gated else None,
    }  # fmt: skip


def _inputs_like(
    value: ArrayLike | Tensor, inputs: Tensor, clip: tuple[float, float] | None, name: str, *, rows: bool
) -> Tensor:
    """Further inputs of the shape of x, where ``rows`` one for each."""
    more = checked_inputs(value, clip)
    skip = 0 if rows else 1
    if more.shape[skip:] != inputs.shape[skip:]:
        raise InputError(f"{name} must be inputs of the shape of x {tuple(inputs.shape[skip:])}, "
                         f"got {tuple(more.shape[skip:])}.")  # fmt: skip
    return more


def _gated(net: nn.Module, measure: Measure) -> bool:
    return measure is log_confidence and hasattr(net, "effective_gate")


def _requested(net: nn.Module, measure: Measure, sign: float) -> Objective:
    return lambda z: sign * measure(net(z.clone()))  # the model may write into its input


def _climbed(net: nn.Module, measure: Measure, sign: float) -> Objective:
    """The objective that is climbed: the requested one, or one that rises with it and does not saturate."""
    gate: Any = getattr(net, "effective_gate", None)
    return (lambda z: sign * gate(z.clone())) if _gated(net, measure) else _requested(net, measure, sign)
