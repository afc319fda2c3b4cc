"""The rows of a source as scores see them: shapes at once, values only block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat.errors import InputError
from caveat.outputs import Head, Outputs
from caveat.outputs.outputs import LAYER, SAMPLE_AXIS
from caveat.scale.sources import Source

__all__ = ["SourceRows", "Unread", "pieces"]

_PIECE_BYTES = 32 * 2**20  # read at once; several blocks, so that a file is not opened for each


@final
@dataclass(frozen=True)
class Unread:
    """Shape and type of an array whose values are not in memory."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise InputError(f"{self.name} of a source is not in memory. Read a range of rows: source.read(start, stop).")

    def __getitem__(self, _: Any) -> Any:
        return self.__array__()


@final
class SourceRows:
    """Rows ``start`` to ``stop`` of a source, with as much of ``Outputs`` as gathering statistics reads.

    Parameters
    ----------
    source
        Where the rows are.
    first
        The first row of the source, which has its fields, shapes and types.
    start, stop
        Range of rows.
    n_classes
        Number of classes; where labels alone say it, one row does not.
    check
        Whether values are checked as they are read; the first walk does.
    """

    def __init__(
        self, source: Source, first: Outputs, start: int, stop: int, *, n_classes: int | None, check: bool = True
    ) -> None:
        self.source, self.first, self.start, self.stop, self.check = source, first, start, stop, check
        self.n, self.n_classes = stop - start, n_classes

    @property
    def head(self) -> Head | None:
        head: Head | None = self.first.head
        return head

    @property
    def class_names(self) -> tuple[str, ...] | None:
        names: tuple[str, ...] | None = self.first.class_names
        return names

    @property
    def has_class_columns(self) -> bool:
        return self.first.has_class_columns

    @property
    def layers(self) -> dict[str, Unread]:
        """Shapes of inner layers by name."""
        return {key.removeprefix(LAYER): self._unread(key) for key in self.first.stored() if key.startswith(LAYER)}

    def has(self, field: str) -> bool:
        """Whether a field is there, stored or derivable."""
        return self.first.has(field)

    def stored(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and type of every stored array, as in ``Outputs.stored``."""
        return {key: (self._unread(key).shape, dtype) for key, (_, dtype) in self.first.stored().items()}

    def __getattr__(self, name: str) -> Any:
        if name in SAMPLE_AXIS:
            return self._unread(name) if name in self.first.stored() else None
        raise AttributeError(name)

    def _unread(self, key: str) -> Unread:
        shape, dtype = self.first.stored()[key]
        if not key.startswith("head_"):
            axis = SAMPLE_AXIS.get(key, 0)
            shape = (*shape[:axis], self.n, *shape[axis + 1 :])
        return Unread(key, shape, dtype)

    def blocks(self, fields: Iterable[str] | None = None) -> Iterator[Outputs]:
        """Row blocks, cut as ``Outputs.blocks`` cuts rows that are in memory."""
        fields = None if fields is None else set(fields)
        for piece in pieces(self.source, self.first, self.start, self.stop, fields, check=self.check):
            yield from piece.blocks(fields)


def pieces(
    source: Source, first: Outputs, start: int, stop: int, fields: Iterable[str] | None, *, check: bool
) -> Iterator[Outputs]:
    """The range in pieces of about 32 MiB that end where blocks end."""
    row_bytes = first.room(fields)
    block = next(row_blocks(stop - start, row_bytes=row_bytes)).stop
    step = block * max(1, _PIECE_BYTES // (block * max(1, row_bytes)))
    for begin in range(start, stop, step):
        yield source.read(begin, min(begin + step, stop), fields, check=check)
