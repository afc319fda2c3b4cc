from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

from caveat import InputError, MissingExtraError
from caveat.scale import open_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table(outputs, *, fixed=True):
    columns = {"labels": pa.array(outputs.labels), "confidence": pa.array(outputs.confidence)}
    for key in ("features", "logits"):
        array = getattr(outputs, key)
        flat = pa.array(array.ravel())
        if fixed:
            columns[key] = pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
        else:
            columns[key] = pa.ListArray.from_arrays(np.arange(0, array.size + 1, array.shape[1], dtype=np.int32), flat)
    return pa.table(columns)


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed-size lists", "lists"])
@pytest.mark.parametrize("rows_per_group", [7, 1000])
def test_any_range_of_a_file_or_a_folder_is_that_of_the_outputs(tmp_path, train, fixed, rows_per_group):
    pq.write_table(table(train, fixed=fixed), tmp_path / "one.parquet", row_group_size=rows_per_group)
    (tmp_path / "many").mkdir()
    for i, start in enumerate(range(0, train.n, 100)):
        part = table(train[start : start + 100], fixed=fixed)
        pq.write_table(part, tmp_path / "many" / f"{i}.parquet", row_group_size=rows_per_group)
    for path in ("one.parquet", "many"):
        source = pickle.loads(pickle.dumps(open_source(tmp_path / path)))
        assert source.n == train.n
        for start, stop in ((0, 1), (95, 130), (0, train.n)):
            part = source.read(start, stop)
            for key in ("features", "logits", "labels", "confidence"):
                np.testing.assert_array_equal(getattr(part, key), getattr(train, key)[start:stop])


def test_the_head_is_given_or_stands_in_the_folder(tmp_path, train):
    pq.write_table(table(train), tmp_path / "0.parquet")
    assert open_source(tmp_path).read(0, 1).head is None
    assert open_source(tmp_path, head=train.head).read(0, 1).head is train.head
    np.save(tmp_path / "head_weight.npy", train.head.weight)
    np.save(tmp_path / "head_bias.npy", train.head.bias)
    np.testing.assert_array_equal(open_source(tmp_path).read(0, 1).head.weight, train.head.weight)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[1.0, 2.0], [3.0]], "lists of one length, got 1 to 2"),
        ([[1.0, 2.0], None], "missing values"),
        ([[1.0, None], [2.0, 3.0]], "missing values"),
    ],
)
def test_a_column_that_is_no_matrix_is_said(tmp_path, values, words):
    pq.write_table(pa.table({"features": pa.array(values, type=pa.list_(pa.float32()))}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=words):
        open_source(tmp_path / "x.parquet").read(0, 2)


def test_files_of_other_columns_and_files_that_are_none_are_said(tmp_path, train):
    pq.write_table(table(train), tmp_path / "0.parquet")
    pq.write_table(table(train).drop(["logits"]), tmp_path / "1.parquet")
    with pytest.raises(InputError, match="need the same"):
        open_source(tmp_path)
    (tmp_path / "0.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        open_source(tmp_path)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="Rename its columns"):
        open_source(tmp_path / "x.parquet")


def test_parquet_names_its_extra_where_it_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match="extra 'scale'"):
        open_source(tmp_path / "x.parquet")
