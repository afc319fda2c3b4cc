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
from torch.utils.data import Dataset, IterableDataset

from caveat._internal.checks import Rng, as_kind, as_list, as_rng, check_known
from caveat._internal.params import check_params, choice, count
from caveat.errors import InputError
from caveat.nn._answers import tensors_in
from caveat.nn._batches import Batch, input_tensor
from caveat.nn._head_search import (
    HeadSource,
    Run,
    checked_parts,
    confirmed,
    demand_classifier,
    find_head,
    named_head,
    report_shortfall,
)
from caveat.nn._heads import demand_once, linear_map, named_module, per_sample
from caveat.nn._modes import at_rest, dropout_awake, seeded
from caveat.nn._progress import tracked
from caveat.nn._rows import LAYER, check_part, labels_of
from caveat.nn.ease import Transform
from caveat.outputs import Head

Array = NDArray[Any]

_TYPES = {"float16": torch.float16, "float32": torch.float32}
_HALF = (torch.float16, torch.bfloat16)
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
    labels: bool | str = True
    device: str | torch.device | None = None
    dtype: str | None = choice(None, _TYPES)
    rng: Rng | None = None
    keep: Sequence[str] | None = None
    _named: dict[str, nn.Module] = field(init=False, default_factory=dict)
    _axes: dict[str, int | None] = field(init=False, default_factory=dict)
    _source: HeadSource | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        check_params(self)
        as_kind(self.model, nn.Module, "model", what="a torch.nn.Module")
        names = [self.layers] if isinstance(self.layers, str) else self.layers
        self._axes = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
        self._named = dict(self.model.named_modules(remove_duplicate=False))  # by any of its names
        for name in self._axes:
            check_known(name, filter(None, self._named), "layer")
        if self.head != "auto":
            named_module(self.model, self.head)
        if isinstance(self.model, torch.jit.ScriptModule) and (self._axes or self.head != "auto"):
            raise InputError("head and layers need a model whose modules can be watched, got a TorchScript model. Pass "
                             "the Python model that it was made from, or extract its logits alone.")  # fmt: skip
        self.keep = checked_parts(self.keep)
        # Both seeds are always drawn, so that ``mc`` does not change the transformed copies.
        rng = as_rng(0 if self.rng is None else self.rng)
        self._mc_seed, self._ease_seed = rng.integers(2**63, size=2).tolist()
        self._device = place_of(self.model, self.device)
        self._float_type = _float_type_of(self.model)
        # Channels of the layers of a transformer, as models of transformers and timm declare them.
        owner = self.model if hasattr(self.model, "get_classifier") else getattr(self.model, "config", None)
        self._widths = {getattr(owner, name, None) for name in ("hidden_size", "num_features")} - {None}

    def head_layer(self) -> Head | None:
        """A copy of the last linear layer, which is found with the first batch; None where there is none."""
        assert self._source is not None
        if not self._source.linear or self._source.name is None or not self._keeps("head"):
            return None
        mapping = linear_map(self._named[self._source.name])
        assert mapping is not None
        weight, bias = mapping
        return Head(_wide(weight.clone()), None if bias is None else _wide(bias.clone()))

    def _keeps(self, part: str) -> bool:
        return self.keep is None or part in self.keep

    def parts(self, loader: Iterable[Any]) -> Iterator[dict[str, Array]]:
        """The arrays of each batch, by key of Outputs or ``layer:<name>``. Every row is finite."""
        row = 0
        for i, values in enumerate(loader):
            batch = Batch.of(values, self.model, labels=self.labels)
            if batch.n == 0:
                continue
            try:
                part = self._part(batch.to(self._device, self._float_type), i)
            except RuntimeError as error:  # of torch
                demand_weights(self.model)
                if batch.main.is_floating_point() or self._float_type is None:
                    raise
                raise InputError(
                    f"the model cannot take a batch of {batch.main.dtype} ({first_line(error)}). Convert it to the "
                    "floats that the model was trained on, such as x / 255."
                ) from error
            check_part(part, row=row, batch=i, half=self.dtype == "float16")
            if self.labels and (labels := labels_of(batch.truth, *part["logits"].shape, batch=i)) is not None:
                part["labels"] = labels
            row += batch.n
            yield part
        if row == 0:
            raise InputError("loader must give at least one batch, got none.")

    def _part(self, batch: Batch, i: int) -> dict[str, Array]:
        with torch.no_grad():  # not inference_mode: a model that caches a tensor could not be trained with it later
            with at_rest(self.model):
                part = self._forward(batch)
                if self.transforms is not None:
                    part["ease_probs"] = self._transformed(batch, i)
            if self.mc:
                with dropout_awake(self.model), seeded(_seed(self._mc_seed, i), self._device):
                    passes = [self._logits(batch) for _ in range(self.mc)]
                part["mc_logits"] = np.stack([self._array(logits) for logits in passes])
        return part

    def _transformed(self, batch: Batch, i: int) -> Array:
        assert self.transforms is not None
        generator = torch.Generator().manual_seed(_seed(self._ease_seed, i))
        copies = []
        for transform in as_list(self.transforms, "transforms"):
            logits = self._logits(batch.changed(transform, generator))
            copies.append(self._array(torch.softmax(logits.float(), dim=1)))
        return np.stack(copies)

    def _forward(self, batch: Batch) -> dict[str, Array]:
        """Logits, features and layers of one pass."""
        inner: dict[str, Array] = {}
        with ExitStack() as hooks:
            for name, axis in self._axes.items():
                catch = self._layer_catcher(name, axis, inner, batch.n)
                hooks.enter_context(self._named[name].register_forward_hook(catch))
            runs, answer = self._pass(batch)
        for name in self._axes:
            demand_once(f"layer {name!r}", int(LAYER + name in inner))
        assert self._source is not None
        source, run = self._source, self._head_run(runs)
        logits = source.logits(run, answer, batch.n)
        part = {"logits": _wide(logits)}
        if run is not None and self._keeps("features"):
            part["features"] = self._array(source.features(self._named[str(source.name)], run, logits))
        return part | inner

    def _logits(self, batch: Batch) -> Tensor:
        """The logits of one forward pass, with dropout where it is awake."""
        runs, answer = self._pass(batch)
        assert self._source is not None
        return self._source.logits(self._head_run(runs), answer, batch.n)

    def _pass(self, batch: Batch) -> tuple[dict[str, list[Run]], Any]:
        """The run of the head, if any, and the model's answer; the first pass finds the head."""
        if self._source is None:
            return self._find(batch)
        return self._run(batch, [] if self._source.name is None else [self._source.name])

    def _head_run(self, runs: dict[str, list[Run]]) -> Run | None:
        assert self._source is not None
        return None if self._source.name is None else self._only_run(self._source.name, runs)

    def _find(self, batch: Batch) -> tuple[dict[str, list[Run]], Any]:
        """Find where logits and features come from, in a pass that is returned; a warning says what is missing."""
        candidates = [name for name, module in self.model.named_modules() if linear_map(module) is not None]
        if self.head == "auto":
            demand_classifier(self.model)
            runs, answer = self._run(batch, candidates)
            source = find_head(self._named, runs, answer, batch.n)
            if source.name is not None and source.name != next(reversed(runs)):  # only its first rows were kept
                runs, answer = self._run(batch, [source.name])
        else:
            runs, answer = self._run(batch, [self.head])
            run = self._only_run(self.head, runs)
            source = named_head(self.head, self._named[self.head], run, answer, batch.n, candidates)
        if source.name is not None and source.linear:
            run = self._only_run(source.name, runs)
            named = self.head != "auto"
            source = confirmed(source, self._named[source.name], run, answer, batch.n, named=named)
        report_shortfall(source, self.keep, candidates)
        self._source = source
        return runs, answer

    @staticmethod
    def _only_run(name: str, runs: dict[str, list[Run]]) -> Run:
        demand_once(f"head '{name}'", len(runs.get(name, ())))
        return runs[name][0]

    def _run(self, batch: Batch, names: Sequence[str]) -> tuple[dict[str, list[Run]], Any]:
        """One forward pass: what these layers read and gave, in the order of their last run, and the answer.

        Only the layer that ran last has all rows, which is the head in most models.
        """
        runs: dict[str, list[Run]] = {}

        def catcher(name: str) -> Any:
            def catch(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
                inputs = args[0] if args else next(iter(kwargs.values()))
                if not isinstance(inputs, Tensor) or not isinstance(output, Tensor):
                    raise InputError(f"head '{name}' must take and give a tensor, got {type(inputs).__name__} and "
                                     f"{type(output).__name__}.")  # fmt: skip
                if runs:
                    before = next(reversed(runs))
                    runs[before] = [run.first_rows() for run in runs[before]]
                # Copies: later parts of the model may write into these tensors.
                runs[name] = [*runs.pop(name, []), Run(inputs.clone(), output.clone())]

            return catch

        with ExitStack() as hooks:
            for name in names:
                hooks.enter_context(self._named[name].register_forward_hook(catcher(name), with_kwargs=True))
            answer = batch.run(self.model)
        return runs, answer

    def _layer_catcher(self, name: str, axis: int | None, inner: dict[str, Array], n: int) -> Any:
        def catch(module: nn.Module, _: Any, output: Any) -> None:
            maps = per_sample(next(tensors_in(output), None), n, f"layer {name!r} must give one array per sample",
                              most=None)  # fmt: skip
            demand_once(f"layer {name!r}", 2 if LAYER + name in inner else 1)
            wide = maps.shape[-1] in self._widths  # a layer of a transformers or timm model, of a class of its own
            last = axis is None and maps.ndim == 3 and (wide or isinstance(module, _CHANNELS_LAST))
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
        return _wide(tensor) if self.dtype is None else to_numpy(tensor.to(_TYPES[self.dtype]))


def place_of(model: nn.Module, device: str | torch.device | None) -> torch.device:
    """The device to run on: ``device``, or that of the model's first parameter or buffer."""
    if device is not None:
        return as_device(device)
    first = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if first is None else first.device


def first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")


def demand_weights(model: nn.Module) -> None:
    """Raise for a model that was made without weights."""
    name = next((name for name, value in chain(model.named_parameters(), model.named_buffers()) if value.is_meta), None)
    if name is not None:
        raise InputError(
            f"'{name}' of {type(model).__name__} is on the meta device, which holds no numbers. Load the "
            "weights first: model.to_empty(device='cpu'), then load_state_dict."
        )


def as_device(device: str | torch.device) -> torch.device:
    """A device that is there: an unknown name, and "cuda" without CUDA, are an InputError."""
    try:
        chosen = torch.device(device)
        if chosen.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.empty(1, device=chosen)  # each backend that is not here has an exception of its own
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"device {device!r} cannot be used ({reason}). Choose 'cpu', or a device of this machine."
        ) from None
    return chosen


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
    return input_tensor(batch)


