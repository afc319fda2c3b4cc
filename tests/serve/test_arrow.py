"""Arrow streams: columns become arrays, and a stream cannot ask for more memory than it brings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from caveat.serve.arrow import arrow_arrays
from caveat.serve.problems import Problem

MOST = 1 << 20
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


def written(*batches, schema=None, compression=None):
    """Bytes of a stream of record batches."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write(batch)
    return sink.getvalue().to_pybytes()


def stream(compression=None, **columns):
    """Bytes of a stream with one batch: matrices as lists of fixed size, vectors as plain numbers."""
    arrays = {name: column if isinstance(column, pa.Array) else
              pa.array(column) if column.ndim == 1 else
              pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), column.shape[1])
              for name, column in columns.items()}  # fmt: skip
    return written(pa.record_batch(arrays), compression=compression)


def refused(status, body, match):
    with pytest.raises(Problem, match=match) as problem:
        arrow_arrays(body, MOST)
    assert problem.value.status == status


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u2", "u8"])
def test_columns_become_arrays(dtype):
    arrays = arrow_arrays(stream(features=ROWS.astype(dtype), confidence=ROWS[:, 0].astype(dtype)), MOST)
    assert np.array_equal(arrays["features"], ROWS)
    assert arrays["confidence"].tolist() == [0, 4, 8]
    assert {array.dtype for array in arrays.values()} == {np.dtype(dtype)}
    assert all(array.flags.aligned and array.flags.c_contiguous for array in arrays.values())


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 4)])
def test_lists_of_one_length_are_rows(kind):
    column = pa.array(ROWS.tolist(), kind)
    batch, tail = pa.record_batch({"x": column}), pa.record_batch({"x": column.slice(1)})
    assert np.array_equal(arrow_arrays(written(batch, tail), MOST)["x"], np.concatenate([ROWS, ROWS[1:]]))


@pytest.mark.parametrize("column", [
    pa.array(["a"]), pa.array([None]), pa.array([True]), pa.array([b"x"]), pa.array([[["x"]]]), pa.array([{"a": 1.0}]),
    pa.array([1], pa.timestamp("s")), pa.array([[[1.0]]]), pa.array([1]).dictionary_encode(),
    pa.nulls(5), pa.array([[], []], pa.list_(pa.float32())), pa.array([[1.0], [1.0, 2.0]]), pa.array([1.0, None]),
    pa.array([[1.0, None]]), pa.array([[1.0], None], pa.list_(pa.float64(), 1)), pa.array([], pa.float32()),
    pa.array([[], []], pa.list_(pa.float32(), 0)),
    pa.RunEndEncodedArray.from_arrays([2**30], [1.0]),
])  # fmt: skip
def test_columns_that_are_not_rows_of_numbers_are_refused(column):
    refused(422, stream(x=column), "column 'x'|got a dictionary")


def test_equal_and_many_names_are_refused():
    column = pa.array([1.0])
    refused(422, written(pa.RecordBatch.from_arrays([column, column], ["x", "x"])), "different names")
    refused(422, written(pa.RecordBatch.from_arrays([column] * 101, [str(i) for i in range(101)])), "at most 100")


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_buffers_are_refused_before_anything_is_unpacked(compression):
    body = stream(compression, x=np.zeros((10_000, 1000), dtype=np.float32))  # 40 MB
    assert len(body) < MOST
    before = pa.default_memory_pool().max_memory()
    refused(415, body, "compressed")
    assert pa.default_memory_pool().max_memory() == before


def test_a_stream_larger_than_the_limit_is_refused():
    refused(413, stream(x=np.zeros((1000, 1000), dtype=np.float32)), "at most")
    batch = pa.record_batch({"x": pa.array([], pa.float32())})
    refused(413, written(*[batch] * 1001), "record batches")


def test_a_batch_that_claims_more_rows_than_it_brings_is_malformed():
    body = stream(x=np.arange(77, dtype=np.float64))
    refused(400, body.replace((77).to_bytes(8, "little"), (2**40).to_bytes(8, "little")), "Arrow stream")


def test_cut_streams_are_malformed():
    body = stream(features=ROWS)
    for cut in (0, 4, 100, len(body) // 2):
        refused(400, body[:cut], "Arrow stream")
    refused(400, b"ARROW1" + body, "Arrow stream")


def test_messages_in_another_order_are_refused():  # pyarrow.ipc.read_schema of a record batch ends the process
    body = stream(features=ROWS)
    schema = 8 + int.from_bytes(body[4:8], "little")
    refused(422, body[schema:], "record batch for a schema")
    refused(422, body[:schema] + body, "schema for a record batch")


def test_a_stream_without_batches_has_no_rows():
    refused(422, written(schema=pa.schema({"x": pa.float32()})), "at least one row")
