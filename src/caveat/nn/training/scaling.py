r"""Published learning rates for summed losses, told for mean losses.

The GOOD and ProoD code minimises the **sum** of the loss over a batch of B samples, everything here its mean. With the
gradient of the mean g, the sum's is B g. For gradient descent with momentum and l2 weight decay,

$$ w \leftarrow w - \eta_{sum} (B g + \lambda_{sum} w) = w - (B \eta_{sum}) (g + \tfrac{\lambda_{sum}}{B} w), $$

so the rate is multiplied by B and the decay divided by it: "0.005/128 with decay 0.05" is 0.005 with 0.00039. Adam
divides by the size of the gradient, so its rate stays; the decay, which Adam adds to the gradient, is still divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from caveat._internal.checks import as_count, as_number, as_positive, check_known

__all__ = ["Rates", "mean_scale"]


@final
@dataclass(frozen=True)
class Rates:
    """Learning rate and weight decay of a loss that is a mean over the batch."""

    learning_rate: float
    weight_decay: float


def mean_scale(learning_rate: float, weight_decay: float, *, batch_size: int, optimiser: str = "sgd") -> Rates:
    """Rates for a mean loss that take the same steps as these do for the loss summed over ``batch_size`` samples.

    Exact for ``"sgd"`` (with momentum, Nesterov or not). Exact for ``"adam"`` up to its additive constant of 1e-8.

    Examples
    --------
    >>> mean_scale(0.005 / 128, 0.05, batch_size=128)
    Rates(learning_rate=0.005, weight_decay=0.000390625)
    >>> mean_scale(1e-4, 0.005, batch_size=128, optimiser="adam")
    Rates(learning_rate=0.0001, weight_decay=3.90625e-05)
    """
    rate = as_positive(learning_rate, "learning_rate")
    decay = as_number(weight_decay, "weight_decay", least=0)
    size = as_count(batch_size, "batch_size")
    check_known(optimiser, ("adam", "sgd"), "optimiser")
    return Rates(rate * size if optimiser == "sgd" else rate, decay / size)
