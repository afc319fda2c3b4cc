from __future__ import annotations

import csv
import math

import pytest

from caveat import InputError, MissingExtraError
from caveat._internal import result_tables as tables

ROWS = [{"score": "msp", "value": 0.5}, {"score": "knn, k=5", "value": 0.25}]


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_csv_is_always_written_and_parquet_has_the_same_rows(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    path = tables.write_tables(ROWS, tmp_path)
    assert path.name == "results.csv"
    assert [{**row, "value": float(row["value"])} for row in read_csv(path)] == ROWS
    assert pq.read_table(tmp_path / "results.parquet").to_pylist() == ROWS


def test_without_pyarrow_no_older_parquet_file_stays(tmp_path, monkeypatch):
    (tmp_path / "results.parquet").write_bytes(b"of an earlier run")
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    tables.write_tables(ROWS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]


def test_rows_with_other_columns_types_and_missing_values(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [{"a": 1, "sure": True, "mixed": 1.5}, {"b": math.nan, "sure": False, "mixed": "none"}]
    assert read_csv(tables.write_tables(rows, tmp_path)) == [
        {"a": "1", "sure": "true", "mixed": "1.5", "b": ""}, {"a": "", "sure": "false", "mixed": "none", "b": ""},
    ]  # fmt: skip
    stored = pq.read_table(tmp_path / "results.parquet")
    assert stored.column_names == ["a", "sure", "mixed", "b"]
    assert stored["a"].to_pylist() == [1, None]
    assert stored["sure"].to_pylist() == [True, False]
    assert stored["mixed"].to_pylist() == ["1.5", "none"]
    assert math.isnan(stored["b"].to_pylist()[1])


def test_parquet_alone_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="stats"):
        tables.write_parquet(ROWS, tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_write_is_an_error(tmp_path):
    with pytest.raises(InputError, match="at least one result"):
        tables.write_tables([], tmp_path)
    assert list(tmp_path.iterdir()) == []
