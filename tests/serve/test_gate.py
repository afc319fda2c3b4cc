"""The gate: key, host, headers and log of every request; bodies within the limits."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serve.conftest import parsed, request, serving, talk

from caveat.serve.gate import OPEN, SECURITY_HEADERS, Body, Gate
from caveat.serve.keys import Keys, Pace
from caveat.serve.metrics import Requests
from caveat.serve.problems import Problem
from caveat.serve.settings import Limits

KEY = "correct-horse-battery-staple"
KEYS = Keys(ask=(KEY,))


class Route:
    path = "/v1/things/{name}"


async def hello(scope, receive, send):
    scope["route"] = Route
    scope["rows"] = 7
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


def ask(app, *, method="GET", path="/v1/things/a", headers=(), state=None, query=b"", **options):
    """Status, headers and body that a gate around ``app`` answers."""
    messages = []

    async def send(message):
        messages.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": list(headers),
             "state": state or {}}  # fmt: skip
    gate = Gate(app, requests=options.pop("requests", Requests()), **{"keys": Keys()} | options)
    asyncio.run(gate(scope, None, send))
    start, body = messages
    return start["status"], dict(start["headers"]), body["body"]


def with_key(value):
    return ask(hello, keys=KEYS, headers=[(b"host", b"x"), (b"authorization", value)])[0]


# -- the key ----------------------------------------------------------------------------------------------------------


def test_the_right_key_opens_the_gate():
    assert [with_key(f"{scheme} {KEY}".encode()) for scheme in ("Bearer", "bearer", "BEARER")] == [200] * 3


@pytest.mark.parametrize("value", [
    b"", b"Bearer", b"Bearer ", KEY.encode(), b"Basic " + KEY.encode(), b"Bearer " + KEY.encode()[:-1],
    b"Bearer " + KEY.encode() + b"x", b"Bearer " + KEY.upper().encode(), b"Bearer \xff\x00", b"Bearer " + b"x" * 10**5,
    b"Bearer" + KEY.encode(), b"Bearer, Bearer " + KEY.encode(),
])  # fmt: skip
def test_any_other_header_is_refused(value):
    assert with_key(value) == 401


@given(st.binary(max_size=60))
def test_no_made_up_header_opens_the_gate(value):
    assert with_key(value) == 401


def test_a_refusal_says_what_to_send_and_not_what_is_right():
    status, headers, body = ask(hello, keys=KEYS)
    assert (status, headers[b"www-authenticate"], headers[b"connection"]) == (401, b"Bearer", b"close")
    assert KEY not in json.loads(body)["error"]


def test_only_health_and_the_page_are_open():
    assert {path for path in OPEN if not path.startswith("/v2")} == {
        "/", "/live.css", "/live.js", "/show.js", "/draw.js", "/favicon.svg", "/healthz", "/readyz"}  # fmt: skip
    assert all(ask(hello, keys=KEYS, path=path)[0] == 200 for path in OPEN)
    for path in ("/v1/live", "/metrics", "/openapi.json", "/v1/guard", "//", "/healthz/", "/HEALTHZ", "/v2/models/x"):
        assert ask(hello, keys=KEYS, path=path)[0] == 401


def test_each_kind_of_key_opens_what_it_is_for():
    keys = Keys(ask=("a" * 16, "b" * 16), labels=("l" * 16,), admin=("z" * 16,))

    def statuses(key):
        headers = [(b"authorization", f"Bearer {key}".encode())]
        paths = ("/v1/verdicts", "/v2/models/g/infer", "/v1/guard", "/v1/labels", "/v1/live", "/metrics")
        return [ask(hello, keys=keys, headers=headers, path=path)[0] for path in paths]

    assert statuses("a" * 16) == statuses("b" * 16) == [200, 200, 200, 403, 403, 403]
    assert statuses("l" * 16) == [403, 403, 403, 200, 403, 403]
    assert statuses("z" * 16) == [200] * 6
    assert statuses("x" * 16) == [401] * 6


def test_one_key_opens_everything_that_has_none_of_its_own():
    for path in ("/v1/verdicts", "/v1/labels", "/v1/live", "/metrics"):
        assert ask(hello, keys=KEYS, headers=[(b"authorization", f"Bearer {KEY}".encode())], path=path)[0] == 200


def test_a_key_that_asks_too_often_waits_and_no_other_does():
    now = [100.0]
    keys, pace = Keys(ask=("a" * 16, "b" * 16)), Pace(2, clock=lambda: now[0])

    def answer(key, path="/v1/verdicts"):
        return ask(hello, keys=keys, pace=pace, headers=[(b"authorization", f"Bearer {key}".encode())], path=path)

    assert [answer("a" * 16)[0] for _ in range(3)] == [200, 200, 429]
    status, headers, body = answer("a" * 16)
    assert (status, headers[b"retry-after"], headers[b"connection"]) == (429, b"1", b"close")
    assert "one key" in json.loads(body)["error"]
    assert answer("b" * 16)[0] == 200
    assert answer("", path="/healthz")[0] == 200
    assert answer("x" * 16)[0] == 401
    now[0] += 0.5
    assert [answer("a" * 16)[0] for _ in range(2)] == [200, 429]


# -- the host ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"evil.example:8080",
        b"localhost.evil.example",
        b"127.0.0.1.nip.io",
        b"localhost:8080@evil.example",
        b"localhost:",
        b"[::1]evil",
        b"127.0.0.1:80:80",
        b"[::1]:80]",
        b"localhost:80\n",
    ],
)
def test_a_service_without_a_key_answers_no_name_of_another_site(host):
    assert ask(hello, local_only=True, headers=[(b"host", host)])[0] == 421
    assert ask(hello, local_only=True, path="/", headers=[(b"host", host)])[0] == 421
    assert ask(hello, headers=[(b"host", host)])[0] == 200


@pytest.mark.parametrize("host", [b"localhost", b"LOCALHOST:1", b"127.0.0.1:8080", b"[::1]:8080", b"[::1]"])
def test_names_of_this_machine_are_answered(host):
    assert ask(hello, local_only=True, headers=[(b"host", host)])[0] == 200


# -- two lengths ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/verdicts", "/healthz"])
def test_a_request_with_two_lengths_is_refused(path):
    headers = [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")]
    status, answered, body = ask(hello, method="POST", path=path, headers=headers)
    assert (status, answered[b"connection"]) == (400, b"close")
    assert "Content-Length" in json.loads(body)["error"]
    assert all(ask(hello, headers=[header])[0] == 200 for header in headers)


# -- answers ----------------------------------------------------------------------------------------------------------


def test_every_answer_has_the_security_headers():
    async def fails(scope, receive, send):
        raise RuntimeError

    answers = [ask(hello), ask(hello, keys=KEYS), ask(fails), ask(hello, query=b"q" * 9000),
               ask(hello, state={"full": True}), ask(hello, local_only=True, headers=[(b"host", b"x")])]  # fmt: skip
    assert [status for status, *_ in answers] == [200, 401, 500, 414, 503, 421]
    assert all(set(SECURITY_HEADERS) <= set(headers.items()) for _, headers, _ in answers)


def test_an_unexpected_error_is_logged_with_its_traceback_and_answered_with_one_sentence(caplog):
    async def fails(scope, receive, send):
        raise ZeroDivisionError("the secret of the payload")

    status, _, body = ask(fails)
    assert status == 500
    assert "secret" not in body.decode()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info[0] is ZeroDivisionError


def test_a_request_that_is_cut_off_at_the_end_of_the_service_gets_503():
    async def cut(scope, receive, send):
        raise asyncio.CancelledError

    status, headers, _ = ask(cut)
    assert (status, headers[b"retry-after"]) == (503, b"1")


def test_beyond_the_connections_health_alone_is_answered():
    assert ask(hello, state={"full": True})[0] == 503
    assert ask(hello, state={"full": True}, path="/healthz")[0] == 200


def test_requests_are_counted_by_pattern():
    requests = Requests()
    for i in range(100):
        ask(hello, path=f"/v1/things/{i}", requests=requests)
        ask(hello, path=f"/v1/{i}", keys=KEYS, requests=requests)
    assert requests.counts == {("/v1/things/{name}", 200): 100, ("other", 401): 100}


def test_a_log_line_has_no_text_of_the_client(caplog):
    caplog.set_level(logging.INFO, "caveat.serve")
    ask(hello, method="EVIL\nMETHOD", path="/v1/things/\x1b[31m", query=b"token=secret")
    line = caplog.messages[0]
    assert re.fullmatch(r"OTHER /v1/things/\{name\} 200 \d+\.\d ms, rows: 7", line)


# -- bodies -----------------------------------------------------------------------------------------------------------


def read(body, headers, *chunks, seconds=0.0):
    """What ``Body`` makes of chunks that arrive ``seconds`` apart; the last one says that there is no more."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if messages:
        messages[-1]["more_body"] = False

    async def receive():
        await asyncio.sleep(seconds)
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    return asyncio.run(body.read(headers, receive))


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=8))
def test_a_body_is_its_chunks_or_refused_and_nothing_stays_held(chunks):
    body, whole = Body(Limits(body_bytes=40, reading_bytes=40)), b"".join(chunks)
    if len(whole) <= 40:
        assert read(body, {}, *chunks) == whole
        assert body.held == len(whole)
        body.release(len(whole))
    else:
        with pytest.raises(Problem) as refused:
            read(body, {}, *chunks)
        assert refused.value.status == 413
    assert body.held == 0


