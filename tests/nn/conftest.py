"""A simulated device: tensors on it hold numbers, and an operation that mixes it with the CPU is an error.

It replaces a GPU. Its name is "meta", which torch knows everywhere; inside the context a tensor
that is made on it or moved to it keeps its numbers. Indices and single numbers may stay on the CPU, as with CUDA.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

PLACE = torch.device("meta")
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
_MOVING = ("aten::_to_copy", "aten::copy_")


class _There(Tensor):
    """A tensor on the device, around one on the CPU."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=PLACE, requires_grad=False,
        )  # fmt: skip
        made.inner = inner
        return made

    def numpy(self, *args, **kwargs):
        raise TypeError("can't convert a tensor on the pretended device to numpy: move it to the CPU first")

    __array__ = numpy

    # These two tell torch that a module must exchange its parameters, not their memory, when it is converted.
    def __tensor_flatten__(self):
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, *_):
        return cls(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _run(func, args, kwargs):
    name = func._schema.name
    tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
    there = [value for value in tensors if isinstance(value, _There)]
    asked = kwargs.get("device")
    to_there = bool(there) if asked is None else torch.device(asked) == PLACE
    if there and name not in _MOVING:
        small = tensors[1:] if name in _INDEXING else [value for value in tensors if value.ndim == 0]
        for value in tensors:
            if not isinstance(value, _There) and not any(value is one for one in small):
                raise RuntimeError(f"{name}: expected all tensors on one device, found {PLACE} and cpu")
    if name == "aten::copy_":
        to_there = isinstance(args[0], _There)
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    args, kwargs = tree_map(lambda v: v.inner if isinstance(v, _There) else v, (args, kwargs))
    result = func(*args, **kwargs)
    if not to_there:
        return result
    given = {id(value.inner): value for value in there}  # what was changed in place keeps its identity
    return tree_map(lambda v: given.get(id(v), _There(v)) if isinstance(v, Tensor) else v, result)


@pytest.fixture
def elsewhere():
    """A device that is not the CPU."""
    with _Mode():
        yield PLACE


class _LargestTensor(TorchDispatchMode):
    """Inside, the number of entries of the largest tensor that is made."""

    entries = 0

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else newer torch imports its compiler, which takes seconds

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        for part in result if isinstance(result, (tuple, list)) else [result]:
            self.entries = max(self.entries, part.numel() if isinstance(part, Tensor) else 0)
        return result


@pytest.fixture(scope="session")
def largest_tensor():
    return _LargestTensor
