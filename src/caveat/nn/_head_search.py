"""Which layer of a model gives its logits, and which vectors it reads: found by comparing the values of one pass.

A layer that is the head satisfies ``logits = weight @ features + bias``. Where it runs at several positions (words,
pixels) and the model pools what it gives, the features are the vectors it reads, pooled in the same way: the mean for
an average, one position for a choice. Whatever is found is checked against the model's answer before it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor, nn

from caveat._internal.checks import as_list, check_known
from caveat.errors import CaveatWarning, InputError
from caveat.nn._answers import are_log_probabilities, are_probabilities, logits_in, tensors_in
from caveat.nn._heads import is_answer, linear_map, per_sample, warn_of_another_answer

SEARCHED_ROWS = 4  # a model has many layers, and all rows of all of them would not fit into memory


class Run(NamedTuple):
    """Input and output of a layer in one pass."""

    inputs: Tensor
    output: Tensor

    def first_rows(self) -> Run:
        """A copy of the first rows: all that the search needs, of layers that are most often not the head."""
        return Run(self.inputs[:SEARCHED_ROWS].clone(), self.output[:SEARCHED_ROWS].clone())


@final
@dataclass(frozen=True)
class HeadSource:
    """Where logits and features come from."""

    name: str | None  # of the layer; None: the logits are the model's answer, and there are no features
    pooling: Literal["none", "mean", "position"] = "none"
    linear: bool = True  # the weight and bias of the layer give the logits
    shortfall: str = ""  # why features or the head are missing

    def logits(self, run: Run | None, answer: Any, n: int) -> Tensor:
        """Logits (n, C) of one pass: of the layer where it sees one vector per sample, else of the model."""
        if run is None or self.pooling != "none":
            return logits_in(answer, n)
        return per_sample(run.output, n, f"head '{self.name}' must give one row of logits per sample")

    def vectors(self, run: Run, n: int) -> Tensor:
        """What the layer read, if that is one vector per sample."""
        return per_sample(run.inputs, n, f"head '{self.name}' must see one feature vector per sample")

    def features(self, layer: nn.Module, run: Run, logits: Tensor) -> Tensor:
        """Features (n, D) of one pass without dropout."""
        if self.pooling == "none":
            return self.vectors(run, len(logits))
        features = _pooled(layer, run, logits, self.pooling)
        if not _gives(layer, features, logits, _pooled_sizes(layer, run, features, self.pooling)):
            raise InputError(f"the vectors that head '{self.name}' reads, pooled by {self.pooling}, give the model's "
                             "logits in the first batch but not in a later one (padding may count). "
                             "Pass keep=['logits'].")  # fmt: skip
        return features


def find_head(layers: Mapping[str, nn.Module], runs: Mapping[str, Sequence[Run]], answer: Any, n: int) -> HeadSource:
    """The layer that gives the model's answer, among those that can be a head, in the order of their last run.

    Looks at the first rows, as the runs hold no more; ``confirmed`` looks at all.
    """
    last_runs = {name: layer_runs[-1].first_rows() for name, layer_runs in runs.items()}
    tensors = [tensor[:SEARCHED_ROWS] for tensor in tensors_in(answer) if tensor.ndim and len(tensor) == n]
    for alike in (_is_same, _is_normalized):
        if (name := _behind(tensors, last_runs, alike)) is not None:
            return HeadSource(name)
    logits = logits_in(answer, n)
    for name, run in reversed(last_runs.items()):
        if _has_positions(layers[name], run):
            for pooling in ("mean", "position"):
                first = logits[:SEARCHED_ROWS]
                if _pooled_gives(layers[name], run, first, pooling):
                    return HeadSource(name, pooling)
    width = logits.shape[1]
    return _logits_alone([name for name in runs if _n_outputs(layers[name]) == width], logits)


def confirmed(source: HeadSource, layer: nn.Module, run: Run, answer: Any, n: int, *, named: bool) -> HeadSource:
    """The source if all rows agree with what was found in the first: the layer's answer is the model's, and linear.

    A cosine head or a quantizer is a layer that is not the linear map of its weight. A head that the caller named may
    give another answer than the model.
    """
    if source.pooling != "none":
        logits = logits_in(answer, n)
        return (
            source if _pooled_gives(layer, run, logits, source.pooling) else _logits_alone([str(source.name)], logits)
        )
    features = source.vectors(run, n)
    if named:
        warn_of_another_answer(str(source.name), run.output, answer)
    elif not is_answer(run.output, answer):
        return _logits_alone([str(source.name)], logits_in(answer, n))
    if _gives(layer, features, run.output):
        return source
    why = (f"head '{source.name}' ({type(layer).__name__}) does not compute weight @ features + bias (it may normalize "
           "or quantize)")  # fmt: skip
    return replace(source, linear=False, shortfall=why)


def named_head(name: str, layer: nn.Module, run: Run, answer: Any, n: int, candidates: Sequence[str]) -> HeadSource:
    """The layer that the caller named: linear, or the module that gives the model's answer."""
    if linear_map(layer) is None:
        kind = type(layer).__name__
        if not any(_is_same(run.output, tensor) for tensor in tensors_in(answer)):
            raise InputError(f"head '{name}' must name a linear layer or the module that gives the model's answer, but "
                             f"it is {kind}; candidates: {_listed(candidates)}.")  # fmt: skip
        return HeadSource(name, linear=False, shortfall=f"head '{name}' is {kind}, not a linear layer")
    if _has_positions(layer, run):
        source = find_head({name: layer}, {name: [run]}, answer, n)
        return HeadSource(name) if source.name is None else source  # whose rows are refused
    return HeadSource(name)


