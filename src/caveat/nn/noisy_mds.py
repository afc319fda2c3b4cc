r"""Mahalanobis distances at several layers after a small step of the input, as in the paper of the ensemble.

$$ \tilde x_l = x - \varepsilon \operatorname{sign}\big(\nabla_x\, d_l(x)\big), \qquad
   s(x) = \sum_l w_l \, \frac{d_l(\tilde x_l) - m_l}{q_l} $$

with $d_l$, $m_l$, $q_l$ and $w_l$ of :class:`caveat.scores.MDSEnsemble`. Each layer has a step of its own, which brings
the sample nearer to its nearest class; it does so more for samples of the training distribution.

Lee, Lee, Lee and Shin, "A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks",
NeurIPS 2018, algorithm 1, arXiv:1807.03888.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from caveat._internal.checks import as_kind, as_list, check_known, check_result
from caveat._internal.params import check_params, number
from caveat.errors import InputError, NotFittedError
from caveat.nn._heads import demand_once, per_sample
from caveat.nn._modes import at_rest
from caveat.nn._walk import as_batches, inputs_of, place_of
from caveat.scores.mds_ensemble import MDSEnsemble

__all__ = ["NoisyMDSEnsemble"]


@final
@dataclass(eq=False)
class NoisyMDSEnsemble:
    """A fitted ``MDSEnsemble`` with the input noise of its paper. The larger, the stranger.

    It runs the model, so it scores inputs, not ``Outputs``. The model is left unchanged. Channels of the layers must be
    axis 1, as those of convolutions are.

    Parameters
    ----------
    model
        The network whose layers the ensemble was fitted on.
    ensemble
        A fitted ``MDSEnsemble``; its layers are names of modules of the model. Weights that it learned by
        ``fit_weights`` are used.
    noise
        Length of the step in every input value, in the units of the model's input; the paper chooses among 0, 0.0005,
        0.001, 0.0014, 0.002, 0.0024, 0.005, 0.01, 0.05, 0.1 and 0.2 on validation data. 0 takes no step.
    device
        Device of the model, to which inputs are moved; default: that of its first parameter.

    Examples
    --------
    >>> from caveat.nn import extract
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    >>> images = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> train = extract(model, [(images, torch.arange(60) % 2)], layers=["0"])
    >>> NoisyMDSEnsemble(model, MDSEnsemble().fit(train)).score(images[:5]).shape
    (5,)
    """

    model: nn.Module
    ensemble: MDSEnsemble
    noise: float = number(0.0014, least=0)
    device: str | torch.device | None = None

    def __post_init__(self) -> None:
        check_params(self)
        as_kind(self.ensemble, MDSEnsemble, "ensemble", what="an MDSEnsemble")
        if not hasattr(self.ensemble, "fitted_"):
            raise NotFittedError("the ensemble has not seen training data. Call MDSEnsemble().fit(train) first.")
        names = [name for name, _ in self.model.named_modules() if name]
        for layer in self.ensemble.layers_.tolist():
            check_known(layer, names, "layer")

    def score(self, inputs: Tensor | NDArray[Any] | Iterable[Any]) -> NDArray[np.float64]:
        """Scores (n,) of inputs.

        Parameters
        ----------
        inputs
            A tensor or array (n, ...), or a loader of batches whose labels are ignored.

        Returns
        -------
        array of shape (n,)
            The larger, the stranger.
        """
        fitted = self.ensemble
        distances = self.layer_distances(inputs)
        return check_result((distances - fitted.shift_) / fitted.spread_ @ fitted.weights_, "the score")

    def layer_distances(self, inputs: Tensor | NDArray[Any] | Iterable[Any]) -> NDArray[np.float64]:
        """Squared Mahalanobis distance to the nearest class at each layer, after the step of that layer.

        Parameters
        ----------
        inputs
            As for ``score``.

        Returns
        -------
        array of shape (n, layers)
            The distances.
        """
        device, parts = place_of(self.model, self.device), []
        for batch in as_batches(inputs):
            x = inputs_of(batch).to(device)
            if not x.is_floating_point():
                raise InputError(f"NoisyMDSEnsemble needs inputs that have a gradient, got {x.dtype}.")
            columns = []
            for i in range(self.ensemble.layers_.size):
                moved = self._step(x, i)
                with at_rest(self.model), torch.no_grad():
                    columns.append(self._distances(moved, i).double().cpu().numpy())
            parts.append(np.stack(columns, axis=1))
        return check_result(np.concatenate(as_list(parts, "inputs")), "a distance")

    def _step(self, inputs: Tensor, layer: int) -> Tensor:
        if self.noise == 0:
            return inputs
        with at_rest(self.model), torch.inference_mode(False), torch.enable_grad():
            moving = inputs.detach().clone().requires_grad_(True)
            (gradient,) = torch.autograd.grad(self._distances(moving, layer).sum(), moving)
        return inputs - self.noise * gradient.sign()

    def _distances(self, inputs: Tensor, layer: int) -> Tensor:
        """Squared distance (n,) to the nearest class mean at one layer."""
        fitted, name, caught = self.ensemble, str(self.ensemble.layers_[layer]), []
        hook = self.model.get_submodule(name).register_forward_hook(lambda _, __, output: caught.append(output))
        with hook:
            self.model(inputs.clone())
        demand_once(f"layer {name!r}", len(caught))
        maps = per_sample(caught[0], len(inputs), f"layer {name!r} must give (n, channels, positions...)", most=None)
        width, before = int(fitted.channels_[layer]), fitted.channels_[:layer]
        if maps.shape[1] != width:
            raise InputError(f"layer {name!r} must have {width} channels on axis 1, got {maps.shape[1]}.")
        start, corner = int(before.sum()), int((before**2).sum())
        span, square = slice(start, start + width), slice(corner, corner + width**2)
        rows = maps if maps.ndim == 2 else maps.flatten(2).mean(dim=2)
        center, white, means = (
            torch.from_numpy(np.ascontiguousarray(part)).to(rows)
            for part in (fitted.centres_[span], fitted.whiteners_[square].reshape(width, width), fitted.means_[:, span])
        )
        near = (rows - center) @ white
        chosen = torch.cdist(near.detach(), means).argmin(dim=1)
        return (near - means[chosen]).square().sum(dim=1)
