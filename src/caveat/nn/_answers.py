"""What a model returns: a tensor, or tuples, mappings and dataclasses that hold its logits among other things."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from caveat.errors import InputError

_REMEDY = "Wrap the model in a module that returns its logits alone, or in a mapping with the key 'logits'."


def tensors_in(answer: Any) -> Iterator[Tensor]:
    """The tensors in what a model returns; only the one called ``logits`` where there is one."""
    if isinstance(answer, Tensor):
        yield answer
        return
    mapping = isinstance(answer, Mapping)
    logits = answer.get("logits") if mapping else getattr(answer, "logits", None)
    if isinstance(logits, Tensor):
        yield logits
    elif mapping or isinstance(answer, (tuple, list)):
        for value in answer.values() if mapping else answer:
            yield from tensors_in(value)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            yield from tensors_in(getattr(answer, field.name))


def logits_in(answer: Any, n: int) -> Tensor:
    """The one matrix (n, C) in what a model returns for n samples."""
    matrices = [t for t in tensors_in(answer) if t.ndim == 2 and len(t) == n and t.is_floating_point()]
    if len(matrices) == 1:
        return matrices[0]
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors_in(answer)) or f"a {type(answer).__name__}"
    raise InputError(f"the model must return one matrix of logits (n, C), got {shapes} for {n} samples. {_REMEDY}")


def are_probabilities(logits: Tensor) -> bool:
    """Whether all rows are probabilities that sum to 1, as far as the float type can tell."""
    rows = logits.float()
    return logits.shape[1] > 1 and bool((rows >= 0).all() and ((rows.sum(dim=1) - 1).abs() < _slack(logits)).all())


def are_log_probabilities(logits: Tensor) -> bool:
    """Whether the exponentials of all rows sum to 1."""
    return logits.shape[1] > 1 and bool((logits.float().logsumexp(dim=1).abs() < _slack(logits)).all())


def _slack(logits: Tensor) -> float:
    return 1e-2 if logits.itemsize < 4 else 1e-4
