"""The exported table holds what was answered, a row per verdict."""

from __future__ import annotations

import csv
import json

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from tests.serve.conftest import draw

from caveat import Outputs
from caveat.errors import InputError
from caveat.serve import trail as trail_module
from caveat.serve.audit import export as export_module
from caveat.serve.audit.content import encode_verdicts
from caveat.serve.audit.export import COLUMNS, export_trail
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.trail import Trail


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "audit.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def rows(store, logit_guard, monkeypatch):
    """Two days of verdicts with two labels; the rows that an export must hold."""
    trail, expected = Trail(logit_guard, store), []
    for day in (17, 18):
        monkeypatch.setattr(trail_module, "now", lambda day=day: f"2026-11-{day}T12:00:00.500Z")
        verdicts = logit_guard(Outputs(logits=draw(30, seed=day).logits))
        trail.append_verdicts([(30, encode_verdicts(verdicts), None)])
        body = orjson.loads(encode_verdicts(verdicts))
        expected += [{"at": f"2026-11-{day}T12:00:00.500Z", "label": None} | {name: body[name][i] for name in body}
                     for i in range(30)]  # fmt: skip
    trail.append_labels({f"{trail.chain}-0": 2, f"{trail.chain}-59": 1})
    expected[0]["label"], expected[59]["label"] = 2, 1
    return [{name: row[name] for name in COLUMNS}
            for row in ({"id": f"{trail.chain}-{i}"} | row for i, row in enumerate(expected))]  # fmt: skip


@pytest.mark.parametrize("size", [7, 50_000])
def test_every_format_holds_every_verdict(store, rows, tmp_path, monkeypatch, size):
    monkeypatch.setattr(export_module, "_ROWS", size)
    for suffix in (".parquet", ".jsonl", ".csv"):
        assert export_trail(store, tmp_path / f"v{suffix}") == 60
    lines = (tmp_path / "v.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = pq.read_table(tmp_path / "v.parquet").to_pylist()
    assert table[0]["at"].isoformat() == "2026-11-17T12:00:00.500000+00:00"
    assert [row | {"at": None} for row in table] == [row | {"at": None} for row in rows]
    assert pq.ParquetFile(tmp_path / "v.parquet").num_row_groups == (1 if size > 60 else 9)
    with (tmp_path / "v.csv").open(newline="") as stream:
        texts = list(csv.DictReader(stream))
    assert [float(row["score"]) for row in texts] == [row["score"] for row in rows]
    assert [row["set"] for row in texts] == [" ".join(map(str, row["set"])) for row in rows]
    assert [row["label"] for row in texts] == ["" if row["label"] is None else str(row["label"]) for row in rows]


def test_times_choose_the_verdicts(store, rows, tmp_path):
    path = tmp_path / "v.jsonl"
    assert export_trail(store, path, since="2026-11-18T00:00:00.000Z") == 30
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == [row["id"] for row in rows[30:]]
    assert export_trail(store, path, until="2026-11-17T12:00:00.500Z") == 0
    assert path.read_text() == ""
    assert export_trail(store, tmp_path / "v.parquet", until="2026") == 0
    assert pq.read_table(tmp_path / "v.parquet").column_names == list(COLUMNS)


def test_infinite_scores_stay_infinite(store, feature_guard, tmp_path):
    trail = Trail(feature_guard, store)
    trail.append_verdicts([(2, encode_verdicts(feature_guard.decide(score=np.array([np.inf, 1.0]))), None)])
    for suffix in (".parquet", ".jsonl", ".csv"):
        export_trail(store, tmp_path / f"v{suffix}")
    assert pq.read_table(tmp_path / "v.parquet")["score"].to_pylist() == [np.inf, 1.0]
    first = json.loads((tmp_path / "v.jsonl").read_text().splitlines()[0])
    assert first["score"] == "inf"
    assert first["set"] is first["prediction"] is first["label"] is None
    assert (tmp_path / "v.csv").read_text().splitlines()[1].split(",")[4] == "inf"


def test_another_ending_is_refused_and_nothing_half_written_stays(store, rows, tmp_path):
    with pytest.raises(InputError, match=r"\.parquet"):
        export_trail(store, tmp_path / "v.xlsx")
    store._run("UPDATE records SET body = x'7b' WHERE seq = 2")
    with pytest.raises(InputError, match="record 2"):
        export_trail(store, tmp_path / "v.csv")
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} <= {"audit.sqlite", "audit.sqlite.lock"}
