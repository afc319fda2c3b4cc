"""Damaged files, foreign files, folders without rights, a full disk: one sentence, and nothing of others is touched."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.serve.conftest import draw, serving
from tests.serve.trails import feed

from caveat.errors import CaveatError, InputError
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.verify import verify_trail
from caveat.serve.trail import Trail


def filled(path, guard, *, rows=20_000):
    store = SqliteStore(path)
    trail = Trail(guard, store)
    feed(trail, guard, [rows // 20] * 20, seed=1)
    store.close()
    return path


def test_a_file_of_another_program_is_refused_and_stays_as_it_is(tmp_path):
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text TEXT)")
    connection.commit()
    connection.close()
    content = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(InputError, match="not an audit file"):
            SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"not a database " * 100, b"SQLite format 3\x00" + b"\xff" * 4096, b"x"])
def test_other_bytes_are_refused_and_stay_as_they_are(tmp_path, content):
    path = tmp_path / "audit.sqlite"
    path.write_bytes(content)
    for read_only in (False, True):
        with pytest.raises(InputError):
            SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN UPDATE records SET at = '2000' WHERE seq = new.seq; END",
        "CREATE VIEW shown AS SELECT * FROM records",
        "CREATE TABLE notes (text TEXT)",
    ],
)
def test_what_could_change_records_while_they_are_written_is_refused(tmp_path, logit_guard, statement):
    path = filled(tmp_path / "audit.sqlite", logit_guard, rows=40)
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    for read_only in (False, True):
        with pytest.raises(InputError, match="not an audit file"):
            SqliteStore(path, read_only=read_only)


def test_paths_that_are_no_file_are_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        SqliteStore(tmp_path / "none.sqlite", read_only=True)
    assert not list(tmp_path.iterdir())  # reading makes nothing
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError):
        SqliteStore(tmp_path / "file" / "audit.sqlite")
    with pytest.raises(InputError, match="folder"):
        SqliteStore(tmp_path, read_only=True)
    with pytest.raises(InputError):
        SqliteStore(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "zeros", "noise"])
def test_a_torn_file_is_found_and_named(tmp_path, logit_guard, damage):
    path = filled(tmp_path / "audit.sqlite", logit_guard)
    size = path.stat().st_size
    with path.open("r+b") as stream:
        if damage == "cut":
            stream.truncate(size // 2 // 4096 * 4096)
        else:
            stream.seek(size // 2 // 4096 * 4096)
            stream.write(bytes(20 * 4096) if damage == "zeros" else os.urandom(20 * 4096))
    try:
        store = SqliteStore(path, read_only=True)
    except InputError:
        return  # already seen when the file is opened
    result = verify_trail(store)
    store.close()
    assert not result.sound
    assert result.reason
    store = SqliteStore(path)
    with pytest.raises(InputError, match="damaged"):
        Trail(logit_guard, store)
    store.close()


@contextmanager
def another_user():
    """As a user without rights, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder():
    """A folder that every user can read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_stopped_trail_is_read_in_a_folder_without_write_access(open_folder, logit_guard):
    path = filled(open_folder / "audit.sqlite", logit_guard, rows=40)
    path.chmod(0o644)
    open_folder.chmod(0o555)
    with another_user():
        store = SqliteStore(path, read_only=True)
        assert verify_trail(store).verdicts == 40
        store.close()
        with pytest.raises((PermissionError, InputError)):
            SqliteStore(path)
        with pytest.raises((PermissionError, InputError)):
            SqliteStore(open_folder / "new.sqlite")


def test_a_read_only_store_writes_nothing(tmp_path, logit_guard):
    path = filled(tmp_path / "audit.sqlite", logit_guard, rows=40)
    store = SqliteStore(path, read_only=True)
    with pytest.raises(CaveatError):
        store.set_header({"a": "b"})
    store.close()


def test_a_full_disk_is_answered_503_until_there_is_room(guards, logit_guard, tmp_path):
    path = tmp_path / "audit.sqlite"
    with serving(guards["logits"], path) as service:
        pid, (_, hard) = service.process.pid, resource.getrlimit(resource.RLIMIT_FSIZE)
        assert service.post({}, logits=draw(3, seed=1).logits).status_code == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))  # no file of this process may grow
        for seed in (2, 3):
            answer = service.post({}, logits=draw(3, seed=seed).logits)
            assert answer.status_code == 503
            assert "audit" in answer.json()["error"]
            assert str(tmp_path) not in answer.json()["error"]
        assert service.client.get("/healthz").status_code == 200
        assert service.client.get("/readyz").status_code == 503
        assert service.live()["rows"] == 3
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        end = time.monotonic() + 20
        while service.client.get("/readyz").status_code != 200:  # comes back without a request
            assert time.monotonic() < end
            time.sleep(0.1)
        assert service.post({}, logits=draw(3, seed=4).logits).status_code == 200
        view = service.live(rows=6)
    store = SqliteStore(path, read_only=True)
    checked, result = verify_trail(store), replay_trail(logit_guard, store)
    store.close()
    assert checked.sound
    assert checked.verdicts == view["rows"] == 6
    assert result.sound
    assert {stream["name"]: stream["now"] for stream in view["drift"]["streams"]} == dict(result.log10_e)


def test_two_services_cannot_write_one_file(guards, tmp_path):
    path = tmp_path / "audit.sqlite"
    with serving(guards["logits"], path) as service:
        with pytest.raises(AssertionError, match="another service"), serving(guards["logits"], path):
            pass
        assert service.post({}, logits=draw(1, seed=1).logits).status_code == 200


def test_a_new_file_is_for_its_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        SqliteStore(tmp_path / "audit.sqlite").close()
    finally:
        os.umask(before)
    assert (tmp_path / "audit.sqlite").stat().st_mode & 0o077 == 0
