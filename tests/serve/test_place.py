"""The audit file is renamed, removed, replaced, linked or opened twice while a service writes: nothing is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest
from tests.serve.conftest import draw, serving
from tests.serve.trails import feed

from caveat.errors import InputError, StoreError
from caveat.serve import open_store
from caveat.serve.audit.place import Place
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.verify import verify_trail
from caveat.serve.trail import Trail


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.sqlite"


@pytest.fixture
def trail(path, logit_guard):
    """A trail with 12 acknowledged rows."""
    store = SqliteStore(path)
    made = Trail(logit_guard, store)
    feed(made, logit_guard, [5, 4, 3], seed=1)
    yield made
    store.close()


def rows_in(path):
    """Verdicts in a sound trail; what was acknowledged and is not there is lost."""
    store = SqliteStore(path, read_only=True)
    result = verify_trail(store)
    store.close()
    assert result.sound, result.reason
    return result.verdicts


def refused(trail, guard):
    """The next rows are not acknowledged."""
    with pytest.raises(StoreError, match="not in its place"):
        feed(trail, guard, [2], seed=9)


def test_after_a_rename_nothing_is_acknowledged_and_the_renamed_file_holds_everything(trail, path, logit_guard):
    path.rename(path.with_suffix(".1"))
    for _ in range(3):
        refused(trail, logit_guard)
        trail.unsure = True
    assert rows_in(path.with_suffix(".1")) in (12, 14)  # the group that was refused may be there
    assert not path.exists()
    assert not path.with_name("audit.sqlite-wal").exists()  # nothing waits there for a file that will replace this one
    path.with_suffix(".1").rename(path)
    trail.recover()  # as logrotate that is undone
    feed(trail, logit_guard, [3], seed=3)
    assert rows_in(path) == trail.rows
    assert trail.rows in (15, 17)


@pytest.mark.parametrize("side", ["-wal", "-shm"])
def test_a_log_that_is_gone_before_it_is_watched_is_missed(trail, path, logit_guard, monkeypatch, side):
    def settled(place, settle=Place.settle):
        path.with_name(path.name + side).unlink()
        monkeypatch.setattr(Place, "settle", settle)
        settle(place)

    monkeypatch.setattr(Place, "settle", settled)
    trail.store.close()
    with pytest.raises((StoreError, FileNotFoundError)):
        feed(Trail(logit_guard, SqliteStore(path)), logit_guard, [1], seed=2)
    assert rows_in(path) in (12, 13)


def test_a_look_between_requests_finds_a_rename(trail, path):
    path.rename(path.with_suffix(".1"))
    for _ in range(2):  # and the second look does not call it well
        with pytest.raises(StoreError, match="not in its place"):
            trail.store.look_after()
    assert rows_in(path.with_suffix(".1")) == 12


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_removed_file_is_written_back_beside_its_place(trail, path, logit_guard, how, tmp_path):
    if how == "removed":
        for side in ("", "-wal", "-shm"):
            path.with_name(path.name + side).unlink()
    else:
        other = SqliteStore(tmp_path / "other.sqlite")
        feed(Trail(logit_guard, other), logit_guard, [1] * 7, seed=5)
        other.close()
        os.replace(tmp_path / "other.sqlite", path)
    refused(trail, logit_guard)
    refused(trail, logit_guard)
    trail.store.close()
    (rescued,) = tmp_path.glob("*rescued*")  # once
    assert rescued.name == "audit.sqlite.rescued"
    assert rescued.stat().st_mode & 0o077 == 0
    assert rows_in(rescued) in (12, 14)
    if how == "replaced":
        assert rows_in(path) == 7  # and the other one is as it was


def test_a_log_that_was_removed_is_moved_into_the_file_first(trail, path, logit_guard):
    path.with_name("audit.sqlite-wal").unlink()
    refused(trail, logit_guard)
    trail.recover()  # the file itself is in its place
    feed(trail, logit_guard, [3], seed=3)
    assert rows_in(path) == trail.rows


def test_the_file_is_watched_though_somebody_reads_it(trail, path, logit_guard):
    reader = trail.store.reader()
    with reader.reading():
        feed(trail, logit_guard, [6], seed=2)  # behind the moment that the reader sees
        path.rename(path.with_suffix(".1"))
        refused(trail, logit_guard)
        assert path.with_name("audit.sqlite-wal").exists()  # not let go before everything is in the file
    reader.close()
    with pytest.raises(StoreError):
        trail.store.look_after()
    assert rows_in(path.with_suffix(".1")) in (18, 20)


def killed_writer(path, guard):
    """As if a process had acknowledged 8 rows and was killed: they are in the log alone."""
    store = SqliteStore(path)
    feed(Trail(guard, store), guard, [8], seed=1)
    copies = {side: path.with_name(path.name + side).read_bytes() for side in ("", "-wal")}
    store.close()
    for side, content in copies.items():
        path.with_name(path.name + side).write_bytes(content)


def test_a_log_without_its_file_is_kept_and_named(path, logit_guard):
    killed_writer(path, logit_guard)
    path.rename(path.with_suffix(".1"))
    with pytest.raises(InputError, match="Give that file its name back"):
        SqliteStore(path)
    assert not path.exists()
    path.with_suffix(".1").rename(path)
    SqliteStore(path).close()
    assert rows_in(path) == 8


def test_a_log_beside_another_file_is_not_written_over_it(path, logit_guard, tmp_path):
    killed_writer(path, logit_guard)
    other = SqliteStore(tmp_path / "other.sqlite")
    feed(Trail(logit_guard, other), logit_guard, [1] * 400, seed=5, fold=False)
    other.close()
    content = (tmp_path / "other.sqlite").read_bytes()
    os.replace(tmp_path / "other.sqlite", path)
    for read_only in (True, False):
        with pytest.raises(InputError, match="the file was replaced"):
            SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == content
    path.with_name("audit.sqlite-wal").unlink()
    assert rows_in(path) == 400


def test_a_second_service_is_refused_by_any_name(path, guards, tmp_path):
    (tmp_path / "link.sqlite").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    with serving(guards["logits"], path) as service:
        assert service.post({}, logits=draw(1, seed=1).logits).status_code == 200
        for lock in tmp_path.glob("*.lock"):  # a lock that can be deleted is none
            lock.unlink()
        for name in (path, tmp_path / "link.sqlite", tmp_path / "folder" / "audit.sqlite"):
            with pytest.raises(InputError, match="another service"):
                SqliteStore(name)
        assert service.post({}, logits=draw(1, seed=2).logits).status_code == 200
        os.link(path, tmp_path / "hard.sqlite")
        for read_only in (False, True):
            with pytest.raises(InputError, match="hard links"):
                SqliteStore(tmp_path / "hard.sqlite", read_only=read_only)
        assert service.post({}, logits=draw(1, seed=3).logits).status_code == 503
        (tmp_path / "hard.sqlite").unlink()
        ready(service)
        assert service.post({}, logits=draw(1, seed=4).logits).status_code == 200
    assert rows_in(path) in (3, 4)


def test_the_same_process_does_not_lose_its_locks_by_opening_the_file_again(trail, path, logit_guard):
    """POSIX locks end when the process closes any handle of the file: another program could then drop the log."""
    for _ in range(2):
        with pytest.raises(InputError, match="another service"):
            SqliteStore(path)
        SqliteStore(path, read_only=True).close()
    code = (f"import sqlite3; c = sqlite3.connect({str(path)!r}); "
            "print(c.execute('SELECT count(*) FROM records').fetchone()); c.close()")  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
    assert path.with_name("audit.sqlite-wal").exists()  # the last to leave would have removed it
    feed(trail, logit_guard, [3], seed=3)
    assert trail.rows == 15


def test_a_service_answers_503_and_is_not_ready_until_the_file_is_back(path, guards, logit_guard):
    with serving(guards["logits"], path) as service:
        acknowledged = 0
        for seed in range(3):
            acknowledged += 2 * (service.post({}, logits=draw(2, seed=seed).logits).status_code == 200)
        assert acknowledged == 6
        path.rename(path.with_suffix(".1"))
        ready(service, status=503)  # without a request
        answer = service.post({}, logits=draw(2, seed=5).logits)
        assert answer.status_code == 503
        assert str(path) not in answer.text
        assert service.client.get("/healthz").status_code == 200
        path.with_suffix(".1").rename(path)
        ready(service)
        assert service.post({}, logits=draw(2, seed=6).logits).status_code == 200
    assert rows_in(path) == 8


def ready(service, *, status=200):
    """Wait until ``/readyz`` says so."""
    end = time.monotonic() + 20
    while service.client.get("/readyz").status_code != status:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_log_is_short_between_requests(trail, path):
    trail.store.look_after()
    copy = path.with_name("copy.sqlite")
    shutil.copy(path, copy)  # without the log
    assert rows_in(copy) == 12


def test_a_place_is_let_go(path):
    place = Place(path)
    with pytest.raises(InputError, match="another service"):
        Place(path)
    place.release()
    Place(path).release()


def test_a_file_that_another_program_writes_stays_readable(trail, path, logit_guard):
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT sum(rows) FROM records").fetchone() == (12,)
    connection.close()
    feed(trail, logit_guard, [1], seed=4)
    store = open_store(str(path), read_only=True)
    assert sum(record.entry.rows for record in store.records()) == 13
    store.close()