@pytest.mark.parametrize(("headers", "chunks", "status"), [
    ({"content-length": "41"}, [], 413),
    ({"content-length": "21", "content-type": "application/json; charset=utf-8"}, [], 413),
    ({"content-type": "application/json"}, [b"x" * 21], 413),
    ({"content-encoding": "gzip"}, [b"x"], 415),
    ({}, [], 400),
])  # fmt: skip
def test_a_refused_body_is_not_held(headers, chunks, status):
    body = Body(Limits(body_bytes=40, json_bytes=20))
    with pytest.raises(Problem) as refused:
        read(body, headers, *chunks)
    assert (refused.value.status, body.held) == (status, 0)


def test_all_bodies_together_and_a_slow_one_are_not_held():
    body = Body(Limits(body_bytes=40, reading_bytes=50, body_seconds=0.05))
    assert read(body, {}, b"x" * 30)
    with pytest.raises(Problem, match="together") as refused:
        read(body, {}, b"y" * 30)
    assert (refused.value.status, body.held) == (429, 30)
    with pytest.raises(Problem, match="arrive within") as refused:
        read(body, {}, b"y", b"y", seconds=0.04)
    assert (refused.value.status, body.held) == (408, 30)


# -- against a running service ----------------------------------------------------------------------------------------

_WATCH = """
import os, sys
def watch(event, details):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname", "subprocess.Popen",
                 "os.system", "os.exec", "os.posix_spawn", "urllib.Request") and "ldconfig" not in str(details):
        # ctypes asks ldconfig where a library lies
        with open(os.environ["WATCHED"], "a") as file:
            file.write(f"{event} {details!r}\\\\n")
sys.addaudithook(watch)
""".replace("\\\\", "\\")


