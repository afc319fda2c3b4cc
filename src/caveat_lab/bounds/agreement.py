"""Check that the graph that bounds follow does what the network does.

Both are run once, and each elementary operation that torch carries out is recorded, with changes in place rewritten as
new values (functionalization). The network is called as its users call it, with its hooks; the graph is run as bounds
read it, each layer by the forward pass of its type and each operation on copies. If the two answers are not made from
the input by the same operations, nothing is certified: a hook takes part, or a tensor is read after another name of it
was written to, or a constant changes from call to call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor, fx, nn
from torch.func import functionalize
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from caveat.errors import InputError
from caveat.nn._modes import at_rest
from caveat.nn._walk import first_line
from caveat_lab.bounds.tracing import Reading

__all__ = ["demand_agreement"]

_RUNS = ((2, False), (1, True))  # size of the batch, gradients: a forward pass may look at both
_aten = torch.ops.aten
_KEEPS_VALUES = {_aten.clone, _aten.detach, _aten.alias, _aten.lift_fresh, _aten.lift_fresh_copy, _aten.contiguous,
                 _aten.view, _aten._unsafe_view, _aten.reshape, _aten._reshape_alias, _aten.squeeze,
                 _aten.unsqueeze}  # fmt: skip
_GIVES_VALUES = {"numpy", "__array__", "__dlpack__", "tolist", "data_ptr", "untyped_storage"}


def demand_agreement(
    model: nn.Module, reading: Reading, like: Tensor, *, runs: Sequence[tuple[int, bool]] = _RUNS
) -> None:
    """Raise unless a model does what its graph says, for inputs such as ``like`` (n, ...).

    ``runs``: sizes of the batch, and whether gradients are kept.
    """
    kind = (like.shape[1:], like.dtype, like.device)
    if kind in reading.agreed:
        return
    for n, gradients in runs:
        example = torch.rand((n, *like.shape[1:]), dtype=like.dtype, generator=torch.Generator().manual_seed(n))
        with torch.set_grad_enabled(gradients), at_rest(model):
            _compare(model, reading, example.to(like.device))
    reading.agreed.add(kind)


def _compare(model: nn.Module, reading: Reading, example: Tensor) -> None:
    name, terms = type(model).__name__, _Terms()
    done, error = _answer(terms, model, example)
    read, other_error = _answer(terms, lambda x: reading.run(model, x, _step(model, reading)), example)
    if done is None and read is None and example.shape[0] == 1:
        return  # squeeze() without an axis, for example: the model does not take a batch of one
    if done is None or read is None:
        raise InputError(f"the forward pass of {name} cannot be read ({error or other_error}). "
                         "Write it without branches on values and without chance.")  # fmt: skip
    if done != read:
        raise InputError(f"{name} does not compute what its graph of layers says, so nothing is certified. Look for "
                         "tensors changed in place and read again, and for chance or state in hooks.")  # fmt: skip


def _answer(terms: _Terms, call: Callable[[Tensor], Any], example: Tensor) -> tuple[int | None, str]:
    """The term that a call answers with, or None and the reason."""
    example = example.clone()
    try:
        with _ValuesStayInside(), _Recorder(terms, example) as recorder:
            answer = functionalize(call)(example)
        return recorder.term_of(answer), "the answer does not come from the input by operations of torch"
    except Exception as error:  # a forward pass may raise anything
        return None, first_line(error)


def _step(model: nn.Module, reading: Reading) -> Callable[[fx.Node, Any, Any], Any]:
    """One node of the graph on tensors, as bounds read it: values in, values out, no memory shared."""

    def step(node: fx.Node, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(Tensor, torch.clone, (args, kwargs))
        target: Any = node.target
        if (module := reading.module(model, node)) is not None:
            return type(module).forward(module, *args, **kwargs)
        return target(*args, **kwargs) if node.op == "call_function" else getattr(args[0], target)(*args[1:], **kwargs)

    return step


@final
class _ValuesStayInside(TorchFunctionMode):
    """No value of a tensor may leave torch: results made from it would count as constants."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _GIVES_VALUES and torch._is_functional_tensor(args[0]):
            raise InputError(f"it reads values with Tensor.{func.__name__}")
        return func(*args, **kwargs or {})


@final
class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records how each tensor was made from the input; a tensor that was not is a constant."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # newer torch would import its compiler to skip this class, which takes more than a second

    def __init__(self, terms: _Terms, example: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.terms = terms
        self.made = {id(example): (example, terms.input)}  # the tensor is kept, so that its id stays its own

    def term_of(self, value: Any) -> int | None:
        return self.made[id(value)][1] if id(value) in self.made else None

    def _uses_input(self, values: Any) -> bool:
        return any(id(part) in self.made for part in _tensors(values))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise InputError(f"it draws random numbers with {func}")
        if not self._uses_input((args, kwargs)):
            return result
        # An index is data-dependent only if its positions come from the input.
        positions = args[1:] if func is _aten.index.Tensor else (args, kwargs)
        varying = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags)
        if varying and self._uses_input(positions):
            raise InputError(f"it depends on values through {func}")
        key = tree_map_only(
            Tensor, lambda part: self.term_of(part) or self.terms.constant(part), (args, kwargs)
        )  # fmt: skip
        for place, part in enumerate(_tensors(result)):
            if func.overloadpacket in _KEEPS_VALUES and part.dtype == args[0].dtype:
                term = self.terms.reshaped(self.made[id(args[0])][1], args[0].shape, part.shape)
            else:
                term = self.terms.number((func, place, _frozen(key)))
            self.made[id(part)] = (part, term)
        return result


class _Term(int):
    """The number of a term, which is not a number in a term."""


@final
class _Terms:
    """Numbers for terms: the same number for the same operation on the same things."""

    def __init__(self) -> None:
        self.numbers: dict[Any, _Term] = {}
        self.bases: dict[_Term, tuple[_Term, torch.Size]] = {}
        self.input = self.number("input")

    def number(self, key: Any) -> _Term:
        return self.numbers.setdefault(key, _Term(len(self.numbers) + 1))

    def reshaped(self, term: _Term, before: torch.Size, after: torch.Size) -> _Term:
        """The same values in the same order; one reshape after the other is one."""
        base, shape = self.bases.get(term, (term, before))
        if shape == after:
            return base
        new = self.number(("reshape", base, tuple(after)))
        self.bases[new] = base, shape
        return new

    def constant(self, value: Tensor) -> _Term:
        """A constant by its current content, which may change from one use to the next."""
        content = value.detach().reshape(-1).contiguous().view(torch.uint8).cpu().numpy()
        return self.number((tuple(value.shape), value.dtype, value.device, hashlib.blake2b(content.data).digest()))


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _frozen(value: Any) -> Any:
    """A value as a key: lists become tuples, numbers keep their type."""
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(part) for part in value)
    if isinstance(value, dict):
        return tuple(sorted((name, _frozen(part)) for name, part in value.items()))
    return type(value).__name__, str(value)