def demand_classifier(model: nn.Module) -> None:
    """Raise InputError for a model, in the manner of timm, that was made without a classifier: it returns features."""
    get_classifier: Any = getattr(model, "get_classifier", None)
    if callable(get_classifier) and isinstance(get_classifier(), nn.Identity):
        raise InputError("the model has no classifier (get_classifier() is nn.Identity): it returns features, not "
                         "logits. Give it one, as model.reset_classifier(num_classes) does.")  # fmt: skip


def checked_parts(keep: Sequence[str] | None) -> list[str] | None:
    """The parts that a caller asked to keep; None: all that there are."""
    if keep is None:
        return None
    parts = [check_known(part, ("logits", "features", "head"), "part in keep") for part in as_list(keep, "keep")]
    if "logits" not in parts:
        raise InputError(f"keep must contain 'logits', which the rest is checked against, got {parts}.")
    return parts


def report_shortfall(source: HeadSource, keep: Sequence[str] | None, candidates: Sequence[str]) -> None:
    """Warn that features or the head are missing, or raise where they were asked for by name."""
    stored = ["logits"] + ["features"] * (source.name is not None) + ["head"] * source.linear
    missing = [part for part in ("features", "head") if part not in stored and (keep is None or part in keep)]
    if not missing:
        return
    hint = ""
    if source.name is None and candidates:
        hint = f" If a layer reads the features, pass head=<name>; candidates: {_listed(candidates)}."
    if keep is not None:
        raise InputError(f"keep has {' and '.join(map(repr, missing))}, but {source.shortfall}.{hint}")
    warnings.warn(f"{source.shortfall}, so {' and '.join(stored)} are stored without {' and '.join(missing)}.{hint} "
                  f"keep={stored} asks for this without a warning.", CaveatWarning, stacklevel=2)  # fmt: skip


def _behind(tensors: Sequence[Tensor], runs: dict[str, Run], alike: Callable[[Tensor, Tensor], bool]) -> str | None:
    """The layer whose output is alike to what the model returns, or to one answer of several."""
    sources: dict[str, Tensor] = {}
    for tensor in tensors:
        name = next((name for name, run in reversed(runs.items()) if alike(run.output, tensor)), None)
        if name is not None:
            sources.setdefault(name, tensor)
    # A model may return its features with its logits: the input of another answer's layer is not the answer.
    last = [a for a in sources if not any(_is_same(runs[a].output, runs[b].inputs) for b in sources if b != a)]
    if len(last) > 1:
        raise InputError("several linear layers give what the model returns, so the head cannot be found by itself. "
                         f"Pass head=<name>; candidates: {', '.join(map(repr, last))}.")  # fmt: skip
    if not last:
        return None
    for other in takewhile(lambda tensor: tensor is not sources[last[0]], tensors):
        passing = any(_is_same(other, run.inputs) or _is_same(other, run.output) for run in runs.values())
        if other.ndim == 2 and other.is_floating_point() and not passing:
            raise InputError("the model returns several matrices, and the first is not from linear layer "
                             f"'{last[0]}', so it is unclear which are the logits. Return them alone or under the key "
                             "'logits', or pass head=<name>.")  # fmt: skip
    return last[0]