@pytest.fixture(scope="module")
def keyed(guards, tmp_path_factory):
    """A service with a key that logs as JSON and whose outgoing connections are written to a file."""
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "sitecustomize.py").write_text(_WATCH)
    (folder / "key").write_text(KEY + "\n")
    (folder / "key").chmod(0o600)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "WATCHED": str(folder / "watched"),
    }
    options = ("--key-file", str(folder / "key"), "--verbose", "--log-json")
    with serving(guards["logits"], folder / "audit.sqlite", *options, key=KEY, log=folder / "log",
                 environment=environment) as running:  # fmt: skip
        running.folder = folder
        yield running


def test_the_key_is_asked_for_and_shown_nowhere(keyed):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {KEY}"}):
        for method, path in (("POST", "/v1/verdicts"), ("POST", "/v1/labels"), ("GET", "/v1/live"), ("GET", "/metrics"),
                             ("GET", "/openapi.json"), ("GET", "/v1/guard"), ("GET", "/nowhere")):  # fmt: skip
            status, answered, _ = parsed(talk(keyed, request(method, path, **headers)))
            assert (status, answered["www-authenticate"]) == (401, "Bearer"), path
    for path in ("/healthz", "/readyz"):
        assert parsed(talk(keyed, request("GET", path)))[0] == 200
    for path in ("/", "/live.css", "/live.js"):
        assert talk(keyed, request("GET", path)).startswith(b"HTTP/1.1 200 ")
    assert keyed.client.get("/v1/guard", headers={"Host": "any.example"}).status_code == 200
    for file in ("cmdline", "environ"):
        assert KEY.encode() not in Path(f"/proc/{keyed.process.pid}/{file}").read_bytes()
    assert KEY not in (keyed.folder / "log").read_text()


