from __future__ import annotations

import csv

import pytest

from caveat import InputError
from caveat.study import tables

ROWS = [{"score": "msp", "value": 0.5}, {"score": "knn, k=5", "value": 0.25}]


def test_parquet_where_pyarrow_is_installed(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    path = tables.write_table(ROWS, tmp_path)
    assert path.name == "results.parquet"
    assert pq.read_table(path).to_pylist() == ROWS


def test_csv_where_it_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    path = tables.write_table(ROWS, tmp_path)
    assert path.name == "results.csv"
    with path.open(newline="") as stream:
        assert [{**row, "value": float(row["value"])} for row in csv.DictReader(stream)] == ROWS


def test_nothing_to_write_is_an_error(tmp_path):
    with pytest.raises(InputError, match="at least one result"):
        tables.write_table([], tmp_path)
    assert list(tmp_path.iterdir()) == []