def _gives(layer: nn.Module, features: Tensor, logits: Tensor, sizes: Tensor | None = None) -> bool:
    """Whether weight @ features + bias equals the logits, up to rounding. Rows with NaN are left to a later check.

    ``sizes``: of the numbers that were added up to the features, where those may be smaller.
    """
    mapping = linear_map(layer)
    if mapping is None or logits.shape != (len(features), len(mapping[0])):
        return False
    wide = torch.promote_types(features.dtype, torch.float32)
    weight, inputs = mapping[0].to(wide), features.to(wide)
    bias = torch.zeros(len(weight)).to(weight) if mapping[1] is None else mapping[1].to(wide)
    gap = (inputs @ weight.T + bias - logits.to(wide)).abs()
    terms = inputs.abs() if sizes is None else sizes.to(wide)
    size = terms @ weight.abs().T + bias.abs()  # rounding is relative to the terms of the sum
    coarsest = max(torch.finfo(tensor.dtype).eps for tensor in (mapping[0], features, logits))
    return not bool((gap > max(1e-4, 4 * coarsest) * size).any())  # false where NaN


def _has_positions(layer: nn.Module, run: Run) -> bool:
    """Whether a layer ran at several positions of each sample, or is a convolution, whose input has them."""
    return run.inputs.ndim > 2 and (isinstance(layer, nn.Linear) or run.inputs.ndim == layer.weight.ndim)


def _pooled(layer: nn.Module, run: Run, logits: Tensor, pooling: str) -> Tensor:
    """One vector per sample of what the layer reads: the mean, or that of the position whose output is the answer."""
    inputs = _positions(layer, run.inputs)
    if pooling == "mean":
        return inputs.mean(dim=1, dtype=torch.promote_types(inputs.dtype, torch.float32))
    outputs = _positions(layer, run.output)
    if outputs.shape[::2] != logits.shape:
        return inputs[:, 0]
    chosen = (outputs == logits[:, None]).all(dim=2).int().argmax(dim=1)
    return inputs[torch.arange(len(inputs), device=inputs.device), chosen]


def _pooled_gives(layer: nn.Module, run: Run, logits: Tensor, pooling: str) -> bool:
    """Whether the pooled vectors that a layer reads give the logits."""
    features = _pooled(layer, run, logits, pooling)
    return _gives(layer, features, logits, _pooled_sizes(layer, run, features, pooling))


def _pooled_sizes(layer: nn.Module, run: Run, features: Tensor, pooling: str) -> Tensor:
    """Sizes of what was pooled: each position is rounded before the mean, in which large numbers may cancel."""
    if pooling != "mean":
        return features.abs()
    return _positions(layer, run.inputs).abs().mean(dim=1, dtype=features.dtype)


def _positions(layer: nn.Module, tensor: Tensor) -> Tensor:
    """(n, positions, channels); a linear layer has channels last, a convolution second."""
    return tensor.flatten(1, -2) if isinstance(layer, nn.Linear) else tensor.flatten(2).transpose(1, 2)


def _logits_alone(alike: Sequence[str], logits: Tensor) -> HeadSource:
    """The source without a layer, where the answer can be logits; ``alike``: layers with one output per class."""
    why = "no linear layer gives the model's output" + (f" (what '{alike[-1]}' gives is changed)" if alike else "")
    if are_probabilities(logits):
        raise InputError(f"the model returns probabilities, and {why} before a softmax. Let it return logits, or pass "
                         f"head=<name>; candidates: {_listed(alike)}.")  # fmt: skip
    if are_log_probabilities(logits):
        warnings.warn("the model returns log-probabilities, which are stored as logits: scores that read the size of "
                      "logits (energy, mls) lose what normalization removed. Let the model return logits.",
                      CaveatWarning, stacklevel=2)  # fmt: skip
    return HeadSource(None, linear=False, shortfall=why)


def _listed(candidates: Sequence[str], most: int = 5) -> str:
    """The names of the last layers, which come nearest to a head; models have hundreds."""
    more = "..., " if len(candidates) > most else ""
    return more + ", ".join(map(repr, candidates[-most:])) if candidates else "none"


def _n_outputs(layer: nn.Module) -> int | None:
    mapping = linear_map(layer)
    return None if mapping is None else len(mapping[0])


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Equal in shape and values; NaN equals NaN, so that a later check can name its row."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _is_normalized(output: Tensor, answer: Tensor) -> bool:
    """Whether the answer is the softmax or the logarithm of the softmax of a layer's output (n, C)."""
    if output.shape != answer.shape or output.ndim != 2 or not answer.is_floating_point():
        return False
    close = 4 * torch.finfo(answer.dtype).eps
    forms = (output.softmax(dim=1), output.log_softmax(dim=1))
    return any(torch.allclose(form.to(answer), answer, rtol=close, atol=close) for form in forms)
