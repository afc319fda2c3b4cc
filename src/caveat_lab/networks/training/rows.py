"""Training data in memory: sliced by a permutation, a batch at a time, without per-row collation."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from caveat._internal.checks import as_count, as_kind, as_real_array, check_finite
from caveat.errors import InputError
from caveat.nn._rows import class_numbers

__all__ = ["Draw", "Loader", "Rows", "as_draw", "as_inputs", "draw_fingerprint"]

Draw = Callable[[int, torch.Generator], Tensor]


def as_inputs(value: Any, name: str) -> Tensor:
    """Inputs as a tensor. ``uint8`` arrays of three or four axes are images and stay bytes; the rest becomes float32.

    Bytes of shape (n, H, W) get a channel axis; (n, H, W, 3) becomes (n, 3, H, W). They are scaled to [0, 1] a batch
    at a time, which takes a quarter of the memory and costs little compared to a convolution.

    Examples
    --------
    >>> as_inputs(np.zeros((5, 28, 28), dtype=np.uint8), "x").shape
    torch.Size([5, 1, 28, 28])
    """
    if isinstance(value, Tensor):
        tensor = value
    else:
        images = getattr(value, "dtype", None) == np.uint8
        tensor = _read_only(np.ascontiguousarray(value if images else as_real_array(value, name)))
    if tensor.ndim < 2 or tensor.shape[0] == 0:
        raise InputError(f"{name} must have at least one row and two axes, got shape {tuple(tensor.shape)}.")
    if tensor.dtype == torch.uint8 and tensor.ndim > 2:
        if tensor.ndim == 3:
            return tensor.unsqueeze(1)
        if tensor.ndim == 4 and tensor.shape[-1] == 3 and tensor.shape[1] != 3:
            return tensor.permute(0, 3, 1, 2).contiguous()
        return tensor
    tensor = tensor.float()
    check_finite(tensor.detach().cpu().numpy(), name)
    return tensor


def _read_only(array: NDArray[Any]) -> Tensor:
    """The memory of an array as a tensor that is never written to, so that a memory map need not be copied."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        return torch.from_numpy(array)


def scaled(inputs: Tensor) -> Tensor:
    """Bytes as numbers in [0, 1]; anything else as it is."""
    return inputs.float().div_(255) if inputs.dtype == torch.uint8 else inputs


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs and labels of one data set, taken by row numbers."""

    n: int
    labels: Tensor | None
    take: Callable[[Tensor], tuple[Tensor, Tensor | None]]
    fingerprint: Callable[[], str]

    @classmethod
    def of(cls, data: Any, name: str, *, labeled: bool = True) -> Rows:
        """From ``(x, y)``, from ``x`` alone, or from a ``torch.utils.data.Dataset``; y only if ``labeled``."""
        if isinstance(data, (torch.utils.data.DataLoader, torch.utils.data.IterableDataset)):
            raise InputError(f"{name} must be arrays or a Dataset with rows by number, got {type(data).__name__}. "
                             "Rows are drawn and batched here: pass loader.dataset.")  # fmt: skip
        if isinstance(data, torch.utils.data.TensorDataset):
            data = data.tensors if len(data.tensors) > 1 else data.tensors[0]
        if isinstance(data, torch.utils.data.Dataset):
            return _lazy(data, name, labeled)
        pair = isinstance(data, (tuple, list) if labeled else tuple) and len(data) == 2
        x, y = data if pair else (data, None)
        inputs = as_inputs(x, f"{name} inputs")
        labels = _as_labels(y, f"{name} labels", len(inputs)) if labeled and y is not None else None

        def take(rows: Tensor) -> tuple[Tensor, Tensor | None]:
            return scaled(inputs[rows]), None if labels is None else labels[rows]

        return cls(len(inputs), labels, take, lambda: _digest(inputs, labels))

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Everything, in order."""
        for start in range(0, self.n, size):
            yield self.take(torch.arange(start, min(start + size, self.n)))


@final
@dataclass(frozen=True, eq=False)
class Loader:
    """All rows in order, in batches with a length: (inputs, labels), or inputs where there are no labels."""

    rows: Rows
    size: int

    def __len__(self) -> int:
        return (self.rows.n + self.size - 1) // self.size

    def __iter__(self) -> Iterator[Any]:
        for inputs, labels in self.rows.batches(self.size):
            yield inputs if labels is None else (inputs, labels)


def _lazy(data: Any, name: str, labeled: bool) -> Rows:
    """Rows of a data set made on demand, for sets that do not fit in memory or change their rows at random."""
    n = as_count(len(data), f"the number of rows of {name}")
    if labeled and not (isinstance(first := data[0], (tuple, list)) and len(first) > 1):
        raise InputError(f"{name} must give (input, label) pairs, got {type(first).__name__}.")
    labels = None
    if labeled:
        targets = getattr(data, "targets", None)  # as torchvision's sets have them: no need to make every row
        if targets is None or getattr(data, "target_transform", None) is not None:
            targets = np.stack([np.asarray(data[i][1]) for i in range(n)])
        labels = _as_labels(targets, f"{name} labels", n)

    def take(rows: Tensor) -> tuple[Tensor, Tensor | None]:
        samples = [data[i] for i in rows.tolist()]
        inputs = torch.utils.data.default_collate([s[0] if isinstance(s, (tuple, list)) else s for s in samples])
        inputs = as_kind(inputs, Tensor, f"an input of {name}", what="a tensor or an array")
        return scaled(inputs), None if labels is None else labels[rows]

    def fingerprint() -> str:
        return _digest(take(torch.arange(min(64, n)))[0], labels)

    return Rows(n, labels, take, fingerprint)


def _as_labels(value: Any, name: str, n: int) -> Tensor:
    return torch.from_numpy(class_numbers(value, name, n=n).astype(np.int64))


def _digest(*tensors: Tensor | None) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def draw_fingerprint(outliers: Any) -> str | None:
    """Of an array or data set that outliers are drawn from; a function has none."""
    return None if outliers is None or _draws(outliers) else Rows.of(outliers, "outliers", labeled=False).fingerprint()


def as_draw(outliers: Any) -> Draw:
    """A function that draws n outliers: ``outliers`` itself, or rows of that array or data set, with replacement."""
    if _draws(outliers):
        return outliers  # type: ignore[no-any-return]
    pool = Rows.of(outliers, "outliers", labeled=False)
    return lambda n, generator: pool.take(torch.randint(pool.n, (n,), generator=generator))[0]


def _draws(outliers: Any) -> bool:
    return callable(outliers) and not isinstance(outliers, Tensor)
