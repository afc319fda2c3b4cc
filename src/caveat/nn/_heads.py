"""The last linear layer of a model: by name, or as the one whose output is the model's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from caveat.errors import CaveatWarning, InputError

__all__ = ["OTHER_LOGITS", "name_of_head", "named_linear", "warn_of_another_answer"]

OTHER_LOGITS = (
    "The layer's logits are stored, so scores and sets are about them, not about the model's own answer. If the model "
    "scales its logits, scale the weight and bias of the layer instead; then both agree."
)


def named_linear(model: nn.Module, name: str) -> nn.Linear:
    """The linear layer of this name, or an error with the candidates."""
    found = dict(model.named_modules(remove_duplicate=False)).get(name)
    if isinstance(found, nn.Linear):
        return found
    candidates = ", ".join(repr(n) for n, module in model.named_modules() if isinstance(module, nn.Linear))
    what = "there is no such module" if found is None else f"it is {type(found).__name__}"
    raise InputError(f"head '{name}' must name an nn.Linear, but {what}; candidates: {candidates or 'none'}.")


def name_of_head(said: Any, ran: Mapping[str, tuple[Tensor, Tensor]]) -> str:
    """Name of the linear layer that gave the model's answer.

    Parameters
    ----------
    said
        What the model returned: a tensor, or tuples or mappings with the answer inside (under "logits", if there).
    ran
        Input and output of each linear layer as they were then, in the order in which they ran.
    """
    found: dict[str, None] = {}
    for answer in _tensors(said):
        for name, (_, output) in reversed(list(ran.items())):
            if _same(output, answer):
                found[name] = None
                break
    # A model may return its features beside its logits: what is the input of another answer's layer is not the answer.
    last = [name for name in found if not any(_same(ran[name][1], ran[other][0]) for other in found if other != name)]
    if len(last) == 1:
        return last[0]
    candidates = ", ".join(map(repr, last or ran)) or "none (the model has no nn.Linear that runs)"
    what = "several linear layers give what the model returns" if last else "no linear layer gives the model's output"
    raise InputError(f"{what}, so the head cannot be found by itself. Pass head=<name>; candidates: {candidates}.")


def warn_of_another_answer(name: str, logits: Tensor, said: Any) -> None:
    """Say so where the model returns neither the logits of the named head nor their softmax."""
    answers = [answer.to(logits) for answer in _tensors(said) if answer.shape == logits.shape]
    forms = (logits, logits.softmax(dim=-1), logits.log_softmax(dim=-1))
    if any(torch.allclose(form, answer, rtol=1e-3, atol=1e-5, equal_nan=True) for answer in answers for form in forms):
        return
    apart = f" (by up to {min(float((logits - a).abs().max()) for a in answers):.3g})" if answers else ""
    warnings.warn(f"the logits of head '{name}' are not what the model returns{apart}. {OTHER_LOGITS}",
                  CaveatWarning, stacklevel=2)  # fmt: skip


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal in shape and values; NaN equals NaN, for whoever looks for it later says where it is."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _tensors(said: Any) -> Iterator[Tensor]:
    if isinstance(said, Tensor):
        yield said
    elif isinstance(said, Mapping):
        named = said.get("logits")
        yield from _tensors(named if isinstance(named, Tensor) else list(said.values()))
    elif isinstance(said, (tuple, list)):
        for value in said:
            yield from _tensors(value)
