"""HTTP within limits, against a running service: every bad client gets an answer or a closed door, the others go on."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.serve.conftest import connect, everything, metrics, npy, parsed, request, serving, talk

from caveat.serve.protocol import _Transport

NPY = "application/x-npy"
ROW = json.dumps({"logits": [[4, 1, 0]]}).encode()
CONNECTIONS, QUEUE, SECONDS, BODY_SECONDS = 40, 2, 1.0, 3.0


@pytest.fixture(scope="module")
def tight(guards, tmp_path_factory):
    """A service with small limits; its log must never show a traceback."""
    folder = tmp_path_factory.mktemp("tight")
    limits = {"body-mb": 0.1, "json-mb": 0.05, "bodies-mb": 0.25, "connections": CONNECTIONS, "queue": QUEUE,
              "body-seconds": BODY_SECONDS, "header-seconds": SECONDS, "answer-seconds": SECONDS}  # fmt: skip
    options = [part for name, value in limits.items() for part in (f"--{name}", str(value))]
    log = folder / "log"
    with serving(guards["logits"], folder / "audit.sqlite", *options, "--verbose", log=log) as running:
        running.audit = folder / "audit.sqlite"
        yield running
    assert "Traceback" not in log.read_text()


@pytest.fixture(autouse=True)
def keeps_answering(tight):
    """After each test: nothing waits, nothing is held, the next request is answered."""
    yield
    wait_for(lambda: not any(metrics(tight)[name,] for name in ("caveat_queue_depth", "caveat_held_bytes")))
    answer = tight.client.post("/v1/verdicts", content=ROW, headers={"content-type": "application/json"})
    assert answer.status_code == 200


def rows(n):
    return npy(np.zeros((n, 3), dtype=np.float16))


def waited(start):
    return time.monotonic() - start


def send_until_closed(connection, data):
    end = time.monotonic() + 20 * SECONDS
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while time.monotonic() < end:
            connection.sendall(data)
            time.sleep(0.05)


def wait_for(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# -- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_a_body_that_is_announced_as_too_large_is_refused_while_it_is_sent(tight, connection):
    body = rows(1_000_000)  # 6 MB: more than the buffers between client and service hold
    status, headers, problem = parsed(talk(tight, request(body=body, Content_Type=NPY, Connection=connection)))
    assert (status, headers["connection"]) == (413, "close")
    assert "at most 104858 bytes" in problem["error"]


def test_a_chunked_body_is_refused_when_it_has_become_too_large(tight):
    chunks = b"".join(b"8000\r\n" + b"x" * 0x8000 + b"\r\n" for _ in range(8))
    head = request(Content_Type=NPY, Transfer_Encoding="chunked")
    status, headers, _ = parsed(talk(tight, head + chunks))
    assert (status, headers["connection"]) == (413, "close")


def test_json_has_a_smaller_limit(tight):
    status, _, problem = parsed(talk(tight, request(body=b" " * 60_000)))
    assert status == 413
    assert "JSON" in problem["error"]
    assert parsed(talk(tight, request(body=b" " * 60_000, Content_Type=NPY)))[0] == 400


def test_too_many_rows_are_refused_before_they_are_judged(logit_guard, tmp_path):
    from caveat.serve import Engine, open_store
    from caveat.serve.problems import Problem

    engine = Engine(logit_guard, open_store(str(tmp_path / "audit.sqlite")), rows_limit=10)
    try:
        assert len(engine.judge({"logits": np.zeros((10, 3))})) == 10
        with pytest.raises(Problem, match="at most 10 rows") as refused:
            engine.judge({"logits": np.zeros((11, 3))})
        assert refused.value.status == 413
    finally:
        engine.close()


def test_a_slow_body_gets_408(tight):
    start = time.monotonic()
    with connect(tight) as connection:
        connection.sendall(request(body=ROW)[:-5])
        status, _, problem = parsed(everything(connection))
    assert status == 408
    assert "within 3 seconds" in problem["error"]
    assert waited(start) >= BODY_SECONDS


def test_all_bodies_together_are_limited(tight):
    body = npy(np.zeros((4, 6000), dtype=np.float32))  # 96 kB: two of them fit, three do not
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(connect(tight)) for _ in range(2)]
        for other in others:
            other.sendall(request(body=body, Content_Type=NPY)[:-1])
        wait_for(lambda: metrics(tight)["caveat_held_bytes",] > 190_000)
        status, headers, _ = parsed(talk(tight, request(body=body, Content_Type=NPY)))
        assert (status, headers["retry-after"]) == (429, "1")
        for other in others:
            other.sendall(body[-1:])
        for other in others:  # was read to its end
            status, _, problem = parsed(everything(other))
            assert (status, "must have 3 columns" in problem["error"]) == (422, True)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip"])
def test_compressed_bodies_get_415(tight, encoding):
    assert parsed(talk(tight, request(body=ROW, Content_Encoding=encoding)))[0] == 415


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_other_content_types_get_415(tight, media_type):
    """Pages of other sites can send only these without asking first."""
    for path in ("/v1/verdicts", "/v1/labels"):
        assert parsed(talk(tight, request(path=path, body=ROW, Content_Type=media_type)))[0] == 415


def test_expect_100_continue_is_answered_before_the_body_comes(tight):
    with connect(tight) as connection:
        connection.sendall(request(body=ROW, Expect="100-continue")[: -len(ROW)])
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(ROW)
        assert parsed(everything(connection))[0] == 200


def test_a_body_that_is_too_large_is_refused_before_a_client_that_expects_sends_it(tight):
    with connect(tight) as connection:
        connection.sendall(request(Content_Length=10**9, Expect="100-continue", Connection="keep-alive"))
        status, headers, _ = parsed(everything(connection))
    assert (status, headers["connection"]) == (413, "close")


# -- connections ------------------------------------------------------------------------------------------------------


def test_a_silent_connection_is_closed(tight):
    start = time.monotonic()
    with connect(tight) as connection:
        assert everything(connection) in (b"", b"<reset>")
    assert SECONDS * 0.9 <= waited(start) < 10 * SECONDS


def test_headers_that_trickle_in_are_cut_off(tight):
    start = time.monotonic()
    with connect(tight) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        send_until_closed(connection, b"X-Slow: 1\r\n")
    assert SECONDS * 0.9 <= waited(start) < 10 * SECONDS


def test_headers_of_a_second_request_have_the_same_limit(tight):
    with connect(tight) as connection:
        connection.sendall(request("GET", "/healthz", Connection=None) + b"GET /hea")
        time.sleep(0.2)
        connection.sendall(b"lthz HTTP/1.1\r\n")
        start = time.monotonic()
        assert everything(connection).count(b"HTTP/1.1 200") == 1
    assert waited(start) < 10 * SECONDS


def test_a_body_that_nobody_reads_is_thrown_away_for_a_limited_time(tight):
    start = time.monotonic()
    with connect(tight) as connection:
        connection.sendall(request("GET", "/healthz", Transfer_Encoding="chunked", Connection=None))
        send_until_closed(connection, b"400\r\n" + bytes(1024) + b"\r\n")
    assert SECONDS * 0.9 <= waited(start) < 10 * SECONDS


def test_a_client_that_does_not_take_its_answer_is_dropped(tight):
    one = request(body=rows(15_000), Content_Type=NPY, Connection=None)  # is answered by 4 MB
    sockets = open_sockets(tight)
    with connect(tight) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(one * 4)
        wait_for(lambda: open_sockets(tight) > sockets)
        wait_for(lambda: open_sockets(tight) <= sockets)


def open_sockets(service):
    links = []
    for file in Path(f"/proc/{service.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            links.append(os.readlink(file))
    return sum(link.startswith("socket:") for link in links)


def test_beyond_the_limit_of_connections_health_alone_is_answered(tight):
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(connect(tight))
        assert parsed(talk(tight, request("GET", "/healthz")))[0] == 200
        status, headers, problem = parsed(talk(tight, request("GET", "/v1/guard")))
        assert (status, headers["retry-after"]) == (503, "1")
        assert "connections" in problem["error"]
        for _ in range(60):
            stack.enter_context(connect(tight))
        with connect(tight) as connection:  # beyond the spare ones nothing is
            assert everything(connection) in (b"", b"<reset>")
    wait_for(lambda: b" 200 " in talk(tight, request("GET", "/v1/guard")))


def test_a_full_queue_gets_429_while_health_and_metrics_answer(tight):
    statuses = []

    def ask():
        statuses.append(parsed(talk(tight, request(body=ROW)))[0])

    blocker = sqlite3.connect(tight.audit)
    blocker.execute("BEGIN IMMEDIATE")  # nothing can be recorded, so that nothing is answered
    try:
        waiting = [threading.Thread(target=ask) for _ in range(QUEUE)]
        for thread in waiting:
            thread.start()
        wait_for(lambda: metrics(tight)["caveat_queue_depth",] == QUEUE)
        status, headers, problem = parsed(talk(tight, request(body=ROW)))
        assert (status, headers["retry-after"]) == (429, "1")
        assert "2 requests are waiting" in problem["error"]
        assert parsed(talk(tight, request("GET", "/healthz")))[0] == 200
        assert tight.client.get("/v1/live").json()["queue"] == {"depth": QUEUE, "limit": QUEUE}
        assert statuses == []
    finally:
        blocker.rollback()
        blocker.close()
    for thread in waiting:
        thread.join(20)
    assert statuses == [200] * QUEUE


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_client_that_leaves_costs_nothing(tight, part):
    data = request(body=rows(15_000), Content_Type=NPY)
    for _ in range(5):
        with connect(tight) as connection:
            connection.sendall(data[: max(100, int(part * len(data)))])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset on closing


@pytest.mark.parametrize("n", [1, 3])
def test_a_client_that_closes_its_side_is_still_answered(tight, n):
    with connect(tight) as connection:
        connection.sendall(request(body=ROW, Connection=None) * n)
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection).count(b"HTTP/1.1 200 ") == n


def test_a_client_that_closes_its_side_too_early_is_let_go(tight):
    with connect(tight) as connection:
        connection.sendall(request(body=ROW)[:-3])
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection) == b""


def test_requests_that_come_together_are_answered_in_order(tight):
    first, last = request("GET", "/v1/guard", Connection=None), request("GET", "/nowhere")
    answers = talk(tight, first + request(body=ROW, Connection=None) + last).split(b"HTTP/1.1 ")[1:]
    assert [part[:3] for part in answers] == [b"200", b"200", b"404"]


# -- HTTP -------------------------------------------------------------------------------------------------------------


def test_http_1_0_is_answered_and_closed(tight):
    assert parsed(talk(tight, b"GET /healthz HTTP/1.0\r\n\r\n"))[::2] == (200, {"status": "ok"})
    old = b"POST /v1/verdicts HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ROW)
    assert parsed(talk(tight, old + ROW))[0] == 200


def test_head_is_get_without_a_body(tight):
    for path in ("/healthz", "/", "/v1/guard", "/metrics", "/openapi.json"):
        status, headers, body = parsed(talk(tight, request("HEAD", path)))
        assert (status, body) == (200, None)
        assert int(headers["content-length"]) > 0
    assert parsed(talk(tight, request("HEAD", "/v1/verdicts")))[0] == 405


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE", "BREW", "A" * 5000])
def test_other_methods_get_405_with_those_that_are_allowed(tight, method):
    for path, allowed in (("/v1/verdicts", "POST"), ("/v1/guard", "GET"), ("/", "GET")):
        status, headers, problem = parsed(talk(tight, request(method, path)))
        assert (status, headers["allow"]) == (405, allowed)
        assert "access-control-allow-origin" not in headers
        assert "method" in problem["error"]


@pytest.mark.parametrize("path", ["*", "/v1", "/v1/verdicts/", "//", "/%00", "/..%2f..%2fetc/passwd", "/static/live.js",
                                  "/docs", "/redoc", "http://localhost/healthz"])  # fmt: skip
def test_unknown_addresses_get_404_as_json(tight, path):
    status, headers, problem = parsed(talk(tight, request("GET", path)))
    assert (status, headers["content-type"]) == (404, "application/json")
    assert "location" not in headers
    assert "unknown address" in problem["error"]


def test_long_addresses_and_headers_are_refused(tight):
    assert parsed(talk(tight, request("GET", "/" + "a" * 9000)))[0] == 414
    assert parsed(talk(tight, request("GET", "/healthz?" + "a" * 9000)))[0] == 414
    with connect(tight) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(b"x" * 10_000)
                time.sleep(0.005)
        assert parsed(everything(connection).removesuffix(b"<reset>"))[0] == 431


@pytest.mark.parametrize("data", [
    b"\0\xff\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300), b"hello\r\n\r\n",
    b"GET /healthz\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nX y: 1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n", request(Content_Length="-1"),
    request(Content_Length="1, 2"), request(Content_Length="9" * 30), request(Transfer_Encoding="gzip, chunked"),
    request(Transfer_Encoding="chunked") + b"zz\r\n", request(Transfer_Encoding="chunked") + b"5\r\nabcdefgh\r\n",
])  # fmt: skip
def test_what_is_not_http_gets_one_sentence_with_the_security_headers(tight, data):
    status, headers, problem = parsed(talk(tight, data))
    assert status in (400, 501)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert "not a valid HTTP" in problem["error"]


def test_a_broken_body_after_the_answer_closes_the_connection_in_silence(tight):
    with connect(tight) as connection:
        connection.sendall(request("GET", "/healthz", Transfer_Encoding="chunked", Connection=None))
        while not connection.recv(1000).endswith(b"}"):
            pass
        connection.sendall(b"zz\r\n")
        assert everything(connection) in (b"", b"<reset>")


def test_another_protocol_is_not_spoken(tight):
    assert parsed(talk(tight, request("GET", "/healthz", Connection="close, Upgrade", Upgrade="websocket")))[0] == 200
    assert parsed(talk(tight, request("CONNECT", "localhost:1")))[0] == 404
    assert b" 200 " not in talk(tight, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


def test_two_ways_to_state_a_length_are_not_believed_both(tight):
    """A request smuggled behind another one would get an answer of its own."""
    smuggled = request("GET", "/v1/guard")
    data = request(Transfer_Encoding="chunked", Content_Length=5 + len(smuggled), Connection=None) + b"0\r\n\r\n"
    answers = talk(tight, data + smuggled)
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in answers.lower()
    assert b'"fingerprint"' not in answers


def test_a_client_that_left_while_it_was_refused_is_let_go_in_silence():
    """The system then refuses to close one side of a connection that is gone."""
    done = []

    class Gone:
        write = None

        def is_closing(self):
            return False

        def write_eof(self):
            raise OSError(107, "Transport endpoint is not connected")

        def abort(self):
            done.append("abort")

    transport = _Transport(Gone(), lambda: True)
    transport.close()
    assert done == ["abort"]
    assert transport.is_closing()


def test_a_name_of_another_site_is_not_answered_without_a_key(tight):
    assert "Anybody" not in tight.printed
    for path in ("/", "/v1/guard", "/healthz"):
        assert parsed(talk(tight, request("GET", path, Host="evil.example")))[0] == 421
