"""Fuzzing a running service: no status 500, answers as the schema says, and it keeps answering in the same memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serve.conftest import connect, everything, request, serving
from tests.serve.fuzz_bodies import BROKEN, VALID

KEY = "fuzz-fuzz-fuzz-fuzz"
ROOT = Path(__file__).parents[2]
STATUSES = {200, 400, 401, 403, 404, 405, 408, 409, 413, 414, 415, 421, 422, 429, 431, 501, 503}
_EACH = settings(max_examples=150, deadline=None, derandomize=True, database=None,
                 suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])  # fmt: skip
_MANY = settings(_EACH, max_examples=5000)


@pytest.fixture(scope="module")
def target(guards, tmp_path_factory):
    """A service with a key whose log must stay empty: an error inside would be in it."""
    folder = tmp_path_factory.mktemp("fuzz")
    with serving(guards["logits"], folder / "audit.sqlite", "--body-mb", "1", "--header-seconds", "0.5", key=KEY,
                 environment={"CAVEAT_SERVE_KEY": KEY}, log=folder / "log") as running:  # fmt: skip
        yield running
        answer = running.client.post("/v1/verdicts", json={"logits": [[4, 1, 0]]})
        assert (answer.status_code, running.live()["queue"]["depth"]) == (200, 0)
    assert (folder / "log").read_text() == ""


def memory(service):
    """Resident memory of the process, in MB."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{service.process.pid}/status").read_text())[1]) / 1024


def run_schemathesis(service, folder, examples):
    """All operations with examples, edge cases and random data, valid and not; the number of cases.

    Whether exactly the bodies that fit the schema are accepted is not asked: a schema cannot say that all rows are
    equally long, or that no number is too large.
    """
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.address}/openapi.json", "--phases",
               "examples,coverage,fuzzing", "--mode", "all", "--max-examples", str(examples), "--checks", "all",
               "--exclude-checks", "positive_data_acceptance,negative_data_rejection", "--generation-deterministic",
               "--continue-on-failure", "--no-color", "-H", f"Authorization: Bearer {KEY}"]  # fmt: skip
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=1500, check=False,
        env=os.environ | {"PYTHONPATH": paths, "SCHEMATHESIS_HOOKS": "tests.serve.fuzz_bodies"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) generated", done.stdout)[1])


def test_every_operation_keeps_to_its_schema(target, tmp_path):
    assert run_schemathesis(target, tmp_path, 120) >= 300


@pytest.mark.slow
def test_every_operation_keeps_to_its_schema_thousands_of_times(target, tmp_path):
    before = memory(target)
    assert run_schemathesis(target, tmp_path, 2000) >= 3000
    assert memory(target) < before + 100


def post(target, media_type, body):
    """The status of a body; a refusal says why in a sentence."""
    answer = target.client.post("/v1/verdicts", content=body, headers={"content-type": media_type})
    assert answer.status_code in STATUSES, body
    assert answer.status_code == 200 or answer.json()["error"].endswith("."), body
    return answer.status_code


def post_broken(target, how):
    """Statuses of broken bodies of every media type."""
    statuses = []

    @how
    @given(body=BROKEN)
    def check(body):
        statuses.append(post(target, *body))

    check()
    return statuses


def test_broken_bodies_of_every_media_type_are_refused_or_answered(target):
    assert {200, 400, 415, 422} <= set(post_broken(target, _EACH))


@_EACH
@given(body=VALID)
def test_valid_bodies_of_every_media_type_are_answered(target, body):
    assert post(target, *body) == 200


@pytest.mark.slow
def test_thousands_of_broken_bodies_take_no_memory(target):
    post_broken(target, _EACH)
    before = memory(target)
    assert len(post_broken(target, _MANY)) >= 3000
    assert memory(target) < before + 50


_WHOLE = request(body=json.dumps({"logits": [[4, 1, 0]]}).encode(), Authorization=f"Bearer {KEY}")
_WORDS = st.sampled_from([
    b"\r\n", b"\r\n\r\n", b"\n", b" ", b"\0", b":", b"Content-Length: ", b"9" * 25, b"-1", b"HTTP/1.1", b"\xff\xfe",
    b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"HEAD ", b"Host: a\r\n",
    b"Expect: 100-continue\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n",
])  # fmt: skip


@st.composite
def raw_requests(draw):
    """A request with parts of the protocol cut out, put in and moved."""
    data = bytearray(_WHOLE)
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(data)))
        if draw(st.booleans()):
            data[place:place] = draw(_WORDS | st.binary(max_size=10))
        else:
            del data[place : place + draw(st.integers(1, 20))]
    return bytes(data)


def send_raw(target, data):
    """The statuses of all answers; a client that closes its side is answered at once."""
    with connect(target) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(1)
        answers = everything(connection)
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]
    assert set(statuses) <= STATUSES | {100}, data


@_EACH
@given(data=raw_requests() | st.binary(max_size=300))
def test_bytes_that_are_almost_http_break_nothing(target, data):
    send_raw(target, data)


@pytest.mark.slow
def test_thousands_of_broken_requests_take_no_memory(target):
    def check(data):
        send_raw(target, data)

    _EACH(given(data=raw_requests())(check))()
    before = memory(target)
    _MANY(given(data=raw_requests())(check))()
    assert memory(target) < before + 20


def test_the_service_answers_after_all_this(target):
    assert httpx.get(f"{target.address}/healthz").json() == {"status": "ok"}
    assert target.client.get("/readyz").status_code == 200
