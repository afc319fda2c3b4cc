"""Endpoints of the service, asked over HTTP: the answers are those of the guard itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from caveat import Outputs
from tests.serve.conftest import draw, npy, npz

NPY, NPZ, ARROW = "application/x-npy", "application/x-npz", "application/vnd.apache.arrow.stream"


def arrow(**columns):
    table = pa.table({
        name: pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1]) for name, rows in columns.items()
    })  # fmt: skip
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("media_type", "body"),
    [(NPY, lambda rows: npy(rows)), (NPZ, lambda rows: npz(logits=rows)), (ARROW, lambda rows: arrow(logits=rows))],
)
def test_binary_bodies_get_the_verdicts_of_the_guard(service, logit_guard, media_type, body):
    rows = draw(50, seed=9).logits
    answer = service.client.post("/v1/verdicts", content=body(rows), headers={"content-type": media_type})
    assert answer.status_code == 200
    ids = [row.pop("id") for row in answer.json()["verdicts"]]
    assert answer.json()["guard"] == logit_guard.fingerprint
    assert len(set(ids)) == 50
    assert [{key: row[key] for key in row if key != "id"} for row in answer.json()["verdicts"]] == logit_guard(
        Outputs(logits=rows)
    ).rows()
