"""PostgreSQL: histories of servers that are killed, of lost connections, and of a replica that takes over.

A replica that was waited for (``synchronous_standby_names``) has everything that was acknowledged, and the trail goes
on there. One that was behind lacks the end, and the service must not go on as if it did not.
"""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.serve.conftest import Database
from tests.serve.faults.histories import History, InProcess
from tests.serve.test_postgres import end_connections

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra postgres)")

from caveat.serve import engine as engine_module  # noqa: E402

_PATIENCE = 60


@pytest.fixture
def quick(monkeypatch):
    """The service looks at its store more often, so that a history takes a second."""
    monkeypatch.setattr(engine_module, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(engine_module, "_STORE_SECONDS", 0.05)
    return monkeypatch


class Servers(History):
    """A history of a trail in a database."""

    FAULTS = ("nothing", "restart", "crash", "connections", "second", "clock")

    def __init__(self, seed, guard, url, postgres, monkeypatch):
        super().__init__(seed, guard, Path("/"), lambda path, seen, _: InProcess(guard, path, seen),
                         monkeypatch=monkeypatch)  # fmt: skip
        self.path, self.postgres = url, postgres

    def end(self, how):
        """Killed: the connection ends without a word, with requests on their way."""
        self.story.append(how)
        if how == "kill":
            end_connections(self.path)
        self.service.end()
        self.seen.check(self.path, self.guard)

    def _restart(self):
        self.postgres.stop()
        self._started_again()

    def _crash(self):
        self.postgres.stop(signal.SIGQUIT)  # no checkpoint: it recovers from its own log
        self._started_again()

    def _started_again(self):
        self.traffic(refused=True)
        self.postgres.start()
        self.wait()

    def _connections(self):
        end_connections(self.path)
        self.traffic(groups=1)
        self.wait()

    def _second(self):
        from caveat.serve import open_store

        self.monkeypatch.setattr("caveat.serve.audit.postgres._LOCK_SECONDS", 0.1)
        with pytest.raises(Exception, match="another service"):
            open_store(self.path)


def of_servers(seed, guard, postgres, monkeypatch):
    history = Servers(seed, guard, postgres.new(), postgres, monkeypatch)
    try:
        rows = history.run()
    except BaseException as error:
        error.add_note(f"history {seed}: {', '.join(history.story)}")
        raise
    assert rows >= len(history.seen.rows) > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_history_of_servers_loses_nothing(seed, logit_guard, postgres, quick):
    of_servers(seed, logit_guard, postgres, quick)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_histories_of_servers_lose_nothing(seed, logit_guard, postgres, quick):
    of_servers(seed, logit_guard, postgres, quick)


@contextmanager
def replica_of(primary, folder):
    """A second server that follows the first, in a folder of its own; stopped by its own process id."""
    copy = Database(primary.binaries, folder)
    folder.mkdir()
    if copy._user:
        subprocess.run(["chown", "postgres:postgres", str(folder)], check=True)
    subprocess.run(
        [*copy._user, str(primary.binaries / "pg_basebackup"), "-D", str(folder / "data"), "-R", "-c", "fast",
         "--no-sync", "-d", primary.url + "&application_name=replica"],
        check=True, cwd=folder, timeout=_PATIENCE, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    copy.start()
    try:
        yield copy
    finally:
        copy.stop()


def wait_for(said):
    end = time.monotonic() + _PATIENCE
    while not said():
        assert time.monotonic() < end
        time.sleep(0.02)


def tell(database, query):
    with psycopg.connect(database.url, autocommit=True) as connection:
        return connection.execute(query).fetchone()[0]


def settings(database, **values):
    with psycopg.connect(database.url, autocommit=True) as connection:
        for name, value in values.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        connection.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("waited_for", [True, False], ids=["waited for", "behind"])
def test_a_replica_takes_over(waited_for, logit_guard, postgres, quick, monkeypatch):
    folder = postgres.folder / ("sync" if waited_for else "async")
    with replica_of(postgres, folder) as replica:
        if waited_for:
            settings(postgres, synchronous_standby_names="*")
            wait_for(lambda: tell(postgres, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"))
        both = (f"postgresql://{postgres.account}@/postgres?host={postgres.folder},{folder}"
                "&target_session_attrs=read-write")  # fmt: skip
        schema = postgres.new().rpartition("%3D")[2]
        history = Servers(1, logit_guard, f"{both}&options=-csearch_path%3D{schema}", postgres, monkeypatch)
        history.service = history.start(history.path, history.seen, False)
        history.traffic(groups=5)
        if not waited_for:
            wait_for(lambda: tell(postgres, "SELECT pg_current_wal_lsn() = replay_lsn FROM pg_stat_replication"))
            settings(replica, primary_conninfo="")  # it hears nothing more
            wait_for(lambda: not tell(postgres, "SELECT count(*) FROM pg_stat_replication"))
            history.traffic(groups=3)
        postgres.stop(signal.SIGQUIT)
        try:
            tell(replica, "SELECT pg_promote(true, 30)")
            if waited_for:
                settings(replica, synchronous_standby_names="")
                history.wait()
                history.traffic(groups=3)
                history.service.end()
                history.seen.check(history.path, logit_guard, replay=True)
            else:
                for _ in range(3):
                    history.traffic(refused=True)
                    time.sleep(0.1)
                assert "older" in history.service.engine.failure
                assert not history.service.ready
                newest = tell(replica, f"SELECT max(seq) FROM {schema}.caveat_records")
                assert newest < history.service.engine.trail.seq
                history.service.end()
        finally:
            postgres.start()
            settings(postgres, synchronous_standby_names="")
    if not waited_for:  # the first server has it all
        history.seen.check(f"{postgres.url}&options=-csearch_path%3D{schema}", logit_guard, replay=True)
