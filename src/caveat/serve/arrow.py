"""Arrow streams to arrays: a column per field, rows as lists of numbers.

Messages are looked at before they are decoded: a compressed buffer declares its own unpacked size, which Arrow would
allocate, so that a stream with compressed buffers or dictionaries is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat.serve.bodies import MEMBERS, reason, settled
from caveat.serve.problems import Problem

__all__ = ["arrow_arrays"]

_BATCHES = 1000  # record batches of one stream
_BATCH_HEADER, _COMPRESSION = 2, 3  # places of fields in the tables Message and RecordBatch of Arrow's Message.fbs


def arrow_arrays(body: bytes, most: int) -> dict[str, NDArray[Any]]:
    """Columns of an Arrow IPC stream: fixed-size or equally long lists give (n, D), plain numbers (n,)."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise Problem(415, "this service reads no Arrow streams: pyarrow is not installed. Send npy or npz.") from None
    try:
        table = _table(body, most)
        return {name: _column(table.column(name), name) for name in table.column_names}
    except Problem:
        raise
    except Exception as error:  # damage makes pyarrow raise errors of a dozen kinds
        raise Problem(
            400, f"the body is not an Arrow stream ({reason(error)}). Write it with pyarrow.ipc.new_stream."
        ) from None


def _table(body: bytes, most: int) -> Any:
    import pyarrow as pa

    buffer = pa.py_buffer(body)
    _check_messages(pa.ipc.MessageReader.open_stream(buffer))
    with pa.ipc.open_stream(buffer) as reader:
        schema, batches, size = reader.schema, [], 0
        if len(schema) > MEMBERS or len(set(schema.names)) < len(schema):
            raise Problem(422, f"the stream must have at most {MEMBERS} columns with different names, got "
                          f"{len(schema)}.")  # fmt: skip
        for field in schema:
            _check_type(field.type, field.name)
        for batch in reader:
            batch.validate(full=True)
            batches.append(batch)
            size += batch.nbytes
            if size > most:
                raise Problem(413, f"the stream must have at most {most} bytes. Send fewer rows at a time.")
    return pa.Table.from_batches(batches, schema)


def _check_messages(messages: Any) -> None:
    """Refuse what pyarrow would unpack, before it does: compressed buffers and dictionaries."""
    count = 0
    while (message := _next(messages)) is not None:
        kind = "record batch" if count else "schema"
        if message.type != kind:
            raise Problem(422, f"the stream must be a schema and record batches, got a {message.type} for a {kind}.")
        if count and _compressed(message.metadata.to_pybytes()):
            raise Problem(415, "the buffers of the stream must not be compressed. Write it with compression=None.")
        count += 1
        if count > _BATCHES + 1:
            raise Problem(413, f"the stream must have at most {_BATCHES} record batches. Send larger ones.")


def _next(messages: Any) -> Any:
    """The next message; None at the end of the stream."""
    try:
        return messages.read_next_message()
    except StopIteration:
        return None


def _compressed(metadata: bytes) -> bool:
    """Whether a record batch has compressed buffers, from the flatbuffer of its message."""
    message = int.from_bytes(metadata[:4], "little")
    place = _field(metadata, message, _BATCH_HEADER)
    if not place:
        raise ValueError("a message has no header")
    batch = place + int.from_bytes(metadata[place : place + 4], "little")
    return bool(_field(metadata, batch, _COMPRESSION))


def _field(metadata: bytes, table: int, i: int) -> int:
    """Where field i of a flatbuffer table is; 0 where it is absent."""
    slots = table - int.from_bytes(metadata[table : table + 4], "little", signed=True)
    if not 0 <= slots <= len(metadata) - 4:
        raise ValueError("a table of a message is outside of it")
    slot = 4 + 2 * i
    if slot + 2 > int.from_bytes(metadata[slots : slots + 2], "little"):
        return 0
    offset = int.from_bytes(metadata[slots + slot : slots + slot + 2], "little")
    return table + offset if offset else 0


def _check_type(kind: Any, name: str) -> None:
    """Refuse a column that is neither numbers nor lists of numbers, and so everything that can take no bytes a row."""
    import pyarrow as pa

    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    values = kind.value_type if lists else kind
    if not (pa.types.is_floating(values) or pa.types.is_integer(values)):
        raise Problem(422, f"the column {name[:100]!r} must hold numbers or lists of numbers, got {str(kind)[:100]}.")
    if pa.types.is_fixed_size_list(kind) and kind.list_size < 1:
        raise Problem(422, f"the lists of the column {name[:100]!r} must not be empty.")


def _column(chunks: Any, name: str) -> NDArray[Any]:
    import pyarrow as pa

    column = pa.concat_arrays(chunks.chunks) if chunks.num_chunks else pa.array([], chunks.type)
    values, width = column, 1
    if column.type.num_fields:  # lists
        values = column.flatten()
        if pa.types.is_fixed_size_list(column.type):
            width = column.type.list_size
        else:
            lengths = np.diff(column.offsets.to_numpy())
            width = int(lengths[0]) if lengths.size else 0
            if (lengths != width).any():
                raise Problem(422, f"the rows of the column {name[:100]!r} must have the same length.")
    if column.null_count or values.null_count:
        raise Problem(422, f"the column {name[:100]!r} has nulls. Send numbers.")
    if not len(column) or not width:
        raise Problem(422, f"the column {name[:100]!r} must hold at least one row and one number a row.")
    shape = (len(column), width) if column.type.num_fields else (len(column),)
    return settled(values.to_numpy(zero_copy_only=False).reshape(shape))
