"""Records are unchanged after writing and reading."""

from __future__ import annotations

import io
from dataclasses import fields

import numpy as np
import pytest

from caveat import InputError
from caveat.evaluation.records import RECORDS, Block, Certificate, Curve, Detection, Left, Method, Scores
from caveat.results import Estimate
from caveat_lab.experiments.records_table import is_record_table, records_in, records_table

pq = pytest.importorskip("pyarrow.parquet")

BLOCK = Block("net", 3, "svhn", "far")
METHOD = Method("knn", (("k", 10), ("normalize", True), ("scale", 0.5)), "global")
NUMBER = Estimate(0.9, 0.8, np.nan, level=0.95, n=10, method="DeLong", caveat="small")
FOUND = [
    Detection(BLOCK, METHOD, auroc=NUMBER),
    Scores(BLOCK, METHOD, "inlier", np.array([1.5, np.nan, -np.inf])),
    Left(Block("net"), Method("msp"), "needs logits"),
    Curve(BLOCK, "knn", "roc", np.linspace(0, 1, 5), np.zeros(5), np.full(5, np.nan), np.zeros(0)),
    Certificate(BLOCK, "good", 0.3, 1.0, 0.9, 0.8, NUMBER, 0.99, 0.2, 0.3, 0.0, 100, 50, np.arange(3.0), np.ones(2),
                classes=("a", "b|c"), class_confidence=np.ones(2)),
]  # fmt: skip


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b, equal_nan=True)
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return a == b or (a != a and b != b)


def through_a_file(records):
    stream = io.BytesIO()
    pq.write_table(records_table(records), stream)
    stream.seek(0)
    return pq.read_table(stream)


def test_records_come_back_as_they_were():
    table = through_a_file(FOUND)
    assert is_record_table(table.schema)
    back = list(records_in(table))
    assert len(back) == len(FOUND)
    assert all(same(a, b) for a, b in zip(FOUND, back, strict=True))
    assert [type(record) for record in records_in(table, [Left, Curve])] == [Left, Curve]


def test_every_kind_has_a_schema():
    for kind in RECORDS.values():
        assert records_table([]).num_rows == 0
        assert kind.__name__ in RECORDS


def test_other_tables_are_no_records():
    import pyarrow as pa

    assert not is_record_table(pa.table({"a": [1]}).schema)
    with pytest.raises(InputError, match="Left have other fields"):
        is_record_table(pa.table({"Left": pa.array([{"block": "x"}])}).schema)
