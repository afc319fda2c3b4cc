"""A batch of a loader, in any of its usual forms: what goes into the model, and the labels that came with it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, final

import torch
from torch import Tensor, nn

from caveat.errors import InputError
from caveat.nn._rows import first_of, numbers
from caveat.nn.ease import Transform

# Keys of labels in a mapping, as data sets and collators spell them.
_LABEL_KEYS = ("labels", "label", "label_ids")
_FORMS = "a tensor or an array, a mapping of such, or a tuple that starts with one of these"


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """The inputs of one forward pass: ``main`` by position, or by ``key``, and ``others`` by their keys."""

    main: Tensor
    truth: Any = None
    key: str | None = None
    others: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, batch: Any, model: nn.Module, *, labels: bool | str = True) -> Self:
        """Read a batch for this model; ``labels`` may name the key of the labels in a mapping."""
        inputs, truth = first_of(batch)
        if not isinstance(inputs, Mapping):
            return cls(_tensor(inputs, batch), truth)
        inputs, truth = split_labels(inputs, truth, labels)
        entries = {key: _entry(value) for key, value in inputs.items()}
        entries = {key: value for key, value in entries.items() if value is not None}  # text is not for the model
        return cls(*_main(entries, model, batch, truth))

    @property
    def n(self) -> int:
        return len(self.main)

    def to(self, device: torch.device, float_type: torch.dtype | None) -> Self:
        """Every tensor on the device, and floats in the type of the model unless that is None."""
        others = {key: _moved(value, device, float_type) for key, value in (self.others or {}).items()}
        return replace(self, main=_moved(self.main, device, float_type), others=others)

    def run(self, model: nn.Module) -> Any:
        """What the model returns. It gets copies: it may write into its inputs, which the next pass needs."""
        others = {key: _copied(value) for key, value in (self.others or {}).items()}
        if self.key is None:
            return model(self.main.clone(), **others)
        return model(**{self.key: self.main.clone()}, **others)

    def changed(self, transform: Transform, generator: torch.Generator) -> Self:
        """The batch with its main input transformed."""
        main = transform(self.main.clone(), generator)
        if main.shape != self.main.shape:
            raise InputError(f"a transformation must keep the shape of the inputs {tuple(self.main.shape)}, "
                             f"got {tuple(main.shape)} from {transform!r}.")  # fmt: skip
        return replace(self, main=main)


def split_labels(entries: Mapping[str, Any], truth: Any, labels: bool | str) -> tuple[dict[str, Any], Any]:
    """The inputs of a mapping, and its labels unless ``truth`` holds them; ``labels`` may name their key."""
    keys = (labels,) if isinstance(labels, str) else _LABEL_KEYS
    if truth is None:
        truth = next((entries[key] for key in keys if entries.get(key) is not None), None)
    return {key: value for key, value in entries.items() if key not in keys}, truth


def _main(
    entries: dict[str, Any], model: nn.Module, batch: Any, truth: Any
) -> tuple[Tensor, Any, str | None, dict[str, Any]]:
    """The fields of a Batch from a mapping: its main input first."""
    tensors = [key for key, value in entries.items() if isinstance(value, Tensor) and value.ndim]
    if not tensors:
        raise InputError(f"a batch must be {_FORMS}, got a {type(batch).__name__} without an array among its inputs "
                         f"({', '.join(map(repr, entries)) or 'none'}).")  # fmt: skip
    named, takes_any = _parameters(model)
    if len(entries) == 1 and tensors[0] not in named:
        return entries[tensors[0]], truth, None, {}  # {"image": x} for a model that calls its input x
    unknown = [key for key in entries if key not in named and not takes_any]
    if unknown:
        raise InputError(f"the model does not take the inputs {', '.join(map(repr, unknown))} of a batch; it takes "
                         f"{', '.join(map(repr, named)) or 'none by name'}. Remove them from the batches, or name the "
                         "labels among them with labels=<key>.")  # fmt: skip
    hint = getattr(model, "main_input_name", None)
    key = hint if hint in tensors else tensors[0]
    return entries.pop(key), truth, key, entries


def _parameters(model: nn.Module) -> tuple[list[str], bool]:
    """Names of the inputs of a model, and whether it takes any other."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # TorchScript
        return [], True
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = [parameter.name for parameter in parameters if parameter.kind in kinds]
    return named, any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _entry(value: Any) -> Any:
    """A value of a mapping as the model gets it; None for what is not numbers."""
    if isinstance(value, (Tensor, bool, int, float)):
        return value
    array = numbers(value)
    return None if array is None else torch.tensor(array.astype(array.dtype.newbyteorder("="), copy=False))


def _tensor(value: Any, batch: Any) -> Tensor:
    tensor = _entry(value)
    if not isinstance(tensor, Tensor) or tensor.ndim == 0:
        raise InputError(f"a batch must be {_FORMS}, got {type(batch).__name__}. Wrap the loader in a generator that "
                         "gives such.")  # fmt: skip
    return tensor


def _moved(value: Any, device: torch.device, float_type: torch.dtype | None) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.to(device, float_type if value.is_floating_point() else None)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def input_tensor(batch: Any) -> Tensor:
    """The input of a batch that holds one input, for code that runs the model on a tensor."""
    return _tensor(first_of(batch)[0], batch)
