r"""ODIN: the softmax at a high temperature, after a small step that raises the confidence of the model.

$$ \tilde x = x - \varepsilon \operatorname{sign}\big(\nabla_x\, \mathrm{CE}(f(x)/T, \hat y)\big), \qquad
   s(x) = -\max_k \operatorname{softmax}_k(f(\tilde x) / T) $$

The step raises the probability of the predicted class; it does so more for samples of the training distribution.
Liang, Li and Srikant, "Enhancing The Reliability of Out-of-distribution Image Detection in Neural Networks", ICLR 2018,
eqs. (1) and (2), arXiv:1706.02690.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import Tensor, nn

from caveat._internal.checks import as_list, check_result
from caveat._internal.params import check_params, number, positive
from caveat.errors import InputError
from caveat.nn._modes import at_rest
from caveat.nn._walk import as_batches, inputs_of, logits_of, place_of

__all__ = ["ODIN"]


@final
@dataclass(eq=False)
class ODIN:
    """Minus the largest probability at temperature T after a step against the gradient. The larger, the stranger.

    It runs the model, so it scores inputs, not ``Outputs``. The model is left unchanged.

    Parameters
    ----------
    model
        A classifier that returns logits (n, C).
    temperature
        T; the paper uses 1000.
    noise
        Length of the step in every input value, in the units of the model's input; the paper uses 0.0014 on pixels from
        0 to 1. For inputs divided by a standard deviation divide the noise by it. 0 takes no step.
    device
        Device of the model, to which inputs are moved; default: that of its first parameter.

    Examples
    --------
    >>> model = nn.Linear(2, 2, bias=False)
    >>> with torch.no_grad():
    ...     _ = model.weight.copy_(torch.eye(2))
    >>> ODIN(model, temperature=1.0, noise=0.5).score(torch.tensor([[1.0, 0.0]])).round(3)  # 1 / (1 + exp(-2))
    array([-0.881])
    """

    model: nn.Module
    temperature: float = positive(1000.0)
    noise: float = number(0.0014, least=0)
    device: str | torch.device | None = None

    name: ClassVar[str] = "odin"
    cost: ClassVar[str] = "two forward passes and a backward pass"
    paper: ClassVar[str] = "Liang et al. 2018"

    def __post_init__(self) -> None:
        check_params(self)

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
        return np.asarray(-np.exp(-self.class_scores(inputs).min(axis=1)))

    def class_scores(self, inputs: Tensor | NDArray[Any] | Iterable[Any]) -> NDArray[np.float64]:
        """Minus the log-probability of each class after the step, shape (n, C).

        "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction with Illustrations of Its
        Benefits", appendix C.2.

        Parameters
        ----------
        inputs
            As for ``score``.

        Returns
        -------
        array of shape (n, C)
            The larger, the stranger.
        """
        device, parts = place_of(self.model, self.device), []
        for batch in as_batches(inputs):
            moved = self.step(inputs_of(batch).to(device))
            with at_rest(self.model), torch.no_grad():
                # In float64: at T = 1000 the probabilities differ in their sixth digit.
                logits = logits_of(self.model, moved).double().cpu().numpy()
            parts.append(-log_softmax(logits / self.temperature, axis=1))
        return check_result(np.concatenate(as_list(parts, "inputs")), "a log-probability of the model")

    def step(self, inputs: Tensor) -> Tensor:
        """The inputs after the step. Where the gradient is zero, nothing moves.

        Parameters
        ----------
        inputs
            A batch (n, ...).

        Returns
        -------
        Tensor
            Of the same shape.
        """
        if not inputs.is_floating_point():
            raise InputError(f"ODIN needs inputs that have a gradient, got {inputs.dtype}. Pass embeddings instead.")
        if self.noise == 0:
            return inputs
        with at_rest(self.model), torch.inference_mode(False), torch.enable_grad():
            moving = inputs.detach().clone().requires_grad_(True)
            logits = logits_of(self.model, moving) / self.temperature
            loss = nn.functional.cross_entropy(logits, logits.argmax(dim=1), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, moving)
        return inputs - self.noise * gradient.sign()
