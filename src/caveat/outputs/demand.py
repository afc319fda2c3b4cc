"""Which fields a score or a metric needs of outputs, and how to get the first that is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from caveat._internal.checks import as_kind
from caveat.errors import InputError

if TYPE_CHECKING:
    from caveat.outputs.outputs import Outputs

__all__ = ["demand"]

_HOW_TO_GET = {
    "logits": "Store logits (n, C), or features with head_weight and head_bias.",
    "probs": "Store logits (n, C), or probs if the model gives only probabilities.",
    "predictions": "Store logits (n, C), or probs if the model gives only probabilities, or the predicted classes.",
    "correct": "Store labels with the logits, or with the predictions.",
    "features": "Store the input of the last linear layer, shape (n, D); nn.extract does.",
    "labels": "Store the true classes, shape (n,).",
    "head": "Store head_weight (C, D) and head_bias (C,) of the last linear layer.",
    "mc_logits": "Store logits of T stochastic passes, shape (T, n, C); nn.extract(..., mc=T) does.",
    "confidence": "Store the confidence that the model gives, shape (n,), larger is surer.",
    "ease_probs": "Store probabilities (L, n, C) of transformed copies; nn.extract(..., transforms=[...]) does. Where "
    "there are no inputs to transform, use logit_noise_ease.",
    "layers": "Store activations of inner layers; nn.extract(..., layers=[...]) does.",
}


def demand(outputs: Any, *fields: str, who: str, name: str = "outputs", verb: str = "needs") -> Outputs:
    """``outputs`` if they are ``Outputs`` with all these fields; else an InputError that says how to get the first."""
    if not hasattr(outputs, "has") or not hasattr(outputs, "blocks"):  # a stream of nn has both
        if hasattr(outputs, "shape"):
            raise InputError(f"{name} must be caveat.Outputs, got an array of shape {tuple(outputs.shape)}. Wrap it: "
                             "Outputs(logits=array, labels=...).")  # fmt: skip
        if isinstance(outputs, (str, os.PathLike)):
            raise InputError(
                f"{name} must be caveat.Outputs, got a path. Read it: Outputs.load({os.fspath(outputs)!r})."
            )
        as_kind(outputs, (), name, what="caveat.Outputs", hint="Wrap arrays: Outputs(logits=..., labels=...).")
    for field in fields:
        if not outputs.has(field):
            hint = " The score 'confidence' reads the confidence that is there." if _confidence_alone(outputs) else ""
            raise InputError(f"{who} {verb} {name}.{field}, which is None. {_HOW_TO_GET[field]}{hint}")
    checked: Outputs = outputs
    return checked


def _confidence_alone(outputs: Any) -> bool:
    return bool(outputs.has("confidence") and not outputs.has("probs"))