def watched(loader: Iterable[Any], progress: bool | None) -> Iterator[Any]:
    """The batches of a loader, with a progress bar on standard error."""
    kind = type(loader).__name__
    if isinstance(loader, (Tensor, np.ndarray, Mapping)):
        raise InputError(f"loader must give batches, got a {kind}, which is one batch. Pass [it], or a DataLoader.")
    if isinstance(loader, Dataset) and not isinstance(loader, IterableDataset):
        raise InputError(f"loader must give batches, got a {kind}, which gives single samples. "
                         "Pass DataLoader(it, batch_size=256).")  # fmt: skip
    yield from tracked(loader, "extracting", progress)


def to_numpy(tensor: Tensor) -> Array:
    """The values of a tensor as an array; numpy has no bfloat16, which becomes float32."""
    array = tensor.detach().cpu()
    return (array.float() if array.dtype == torch.bfloat16 else array).numpy()


def _wide(tensor: Tensor) -> Array:
    """The values of a tensor as an array, half precision as float32."""
    return to_numpy(tensor.float() if tensor.dtype in _HALF else tensor)


def _float_type_of(model: nn.Module) -> torch.dtype | None:
    """The float type of all parameters, to which inputs are converted; None where they differ."""
    types = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    one = types.pop() if len(types) == 1 else None
    return one if one in (*_HALF, torch.float32, torch.float64) else None


def _seed(seed: int, batch: int) -> int:
    """A seed for each batch: walking again gives the same numbers, in any order."""
    return int(np.random.SeedSequence([seed, batch]).generate_state(1, np.uint32)[0])
