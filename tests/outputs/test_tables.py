"""Parquet and Arrow tables: types, missing values, lists, and how much memory reading takes."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat._internal import files
from caveat.outputs.tables import ArrowTable, ParquetTable

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def parquet(tmp_path, columns, **options):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", **options)
    return tmp_path / "a.parquet"


def arrow(tmp_path, columns, **options):
    table = pa.table(columns)
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as stream,
        pa.ipc.new_file(stream, table.schema, **options) as writer,
    ):
        writer.write_table(table)
    return tmp_path / "a.arrow"


@pytest.mark.parametrize("write", [parquet, arrow])
@pytest.mark.parametrize(("column", "key_words"), [
    (["a", "b"], "column 'logits_1' must hold numbers, got 'a' at row 0"),
    ([1.0, None], "column 'logits_1' has no value at row 1"),
    (pa.array([[1.0], [2.0, 3.0]]), "column 'logits_1' must hold lists of one length, got 1 values at row 0 and 2"),
    (pa.array([[1.0], [None]]), "column 'logits_1' has no value at row 1"),
    ([1.0, float("nan")], "logits has NaN, first at row 1"),
])  # fmt: skip
def test_bad_cells_are_named_with_row_and_column(tmp_path, write, column, key_words):
    path = write(tmp_path, {"logits_0": [0.0, 1.0], "logits_1": column})
    with pytest.raises(InputError, match=f"{path.name}: {key_words}"):
        Outputs.load(path, keys={"logits": "logits_0,logits_1"})


@pytest.mark.parametrize("write", [parquet, arrow])
def test_numbers_of_every_type_are_read(tmp_path, write):
    columns = {
        "features_0": pa.array([1, 2], pa.int8()), "features_1": pa.array([0.5, 1.5], pa.float32()),
        "features_2": pa.array([Decimal("2.25"), Decimal("-1")]), "features_3": [True, False],
        "labels": pa.array([1, 0], pa.uint8()), "logits_0": pa.array(np.array([1, 2], dtype=np.float16)),
        "logits_1": pa.array(np.array([3, 4], dtype=np.float16)),
    }  # fmt: skip
    outputs = Outputs.load(write(tmp_path, columns) if write is arrow else parquet(tmp_path, columns))
    np.testing.assert_array_equal(outputs.features, [[1, 0.5, 2.25, 1], [2, 1.5, -1, 0]])
    np.testing.assert_array_equal(outputs.labels, [1, 0])
    assert outputs.logits.dtype == np.float16


@pytest.mark.parametrize("write", [parquet, arrow])
def test_class_names_may_be_a_dictionary(tmp_path, write):
    labels = pa.array(["cat", "dog", "cat"]).dictionary_encode()
    outputs = Outputs.load(write(tmp_path, {"logits_dog": [1.0, 2, 3], "logits_cat": [3.0, 4, 5], "labels": labels}),
                           keys={"logits": "logits_*"})  # fmt: skip
    np.testing.assert_array_equal(outputs.labels, [1, 0, 1])


def test_labels_are_one_column(tmp_path):
    path = parquet(tmp_path, {"labels": [[0, 1], [1, 0]], "a": [0, 1], "b": [1, 0]})
    with pytest.raises(InputError, match="labels must be one column"):
        Outputs.load(path, keys={"features": "a,b"})
    with pytest.raises(InputError, match="labels must be one column"):
        Outputs.load(path, keys={"labels": "a,b"})


def test_a_large_table_is_never_in_memory_twice(tmp_path):
    values = np.random.default_rng(0).normal(size=(120_000, 32))
    columns = {f"logits_{i}": values[:, i] for i in range(32)} | {f"unused_{i}": values[:, i] for i in range(32)}
    path = parquet(tmp_path, columns)
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        array = ParquetTable(path).read({"logits": tuple(f"logits_{i}" for i in range(32))})["logits"]
    finally:
        pa.set_memory_pool(before)
    np.testing.assert_array_equal(array, values)
    assert 0 < pool.max_memory() < array.nbytes  # 30 MB; decoded are a block and pages of a few columns


def test_only_the_row_groups_of_the_rows_are_decoded(tmp_path):
    path = parquet(tmp_path, {"confidence": np.arange(100.0)}, row_group_size=10)
    table, groups = ParquetTable(path), []
    read = table._file
    table._file = type("Spy", (), {"iter_batches": lambda _, size, row_groups, **options: (
        groups.extend(row_groups), read.iter_batches(size, row_groups=row_groups, **options))[1]})()  # fmt: skip
    values = table.read({"confidence": ("confidence",)}, range(25, 45, 3))["confidence"]
    np.testing.assert_array_equal(values, np.arange(25, 45, 3))
    assert groups == [2, 3, 4]


@pytest.mark.parametrize("write", [parquet, arrow])
def test_a_table_that_unpacks_to_more_than_there_is_room_for_is_refused(tmp_path, monkeypatch, write):
    packed = {"options": pa.ipc.IpcWriteOptions(compression="zstd")} if write is arrow else {"compression": "zstd"}
    path = write(tmp_path, {"confidence": np.zeros(1_000_000)}, **packed)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(files, "_free_memory", lambda: 4_000_000)
    with pytest.raises(InputError, match="needs more memory than there is"):
        Outputs.load(path)
    assert Outputs.load(path, rows=":1000").n == 1000


def test_rows_of_a_packed_arrow_file_are_counted_without_unpacking_it(tmp_path):
    path = arrow(tmp_path, {"confidence": np.zeros(1_000_000)}, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert ArrowTable(path).n == 1_000_000
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 100_000


def test_a_table_without_rows_columns_or_with_two_of_a_name(tmp_path):
    with pytest.raises(InputError, match="no rows to read"):
        Outputs.load(parquet(tmp_path, {"confidence": pa.array([], pa.float64())}))
    pq.write_table(pa.table([[1.0], [2.0]], names=["confidence", "confidence"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="two columns called 'confidence'"):
        Outputs.load(tmp_path / "b.parquet")
    (tmp_path / "old.feather").write_bytes(b"FEA1" + b"\0" * 20)
    with pytest.raises(InputError, match="version 1"):
        Outputs.load(tmp_path / "old.feather")
