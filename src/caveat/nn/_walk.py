"""One walk of a model over batches: its outputs on each, as plain arrays.

Between two batches the model is in its own state: modes, hooks and random numbers are set and put back for each batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from caveat._internal.checks import Rng, as_kind, as_list, as_rng, check_known
from caveat._internal.params import check_params, choice, count
from caveat.errors import InputError
from caveat.nn._heads import demand_once, name_of_head, named_linear, per_sample, warn_of_another_answer
from caveat.nn._modes import at_rest, dropout_awake, seeded
from caveat.nn._progress import tracked
from caveat.nn._rows import LAYER, check_part, first_of, labels_of
from caveat.nn.ease import Transform
from caveat.outputs import Head

Array = NDArray[Any]

_TYPES = {"float16": torch.float16, "float32": torch.float32}
# Modules whose three-dimensional output is (samples, positions, channels).
_CHANNELS_LAST = (
    nn.Linear, nn.LayerNorm, nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention, nn.Embedding,
)  # fmt: skip


@final
@dataclass(eq=False)
class Walk:
    """How to run a model; ``parts(loader)`` runs it. See ``extract`` for the fields."""

    model: nn.Module
    head: str = "auto"
    layers: Sequence[str] | Mapping[str, int] = ()
    pool: Literal["mean"] | None = choice(None, ("mean",))
    mc: int = count(0, least=0)
    transforms: Sequence[Transform] | None = None
    labels: bool = True
    device: str | torch.device | None = None
    dtype: str | None = choice(None, _TYPES)
    rng: Rng | None = None
    _named: dict[str, nn.Module] = field(init=False, default_factory=dict)
    _axes: dict[str, int | None] = field(init=False, default_factory=dict)
    _compared: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        check_params(self)
        as_kind(self.model, nn.Module, "model", what="a torch.nn.Module")
        names = [self.layers] if isinstance(self.layers, str) else self.layers
        self._axes = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
        self._named = dict(self.model.named_modules(remove_duplicate=False))  # by any of its names
        for name in self._axes:
            check_known(name, filter(None, self._named), "layer")
        if self.head != "auto":
            named_linear(self.model, self.head)
        # Both seeds are always drawn, so that ``mc`` does not change the transformed copies.
        rng = as_rng(0 if self.rng is None else self.rng)
        self._mc_seed, self._ease_seed = rng.integers(2**63, size=2).tolist()
        self._device = place_of(self.model, self.device)

    def head_layer(self) -> Head:
        """A copy of the last linear layer, which is found with the first batch."""
        layer = named_linear(self.model, self.head)
        return Head(to_numpy(layer.weight.clone()), None if layer.bias is None else to_numpy(layer.bias.clone()))

    def parts(self, loader: Iterable[Any]) -> Iterator[dict[str, Array]]:
        """The arrays of each batch, by key of Outputs or ``layer:<name>``. Every row is finite."""
        row = 0
        for i, batch in enumerate(loader):
            inputs, truth = _split(batch)
            if inputs.shape[0] == 0:
                continue
            part = self._part(inputs.to(self._device), i)
            check_part(part, row=row, batch=i, half=self.dtype == "float16")
            if self.labels and (labels := labels_of(truth, *part["logits"].shape, batch=i)) is not None:
                part["labels"] = labels
            row += inputs.shape[0]
            yield part
        if row == 0:
            raise InputError("loader must give at least one batch, got none.")

    def _part(self, inputs: Tensor, batch: int) -> dict[str, Array]:
        with torch.no_grad():  # not inference_mode: a model that caches a tensor could not be trained with it later
            with at_rest(self.model):
                part = self._forward(inputs)
                if self.transforms is not None:
                    part["ease_probs"] = self._transformed(inputs, batch)
            if self.mc:
                with dropout_awake(self.model), seeded(_seed(self._mc_seed, batch), self._device):
                    passes = [self._head_pass(inputs)[1] for _ in range(self.mc)]
                part["mc_logits"] = np.stack([self._array(logits) for logits in passes])
        return part

    def _transformed(self, inputs: Tensor, batch: int) -> Array:
        assert self.transforms is not None
        generator = torch.Generator().manual_seed(_seed(self._ease_seed, batch))
        copies = []
        for transform in as_list(self.transforms, "transforms"):
            changed = transform(inputs.clone(), generator)
            if changed.shape != inputs.shape:
                raise InputError(f"a transformation must keep the shape of the inputs {tuple(inputs.shape)}, "
                                 f"got {tuple(changed.shape)} from {transform!r}.")  # fmt: skip
            copies.append(self._array(torch.softmax(self._head_pass(changed)[1].float(), dim=1)))
        return np.stack(copies)

    def _forward(self, inputs: Tensor) -> dict[str, Array]:
        """Logits, features and layers of one pass."""
        inner: dict[str, Array] = {}
        with ExitStack() as hooks:
            for name, axis in self._axes.items():
                catch = self._layer_catcher(name, axis, inner, inputs.shape[0])
                hooks.enter_context(self._named[name].register_forward_hook(catch))
            features, logits = self._head_pass(inputs)
        for name in self._axes:
            demand_once(f"layer {name!r}", int(LAYER + name in inner))
        per_sample(features, inputs.shape[0], f"head '{self.head}' must see one feature vector per sample")
        return {"logits": to_numpy(logits), "features": self._array(features), **inner}

    def _head_pass(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Input and output of the head during one forward pass; the first pass finds the head."""
        find = self.head == "auto"
        watch = {self.head: self._named[self.head]} if not find else {
            name: module for name, module in self.model.named_modules() if isinstance(module, nn.Linear)
        }  # fmt: skip
        caught: dict[str, list[tuple[Tensor, Tensor]]] = {}

        def catcher(name: str) -> Any:
            def catch(_: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
                features = args[0] if args else kwargs["input"]
                # Copies: later parts of the model may write into these tensors. In the order of the last run.
                caught[name] = [*caught.pop(name, []), (features.clone(), output.clone())]

            return catch

        with ExitStack() as hooks:
            for name, module in watch.items():
                hooks.enter_context(module.register_forward_hook(catcher(name), with_kwargs=True))
            answer = self.model(inputs.clone())  # the model may write into its input, which the next pass needs
        if find:
            self.head = name_of_head(answer, {name: runs[-1] for name, runs in caught.items()})
        demand_once(f"head '{self.head}'", len(caught.get(self.head, ())))
        if not find and not self._compared:  # the automatic head gives the model's answer
            warn_of_another_answer(self.head, caught[self.head][0][1], answer)
        self._compared = True
        return caught[self.head][0]

    def _layer_catcher(self, name: str, axis: int | None, inner: dict[str, Array], n: int) -> Any:
        def catch(module: nn.Module, _: Any, output: Any) -> None:
            maps = output[0] if isinstance(output, (tuple, list)) else output
            per_sample(maps, n, f"layer {name!r} must give one array per sample", most=None)
            demand_once(f"layer {name!r}", 2 if LAYER + name in inner else 1)
            last = axis is None and maps.ndim == 3 and isinstance(module, _CHANNELS_LAST)
            channel = -1 if last else 1 if axis is None else axis
            if channel not in range(-maps.ndim, maps.ndim) or channel % maps.ndim == 0:
                raise InputError(f"the channel axis of layer {name!r} must be one of 1 to {maps.ndim - 1}, got {axis}.")
            maps = maps.movedim(channel, 1)
            if self.pool == "mean" and maps.ndim > 2:
                maps = maps.flatten(2).mean(dim=2, dtype=torch.promote_types(maps.dtype, torch.float32))
            # A copy: a later layer may write into this tensor.
            inner[LAYER + name] = self._array(maps.clone(memory_format=torch.contiguous_format))

        return catch

    def _array(self, tensor: Tensor) -> Array:
        return to_numpy(tensor if self.dtype is None else tensor.to(_TYPES[self.dtype]))


def place_of(model: nn.Module, device: str | torch.device | None) -> torch.device:
    """The device to run on: ``device``, or that of the model's first parameter or buffer."""
    if device is not None:
        return torch.device(device)
    first = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if first is None else first.device


def as_batches(inputs: Any, *, size: int = 256) -> Iterable[Any]:
    """Batches of a tensor or array of inputs; a loader is one already."""
    if isinstance(inputs, (Tensor, np.ndarray)):
        blocks = (inputs[start : start + size] for start in range(0, len(inputs), size))
        return (block if isinstance(block, Tensor) else torch.tensor(block) for block in blocks)
    return inputs  # type: ignore[no-any-return]


def logits_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """The logits (n, C) that the model returns."""
    logits = model(inputs.clone())  # the model may write into its input
    return per_sample(logits, len(inputs), "the model must return logits (n, C)", hint="Wrap it in a module that does.")


def inputs_of(batch: Any) -> Tensor:
    """The input tensor of a batch."""
    return _split(batch)[0]


def _split(batch: Any) -> tuple[Tensor, Any]:
    """The input tensor of a batch, and the labels or whatever comes with it."""
    inputs, truth = first_of(batch)
    if not isinstance(inputs, Tensor) or inputs.ndim == 0:
        raise InputError(f"a batch must be a tensor or a tuple that starts with one, got {type(batch).__name__}. "
                         "Wrap the loader in a generator that gives such.")  # fmt: skip
    return inputs, truth


def watched(loader: Iterable[Any], progress: bool | None) -> Iterator[Any]:
    """The batches of a loader, with a progress bar on standard error."""
    if isinstance(loader, (Tensor, np.ndarray)):
        raise InputError(f"loader must give batches, got a {type(loader).__name__}, which gives rows. Pass [it], or a "
                         "DataLoader.")  # fmt: skip
    yield from tracked(loader, "extracting", progress)


def to_numpy(tensor: Tensor) -> Array:
    """The values of a tensor as an array; numpy has no bfloat16, which becomes float32."""
    array = tensor.detach().cpu()
    return (array.float() if array.dtype == torch.bfloat16 else array).numpy()


def _seed(seed: int, batch: int) -> int:
    """A seed for each batch: walking again gives the same numbers, in any order."""
    return int(np.random.SeedSequence([seed, batch]).generate_state(1, np.uint32)[0])
