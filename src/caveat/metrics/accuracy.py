"""Accuracy of a model, with a warning where it is so low that the labels are more likely wrong than the model."""

from __future__ import annotations

import warnings

from caveat.errors import CaveatWarning
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results import Estimate, proportion_interval

__all__ = ["accuracy"]

_BELOW_CHANCE = 0.002  # two-sided level of the test: a model that guesses is warned about in one of 1,000 sets


def accuracy(outputs: Outputs, *, delta: float = 0.05, name: str = "outputs") -> Estimate:
    """Share of right predictions with its exact binomial interval. Higher is better.

    Warns where it is below 1/C beyond chance: labels that start at 1, or that follow another order of classes, look
    like that. ``name`` is what the warning calls the set.

    Examples
    --------
    >>> print(accuracy(Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1])))
    0.667 [0.094, 0.992] (95 % Clopper-Pearson, n = 3)
    """
    demand(outputs, "predictions", "labels", who="accuracy")
    right, chance = int(outputs.correct.sum()), 1 / int(outputs.n_classes or 1)
    if proportion_interval(right, outputs.n, delta=_BELOW_CHANCE).upper < chance:
        warnings.warn(f"the accuracy on {name} is {right / outputs.n:.1%}, below the {chance:.1%} of guessing. Do "
                      "labels start at 1, or in another order of classes?", CaveatWarning, stacklevel=2)  # fmt: skip
    return proportion_interval(right, outputs.n, delta=delta)
