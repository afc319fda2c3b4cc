"""Arrow streams to arrays: a column per field, rows as lists of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat.serve.problems import Problem

__all__ = ["arrow_arrays"]


def arrow_arrays(body: bytes, most: int) -> dict[str, NDArray[Any]]:
    """Columns of an Arrow IPC stream: fixed-size or equally long lists give (n, D), plain numbers (n,)."""
    try:
        import pyarrow as pa
    except ImportError:
        raise Problem(415, "this service reads no Arrow streams: pyarrow is not installed. Send npy or npz.") from None
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            batches, size = [], 0
            for batch in reader:
                size += batch.nbytes
                if size > most:
                    raise Problem(
                        413, f"the unpacked stream must have at most {most} bytes. Send fewer rows at a time."
                    )
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
        return {name: _column(table.column(name).combine_chunks(), name) for name in table.column_names}
    except (pa.ArrowException, ValueError, OSError, KeyError, NotImplementedError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Problem(
            400, f"the body is not an Arrow stream ({reason}). Write it with pyarrow.ipc.new_stream."
        ) from None


def _column(column: Any, name: str) -> NDArray[Any]:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if column.null_count:
        raise Problem(422, f"the column {name[:100]!r} has nulls. Send numbers.")
    if lists or pa.types.is_fixed_size_list(column.type):
        values, n = column.flatten(), len(column)
        sizes = np.diff(column.offsets.to_numpy()) if lists else np.full(n, column.type.list_size)
        if n and (sizes != sizes[0]).any():
            raise Problem(422, f"the rows of the column {name[:100]!r} must have the same length.")
        shape: tuple[int, ...] = (n, int(sizes[0]) if n else 0)
    else:
        values, shape = column, (len(column),)
    if values.null_count or not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise Problem(422, f"the column {name[:100]!r} must hold numbers or lists of numbers, got {column.type}.")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(shape)
