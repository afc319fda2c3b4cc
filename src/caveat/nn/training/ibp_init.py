r"""Starting weights with which interval bounds neither explode nor vanish.

$$ W_{ij} \sim N(0, \sigma^2), \qquad \sigma = \sqrt{2 \pi} / n_{in} $$

For a layer whose inputs have radius r, the radius of the output is |W| r with |W| on average $\sigma \sqrt{2/\pi}$:
$n_{in} \sigma \sqrt{2 / \pi} = 2$, and ReLU keeps half of it, so that the radius stays the same from layer to layer.
The usual starts let it grow like the square root of the width. Shi, Wang, Zhang, Yi and Hsieh, "Fast Certified Robust
Training with Short Warmup", NeurIPS 2021, section 4.1.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from caveat.errors import InputError

__all__ = ["interval_init_"]


def interval_init_(model: nn.Module, *, last: bool = True, generator: torch.Generator | None = None) -> nn.Module:
    """Draw the weights of every linear and convolutional layer anew, biases zero; returns the model.

    ``last=False`` leaves the last such layer as it is. The default generator is torch's own.

    >>> layer = interval_init_(nn.Sequential(nn.Linear(400, 300)), generator=torch.Generator().manual_seed(0))[0]
    >>> round(layer.weight.std().item() * 400 / math.sqrt(2 * math.pi), 2)
    1.0
    """
    layers = [module for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    if not layers:
        raise InputError("the model must have a linear or convolutional layer, got none.")
    with torch.no_grad():
        for layer in layers if last else layers[:-1]:
            fan_in = layer.weight[0].numel()
            layer.weight.normal_(0, math.sqrt(2 * math.pi) / fan_in, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
    return model
