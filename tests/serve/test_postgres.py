"""PostgreSQL: lost connections, lost answers, chains side by side, addresses that lead nowhere."""

from __future__ import annotations

import select
import socket
import threading
import time

import psycopg
import pytest
from tests.serve.conftest import draw, serving
from tests.serve.trails import feed, label

from caveat.errors import InputError, StoreError
from caveat.serve import open_store
from caveat.serve.audit import postgres as postgres_module
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.verify import verify_trail
from caveat.serve.trail import Trail


def end_connections(url):
    """End all other connections to a database, as a restart of the server does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid() AND "
                           "datname = current_database()")  # fmt: skip


def test_after_a_lost_connection_the_trail_goes_on(postgres, logit_guard):
    url = postgres.new()
    store = open_store(url)
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [3], seed=1)
    end_connections(url)
    with pytest.raises(StoreError, match="no connection"):
        feed(trail, logit_guard, [2], seed=2)
    ids = feed(trail, logit_guard, [4], seed=3)
    label(trail, ids, seed=1)
    trail.fold()
    checked, result = verify_trail(store), replay_trail(logit_guard, store)
    store.close()
    assert checked.sound
    assert checked.verdicts == trail.rows == 7
    assert dict(result.log10_e) == trail.watch.log10_e


def test_nothing_is_written_by_a_connection_without_the_lock(postgres, logit_guard, monkeypatch):
    url = postgres.new()
    store = open_store(url)
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [3], seed=1)
    end_connections(url)
    with pytest.raises(StoreError):
        feed(trail, logit_guard, [2], seed=2)
    other = open_store(url)  # another service takes the chain over
    successor = Trail(logit_guard, other)
    feed(successor, logit_guard, [5], seed=3)
    for _ in range(2):
        with pytest.raises(StoreError, match="another service"):
            feed(trail, logit_guard, [2], seed=4)
    other.close()
    feed(trail, logit_guard, [2], seed=4)  # the other one is gone: go on after its records
    assert verify_trail(store).sound
    assert verify_trail(store).verdicts == trail.rows == 10
    store.close()


class Proxy(threading.Thread):
    """Between client and server; on request it drops the connection after COMMIT was done and before it is answered."""

    def __init__(self, folder, server):
        super().__init__(daemon=True)
        self.server, self.lose_answer, self.lost = server, False, 0
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(folder / ".s.PGSQL.5432"))
        self.listening.listen()

    def run(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self.server)
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    part = ready.recv(65536)
                    if not part:
                        return
                    if ready is client:
                        server.sendall(part)
                        if self.lose_answer and b"COMMIT" in part:
                            server.recv(65536)  # the server has committed
                            self.lose_answer, self.lost = False, self.lost + 1
                            return
                    else:
                        client.sendall(part)


def test_a_lost_answer_to_commit_neither_loses_nor_doubles_rows(postgres, logit_guard, tmp_path_factory):
    direct = postgres.new()
    folder = tmp_path_factory.mktemp("p")
    proxy = Proxy(folder, str(postgres.folder / ".s.PGSQL.5432"))
    proxy.start()
    store = open_store(direct.replace(f"host={postgres.folder}", f"host={folder}"))
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [3], seed=1)
    proxy.lose_answer = True
    with pytest.raises(StoreError, match="no connection"):
        feed(trail, logit_guard, [2, 6], seed=2)
    assert proxy.lost == 1
    ids = feed(trail, logit_guard, [4], seed=3)
    trail.fold()
    assert [int(key.rpartition("-")[2]) for key in ids] == [11, 12, 13, 14]
    reader = open_store(direct, read_only=True)
    assert [record.entry.rows for record in reader.records()] == [3, 2, 6, 4]
    assert verify_trail(reader).sound
    assert dict(replay_trail(logit_guard, reader).log10_e) == trail.watch.log10_e
    reader.close()
    store.close()
    proxy.listening.close()


def test_a_service_answers_503_while_the_database_is_away(postgres, guards, logit_guard):
    url = postgres.new()
    with serving(guards["logits"], url) as service:
        assert service.post({}, logits=draw(3, seed=1).logits).status_code == 200
        postgres.stop()
        try:
            answer = service.post({}, logits=draw(3, seed=2).logits)
            assert answer.status_code == 503
            assert "no connection" in answer.json()["error"]
            assert service.client.get("/healthz").status_code == 200
            assert service.client.get("/readyz").status_code == 503
        finally:
            postgres.start()
        end = time.monotonic() + 20
        while service.client.get("/readyz").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert service.post({}, logits=draw(3, seed=3).logits).status_code == 200
        view = service.live(rows=6)
    store = open_store(url, read_only=True)
    checked, result = verify_trail(store), replay_trail(logit_guard, store)
    store.close()
    assert checked.sound
    assert checked.verdicts == view["rows"] == 6
    assert {stream["name"]: stream["now"] for stream in view["drift"]["streams"]} == dict(result.log10_e)


def test_chains_of_one_database_do_not_meet(postgres, logit_guard):
    url = postgres.new()
    stores = {name: open_store(url, chain=name) for name in ("main", "blue")}
    trails = {name: Trail(logit_guard, store) for name, store in stores.items()}
    for i, (name, trail) in enumerate(trails.items()):
        label(trail, feed(trail, logit_guard, [3, 4 + i], seed=i), seed=i)
        assert verify_trail(stores[name]).verdicts == 7 + i
    assert trails["main"].chain != trails["blue"].chain
    for name, store in stores.items():
        store.close()
        assert Trail(logit_guard, open_store(url, chain=name, read_only=True)).rows == trails[name].rows
    with pytest.raises(InputError, match="'blue', 'main'"):
        open_store(url, chain="green", read_only=True)
    with pytest.raises(InputError, match="name of a chain"):
        open_store(url, chain="")


def test_a_large_trail_is_read_a_page_at_a_time(postgres, logit_guard, monkeypatch):
    store = open_store(postgres.new())
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [1, 300, 1, 1, 300, 2, 1], seed=1)
    records = list(store.records())
    pages = []
    lines = store._lines

    def counted(query, *values):
        result = lines(query, *values)
        if "inputs_sha256" in query:
            pages.append(sum(len(line[5]) for line in result))
        return result

    monkeypatch.setattr(store, "_lines", counted)
    monkeypatch.setattr(postgres_module, "_PAGE", 2000)
    assert list(store.records()) == records
    assert len(pages) > 2
    largest = max(len(record.entry.body) for record in records)
    assert max(pages) < largest + 2000
    store.close()


@pytest.mark.parametrize(
    "url", ["postgresql://user:hunter2@127.0.0.1:1/none", "postgresql://%zz", "postgresql://u@/x?host=/nowhere",
            "postgresql://127.0.0.1:1/x?nonsense=1"],
)  # fmt: skip
def test_an_address_that_leads_nowhere_is_an_input_error_without_the_password(url):
    with pytest.raises(InputError, match="database") as error:
        open_store(url)
    assert "hunter2" not in str(error.value)


def test_a_database_without_a_trail_is_refused_and_stays_empty(postgres):
    url = postgres.new()
    with pytest.raises(InputError, match="holds no audit trail"):
        open_store(url, read_only=True)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone() == (
            0,
        )


def test_a_statement_that_takes_too_long_is_given_up(postgres, logit_guard):
    url = postgres.new()
    store = open_store(url)
    trail = Trail(logit_guard, store)
    store._run("SET statement_timeout = '100ms'")
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE caveat_records")
        with pytest.raises(StoreError, match="timeout"):
            feed(trail, logit_guard, [2], seed=1)
    feed(trail, logit_guard, [3], seed=2)
    assert verify_trail(store).verdicts == 3
    store.close()


def test_another_scheme_is_refused():
    with pytest.raises(InputError, match="mysql"):
        open_store("mysql://localhost/audit")
