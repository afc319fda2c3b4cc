"""The end of a service: what is being answered is finished, the audit trail is closed, the exit code is 0."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from tests.serve.conftest import connect, everything, parsed, request, serving, talk

ROW = json.dumps({"logits": [[4, 1, 0]]}).encode()
GRACE = 10


class Blocked:
    """An audit file into which nothing can be written, so that requests wait; SQLite waits for 5 s."""

    def __init__(self, audit):
        self._connection = sqlite3.connect(audit, check_same_thread=False)

    def __enter__(self):
        self._connection.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, *_):
        self._connection.rollback()
        self._connection.close()


class Client(threading.Thread):
    """Asks for a verdict in a thread of its own."""

    def __init__(self, service):
        super().__init__()
        self.service, self.answer = service, b""
        self.start()

    def run(self):
        self.answer = talk(self.service, request(body=ROW))


def wait_until_depth(service, depth):
    end = time.monotonic() + 10
    while service.client.get("/v1/live").json()["queue"]["depth"] != depth:
        assert time.monotonic() < end
        time.sleep(0.02)


def kinds(audit):
    with sqlite3.connect(audit) as store:
        return [kind for (kind,) in store.execute("SELECT kind FROM records ORDER BY seq")]


def snapshot(audit):
    with sqlite3.connect(audit) as store:
        return store.execute("SELECT seq, state FROM snapshots ORDER BY seq DESC LIMIT 1").fetchone()


def test_requests_that_wait_are_answered_and_new_ones_refused(guards, tmp_path):
    audit = tmp_path / "audit.sqlite"
    with serving(guards["logits"], audit, log=tmp_path / "log") as service:
        with connect(service) as idle, Blocked(audit):
            clients = [Client(service) for _ in range(5)]
            wait_until_depth(service, 5)
            start = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            assert everything(idle) == b""  # a connection without a request is closed at once
            with pytest.raises(OSError, match="refused"):
                connect(service)
            assert service.process.poll() is None
        for client in clients:
            client.join(20)
        assert service.process.wait(20) == 0
        assert time.monotonic() - start < GRACE
    assert [parsed(client.answer)[0] for client in clients] == [200] * 5
    assert kinds(audit) == ["start", *["verdicts"] * (len(kinds(audit)) - 3), "state", "stop"]
    seq, state = snapshot(audit)
    assert seq >= len(kinds(audit)) - 2  # only its own record and that of the stop may come after it
    assert json.loads(state)["rows"] == 5
    assert (tmp_path / "log").read_text() == ""


def test_a_second_signal_waits_for_no_client_and_the_service_can_start_again_at_once(guards, tmp_path):
    audit = tmp_path / "audit.sqlite"
    with serving(guards["logits"], audit, log=tmp_path / "log") as service:
        assert talk(service, request(body=ROW)).startswith(b"HTTP/1.1 200 ")
        with connect(service) as slow:
            slow.sendall(request(body=ROW)[:-1])  # keeps the service waiting for up to 10 s
            time.sleep(0.3)
            start = time.monotonic()
            service.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            assert service.process.poll() is None
            service.process.send_signal(signal.SIGTERM)
            assert parsed(everything(slow))[0] == 503
        assert service.process.wait(20) == 0
        assert time.monotonic() - start < GRACE / 2
    assert kinds(audit) == ["start", "verdicts", "state", "stop"]
    assert "Traceback" not in (tmp_path / "log").read_text()

    port = service.address.rpartition(":")[2]  # the same port at once
    with serving(guards["logits"], audit, "--port", port) as again:
        assert again.address == service.address
        assert again.live()["rows"] == 1
        assert talk(again, request(body=ROW)).startswith(b"HTTP/1.1 200 ")

        other = subprocess.run(
            [sys.executable, "-m", "caveat", "serve", str(guards["logits"]), "--port", port, "--audit",
             str(tmp_path / "other.sqlite")], capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert other.returncode == 2
        assert f"127.0.0.1:{port} cannot be used" in other.stderr
        assert "in use" in other.stderr
        assert not (tmp_path / "other.sqlite").exists()


@pytest.mark.slow
def test_the_grace_time_ends_with_503_and_exit_code_0(guards, tmp_path):
    """A client that sends its body for longer than the grace time does not hold the service up."""
    with serving(guards["logits"], tmp_path / "audit.sqlite", "--body-seconds", "60", log=tmp_path / "log") as service:
        with connect(service, seconds=40) as slow:
            slow.sendall(request(body=ROW)[:-1])
            time.sleep(0.3)
            start = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            assert parsed(everything(slow))[0] == 503
        assert service.process.wait(20) == 0
    assert GRACE <= time.monotonic() - start < GRACE + 5
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_under_load_every_request_is_answered_or_refused_and_what_was_answered_is_recorded(guards, tmp_path):
    audit = tmp_path / "audit.sqlite"
    ids, odd = [], []

    def load(service):
        while True:
            try:
                status, _, content = parsed(talk(service, request(body=ROW)))
            except (OSError, IndexError, ValueError):
                return  # refused, or closed before it was read
            if status == 200:
                ids.append(content["verdicts"][0]["id"])
            else:
                odd.append(status)

    for round_ in range(5):
        with serving(guards["logits"], audit) as service:
            clients = [threading.Thread(target=load, args=(service,)) for _ in range(8)]
            for client in clients:
                client.start()
            time.sleep(0.5 + 0.3 * round_)
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(20) == 0
            for client in clients:
                client.join(30)
    assert len(ids) == len(set(ids)) > 50
    assert set(odd) <= {503}
    with sqlite3.connect(audit) as store:
        rows = store.execute("SELECT sum(rows) FROM records").fetchone()[0]
    assert max(int(key.rpartition("-")[2]) for key in ids) < rows
    assert kinds(audit).count("stop") == 5
