r"""RankFeat: the energy of the model's logits without the strongest direction of its feature map.

$$ X' = X - \sigma_1 u_1 v_1^\top, \qquad s(x) = -\log \sum_k \exp f_k(X') $$

with X (channels x positions) the map of the sample at one layer and $\sigma_1, u_1, v_1$ its largest singular value and
vectors; f is the rest of the network. Outliers tend to owe their confidence to that direction. With several layers the
logits are averaged before the energy is taken, each with one layer changed, as the paper does with its last two blocks.
Song, Sebe and Wang, "RankFeat: Rank-1 Feature Removal for Out-of-distribution Detection", NeurIPS 2022,
arXiv:2209.08590.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from caveat._internal.checks import as_count, as_list, check_known, check_result
from caveat.errors import InputError
from caveat.nn._heads import demand_once, per_sample
from caveat.nn._modes import at_rest
from caveat.nn._walk import as_batches, inputs_of, logits_of, place_of

__all__ = ["RankFeat", "without_rank_one"]

_TINY = 1e-30


@final
@dataclass(eq=False)
class RankFeat:
    """Energy without the rank-one part of a feature map. The larger, the stranger.

    It runs the model, so it scores inputs, not ``Outputs``. The model is left unchanged.

    Parameters
    ----------
    model
        A classifier that returns logits (n, C).
    layer
        Name of the module whose output (n, channels, positions...) loses its strongest direction; ``"auto"`` takes the
        last module that gives images of more than one position. Several names average their logits: the paper takes
        the third and the fourth block of a ResNet.
    iterations
        Steps of the power iteration; the code of the authors takes 20. None asks for the exact decomposition, slower.
    device
        Device of the model, to which inputs are moved; default: that of its first parameter.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(4, 3))
    >>> images = torch.rand(5, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    >>> RankFeat(model, layer="1").score(images).shape
    (5,)
    """

    model: nn.Module
    layer: str | Sequence[str] = "auto"
    iterations: int | None = 20
    device: str | torch.device | None = None

    name: ClassVar[str] = "rankfeat"
    cost: ClassVar[str] = "a forward pass and 20 products with the map"
    paper: ClassVar[str] = "Song et al. 2022"

    def __post_init__(self) -> None:
        if self.iterations is not None:
            as_count(self.iterations, "iterations")
        if self.layer != "auto":
            names = [name for name, _ in self.model.named_modules() if name]
            for layer in self._layers():
                check_known(layer, names, "layer")

    def _layers(self) -> tuple[str, ...]:
        return tuple(as_list(self.layer, "layer"))

    def score(self, inputs: Tensor | NDArray[Any] | Iterable[Any]) -> NDArray[np.float64]:
        """Scores (n,) of inputs: a tensor or array (n, ...), or a loader of batches whose labels are ignored.

        Parameters
        ----------
        inputs
            A tensor or array (n, ...), or a loader of batches whose labels are ignored.

        Returns
        -------
        array of shape (n,)
            The larger, the stranger.
        """
        device, names, parts = place_of(self.model, self.device), self._layers(), []
        for batch in as_batches(inputs):
            x = inputs_of(batch).to(device)
            with at_rest(self.model), torch.no_grad():
                names = (last_map(self.model, x),) if names == ("auto",) else names
                logits = torch.stack([self._logits(x, name) for name in names]).mean(dim=0)
            parts.append(-torch.logsumexp(logits.double(), dim=1).cpu().numpy())
        return check_result(np.concatenate(as_list(parts, "inputs")), "the energy")

    def _logits(self, inputs: Tensor, name: str) -> Tensor:
        times = 0

        def replace(_: nn.Module, __: Any, output: Any) -> Tensor:
            nonlocal times
            times += 1
            must = f"layer {name!r} must give maps (n, channels, positions...)"
            per_sample(output, len(inputs), must, axes=3, most=None)
            return without_rank_one(output.flatten(2), self.iterations).reshape(output.shape)

        with self.model.get_submodule(name).register_forward_hook(replace):
            logits = logits_of(self.model, inputs)
        demand_once(f"layer {name!r}", times)
        return logits


def without_rank_one(maps: Tensor, iterations: int | None = 20) -> Tensor:
    """Matrices (n, rows, columns) less their best approximation of rank one; None iterations: exactly.

    The power iteration starts from one fixed vector for all, so that no sample depends on its batch.

    Examples
    --------
    >>> without_rank_one(torch.tensor([[[3.0, 0.0], [0.0, 1.0]]])).round(decimals=4).tolist()
    [[[0.0, 0.0], [0.0, 1.0]]]
    """
    if maps.dtype in (torch.float16, torch.bfloat16):  # too narrow for squares, and for the exact decomposition
        return without_rank_one(maps.float(), iterations).to(maps.dtype)
    if iterations is None:
        u, s, v = torch.linalg.svd(maps, full_matrices=False)
        return maps - s[:, :1, None] * u[:, :, :1] * v[:, :1]  # type: ignore[no-any-return]
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(maps.shape[2], 1, generator=generator, dtype=torch.float32).to(maps)
    scale = maps.abs().amax(dim=(1, 2), keepdim=True).clamp_min(_TINY)  # keeps squares of squares in range
    unit = maps / scale
    right = (start / start.norm()).expand(maps.shape[0], -1, -1)
    for _ in range(iterations):
        right = unit.transpose(1, 2) @ (unit @ right)
        right = right / right.norm(dim=1, keepdim=True).clamp_min(_TINY)
    return maps - (maps @ right) @ right.transpose(1, 2)  # type: ignore[no-any-return]


def last_map(model: nn.Module, inputs: Tensor) -> str:
    """Name of the last module, of those that run once, whose output is images of more than one position."""
    runs: dict[str, int] = {}

    def catcher(name: str) -> Any:
        def catch(_: nn.Module, __: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.ndim == 4 and output.shape[2] * output.shape[3] > 1:
                runs[name] = runs.pop(name, 0) + 1  # in the order of the last run

        return catch

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if name:
                hooks.enter_context(module.register_forward_hook(catcher(name)))
        model(inputs[:1].clone())
    for name, times in reversed(runs.items()):
        if times == 1:
            return name
    raise InputError("no module that runs once gives images of more than one position. Pass layer=<name>.")
