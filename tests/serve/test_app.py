"""Endpoints of the service, asked over HTTP: the answers are those of the guard itself."""

from __future__ import annotations

import asyncio
import sqlite3

import httpx
import pyarrow as pa
import pytest
from tests.serve.conftest import draw, npy, npz

from caveat import Outputs
from caveat.serve import Engine, create_app, open_store
from caveat.serve.gate import SECURITY_HEADERS

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
    [(NPY, npy), (NPZ, lambda rows: npz(logits=rows)), (ARROW, lambda rows: arrow(logits=rows))],
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


def label(service, *pairs, status=200):
    answer = service.client.post("/v1/labels", json={"labels": [{"id": key, "label": label} for key, label in pairs]})
    assert answer.status_code == status
    return answer.json()


def test_labels_are_recorded_once_and_cannot_be_changed(service):
    verdicts = service.post({}, logits=draw(3, seed=4).logits).json()["verdicts"]
    first, second, third = (row["id"] for row in verdicts)
    assert label(service, (first, 1), (second, 2.0)) == {"recorded": 2, "repeated": 0}
    assert label(service, (first, 1), (third, 0)) == {"recorded": 1, "repeated": 1}
    assert "cannot be changed" in label(service, (first, 2), status=409)["error"]
    assert "two labels" in label(service, (first, 1), (first, 2), status=409)["error"]
    for key in ("", "x", first + "0" * 30, first.replace("-", "_"), "-1", f"{first[:8]}-999999", f"{first[:8]}-٣"):
        assert "not the id" in label(service, (key, 1), status=404)["error"]


@pytest.mark.parametrize("labels", [
    None, [], {}, "x", [1], [{}], [{"id": "a"}], [{"id": 1, "label": 1}],
    *([{"id": "a", "label": label}] for label in ("1", True, None, -1, 0.5, 2**31, 1e300)),
])  # fmt: skip
def test_labels_that_are_none_get_422(service, labels):
    answer = service.client.post("/v1/labels", json={"labels": labels})
    assert answer.status_code == 422
    assert "label" in answer.json()["error"]


def test_a_label_that_is_no_class_gets_422(service):
    key = service.post({}, logits=[[4, 1, 0]]).json()["verdicts"][0]["id"]
    assert "class 0 to 2" in label(service, (key, 3), status=422)["error"]


def test_every_address_answers_with_the_security_headers_and_no_name_of_the_server(service):
    wanted = {name.decode(): value.decode() for name, value in SECURITY_HEADERS}
    for path in ("/", "/live.css", "/live.js", "/healthz", "/readyz", "/metrics", "/v1/guard", "/v1/live",
                 "/openapi.json", "/nowhere", "/v1/verdicts"):  # fmt: skip
        headers = service.client.get(path).headers
        assert wanted.items() <= dict(headers).items(), path
        assert "server" not in headers


# -- what goes wrong inside -------------------------------------------------------------------------------------------


def ask_inside(guard, audit, break_it, rows):
    """An answer of a service in this process after ``break_it(engine)``."""
    engine = Engine(guard, open_store(str(audit)))

    async def ask():
        transport = httpx.ASGITransport(create_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.post("/v1/verdicts", json={"logits": rows})
            return answer, await client.get("/readyz")

    try:
        break_it(engine)
        return asyncio.run(ask())
    finally:
        engine.close()


def test_an_unexpected_error_is_500_with_one_sentence_and_a_traceback_in_the_log(logit_guard, tmp_path, caplog):
    def break_it(engine):
        engine.judge = lambda arrays: 1 / 0

    answer, ready = ask_inside(logit_guard, tmp_path / "audit.sqlite", break_it, [[31.4159, 0, 0]])
    assert (answer.status_code, answer.json()) == (500, {"error": "the service failed; its log says how."})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ready.status_code == 200
    assert "ZeroDivisionError" in caplog.text
    assert "31.4159" not in caplog.text


def test_nothing_is_answered_that_cannot_be_recorded(logit_guard, tmp_path):
    def break_it(engine):
        def full(*_):
            raise sqlite3.OperationalError("database or disk is full")

        engine.trail.store.append = engine.trail.store.set_header = full

    answer, ready = ask_inside(logit_guard, tmp_path / "audit.sqlite", break_it, [[4, 1, 0]])
    assert answer.status_code == ready.status_code == 503
    assert "disk is full" in answer.json()["error"]
    assert "disk is full" in ready.json()["error"]


def test_the_short_way_to_a_verdict_answers_as_the_framework_would(logit_guard, tmp_path):
    """Bytes, status and headers of every kind of answer, with the table of direct addresses and without it."""
    rows = draw(3, seed=9).logits.tolist()
    inference = {"inputs": [{"name": "logits", "shape": [3, 3], "datatype": "FP32", "data": rows}]}
    asked = [(path, body) for path in ("/v1/verdicts", "/v2/models/a guard/infer", "/v2/models/other/infer")
             for body in ({"logits": rows}, {"logits": [[1, 2]]}, inference, [], {})]  # fmt: skip

    async def ask(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answers = [await client.post(path, json=body) for path, body in asked]
            answers += [await client.get("/v1/verdicts"), await client.post("/v1/verdicts", content=b"x")]
        return [(answer.status_code, dict(answer.headers), answer.content) for answer in answers]

    def answers(name, short):
        requests = []
        engine = Engine(logit_guard, open_store(str(tmp_path / name)), name="a guard")
        engine.trail.chain = "0bcdffcc"
        try:
            app = create_app(engine)
            assert len(app.direct) == 2
            if not short:
                app.direct = {}
            requests = asyncio.run(ask(app))
        finally:
            engine.close()
        return requests, sorted((path, status) for path, status in app.requests.counts)

    assert answers("a.sqlite", short=True) == answers("b.sqlite", short=False)