def test_a_log_line_a_request_without_its_content(keyed):
    log = keyed.folder / "log"
    before = len(log.read_text().splitlines())
    keyed.client.post("/v1/verdicts?secret=1", json={"logits": [[31.4159, 0, 0]] * 3}, headers={"X-Evil": "2\t3"})
    keyed.client.get("/v1/%0a2026-01-01%20INFO%20forged")
    time.sleep(0.2)
    lines = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    assert [(line["method"], line["path"], line["status"], line["rows"]) for line in lines] == [
        ("POST", "/v1/verdicts", 200, 3), ("GET", "other", 404, 0)]  # fmt: skip
    assert all(line["ms"] >= 0 for line in lines)
    assert not re.search(r"secret|31\.4159|forged|2\\t3", log.read_text())


def test_the_service_calls_nobody(keyed):
    """No telemetry: no connection goes out, no name is looked up, no program is started."""
    keyed.client.post("/v1/verdicts", json={"logits": [[4, 1, 0]]}).raise_for_status()
    for path in ("/", "/v1/live", "/metrics", "/openapi.json"):
        keyed.client.get(path).raise_for_status()
    watched = keyed.folder / "watched"
    assert not watched.exists(), watched.read_text()
    port = int(keyed.address.rpartition(":")[2])
    own = {os.readlink(file) for file in Path(f"/proc/{keyed.process.pid}/fd").iterdir() if file.is_symlink()}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{keyed.process.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in own:
                assert int(fields[1].rpartition(":")[2], 16) == port, line


def test_the_command_takes_a_key_for_each_kind_and_a_rate(guards, tmp_path):
    kinds = {"": "a" * 16, "labels-": "l" * 16, "admin-": "z" * 16}
    options = ["--rate", "0.001"]  # one request at once, and the next after a quarter of an hour
    for kind, key in kinds.items():
        file = tmp_path / f"{kind}key"
        file.write_text(key)
        file.chmod(0o600)
        options += [f"--{kind}key-file", str(file)]
    with serving(guards["logits"], tmp_path / "audit.sqlite", *options) as service:

        def status(kind, method, path, **sent):
            headers = {"Authorization": f"Bearer {kinds[kind]}"}
            answer = service.client.request(method, path, headers=headers, **sent)
            return answer.status_code, answer.headers.get("retry-after")

        for kind, path in (("", "/v1/live"), ("", "/v1/labels"), ("labels-", "/v1/guard"), ("labels-", "/metrics")):
            assert status(kind, "GET", path) == (403, None), (kind, path)
        assert status("labels-", "POST", "/v1/labels", json={"labels": []})[0] == 422
        assert status("", "POST", "/v1/verdicts", json={"logits": [[4, 1, 0]]})[0] == 200
        assert status("admin-", "GET", "/metrics")[0] == 200
        for kind, path in (("", "/v1/guard"), ("labels-", "/v1/labels"), ("admin-", "/v1/live")):
            refused, seconds = status(kind, "GET", path)
            assert refused == 429
            assert 900 < int(seconds) <= 1000
        assert service.client.get("/healthz").status_code == 200
