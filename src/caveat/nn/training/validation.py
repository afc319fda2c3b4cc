"""How a network does on rows it was not trained on."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from caveat._internal import ranking
from caveat.errors import CaveatWarning
from caveat.nn._modes import at_rest
from caveat.nn.training.paradigm import Paradigm
from caveat.nn.training.rows import Rows

__all__ = ["validate", "warn_of_collapse"]

_BATCH = 256


def validate(net: nn.Module, paradigm: Paradigm, rows: Rows, device: torch.device) -> dict[str, float]:
    """Cross-entropy, accuracy, mean largest probability, and AUGRC of the network's own confidence where it has one.

    The network is in eval mode meanwhile and left in its modes.
    """
    losses, right, tops, surest = [], [], [], []
    with at_rest(net), torch.inference_mode():
        for inputs, labels in rows.batches(_BATCH):
            assert labels is not None
            x, y = inputs.to(device), labels.to(device)
            logits = net(x.clone()).double()  # the model may write into what it is given, and is asked twice
            losses.append(F.cross_entropy(logits, y, reduction="none"))
            right.append(logits.argmax(dim=1) == y)
            tops.append(logits.softmax(dim=1).amax(dim=1))
            own = paradigm.confidence(net, x)
            surest.append(tops[-1] if own is None else own.double())
    strange = -torch.cat(surest).cpu().numpy()
    correct = torch.cat(right).cpu().numpy().astype(np.bool_)
    return {
        "loss": float(torch.cat(losses).mean()),
        "accuracy": float(correct.mean()),
        "confidence": float(torch.cat(tops).mean()),
        "augrc": ranking.augrc(strange, correct),
    }


def warn_of_collapse(found: dict[str, float], labels: torch.Tensor, where: str) -> None:
    """Say so when the network learned nothing, or answers everything with the same shrug."""
    n = len(labels)
    chance = float(torch.bincount(labels).max()) / n
    margin = 2 * (chance * (1 - chance) / n) ** 0.5
    if found["accuracy"] <= min(chance + margin, 1 - 1e-9):  # one class, always right: nothing to say
        warnings.warn(
            f"training collapsed: accuracy {found['accuracy']:.3f} on {where} is no better than always naming the most "
            f"frequent class ({chance:.3f}). Lower learning_rate, or the weight of the outliers' loss.",
            CaveatWarning,
            stacklevel=3,
        )
    elif found["confidence"] < 0.5:
        warnings.warn(
            f"training collapsed towards uniform answers: mean confidence {found['confidence']:.3f} on {where} is "
            "below 0.5. Train longer, or lower the weight of the outliers' loss.",
            CaveatWarning,
            stacklevel=3,
        )
