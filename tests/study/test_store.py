"""The store holds whole cells or none, and says clearly when it cannot be written."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from caveat import InputError, MissingExtraError
from caveat._internal.files import temporary_name
from caveat.errors import StoreError
from caveat.evaluation.records import Block, Detection, Left, Method
from caveat_lab.experiments import Cell, Failure, Plan, Store
from caveat_lab.experiments import store as module

CELL = Cell("run.py:one", {"a": 1}, label="a=1")
ROWS = [Left(Block("net", outlier=f"o{i}"), Method("msp", (("k", i / 7),)), "needs logits") for i in range(50)]
PLAN = Plan.parse('[task]\nrun = "run.py:one"\n[grid]\na = [1]')


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "runs" / "x")
    made.prepare(PLAN, [CELL])
    return made


@contextlib.contextmanager
def not_writable(folder):
    """A folder that really cannot be written, also where the tests run as root."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_cell_is_written_and_read_back_with_its_facts(store):
    assert not store.has(CELL.key)
    store.write(CELL, ROWS, {"seconds": 1.5})
    found = store.read(CELL.key)
    assert list(store.records(CELL.key)) == ROWS
    assert (found.facts["key"], found.facts["params"], found.facts["seconds"]) == (CELL.key, {"a": 1}, 1.5)
    assert store.facts(CELL.key) == found.facts
    assert store.is_sound(CELL.key)


def test_one_kind_of_records(store):
    found = Detection(Block("net"), Method("msp"))
    store.write(CELL, [*ROWS, found])
    assert list(store.records(CELL.key, [Detection])) == [found]
    assert list(store.records(CELL.key, [])) == []


def test_rows_of_a_task_and_no_rows_at_all(store):
    store.write(CELL, [{"name": "a", "ok": True, "k": 3, "auc": 0.5}, {"name": "b", "ok": False, "k": 4, "auc": None}])
    assert store.read(CELL.key).table.to_pylist()[1] == {"name": "b", "ok": False, "k": 4, "auc": None}
    assert list(store.records(CELL.key)) == []
    store.write(CELL, [])
    assert store.read(CELL.key).table.num_rows == 0
    with pytest.raises(InputError, match="each column of a task's rows must hold one type"):
        store.write(CELL, [{"a": 1}, {"a": "text"}])


def test_a_cell_under_a_wrong_name_is_noticed(store):
    store.write(CELL, ROWS)
    store.path(CELL.key).rename(store.path("0" * 32))
    assert not store.is_sound("0" * 32)
    with pytest.raises(InputError, match="is not what its name says"):
        store.read("0" * 32)


def test_what_is_not_there_is_named(store, tmp_path):
    with pytest.raises(InputError, match="is not in"):
        store.read("abc")
    with pytest.raises(InputError, match="is not a study: there is no such folder"):
        Store(tmp_path / "gone").plan()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is not a study"):
        Store(tmp_path / "empty").plan()


def test_a_failure_is_kept_until_the_cell_succeeds(store):
    failure = Failure(CELL.key, "a=1", "ValueError", "no", "Traceback ...")
    store.write_failure(failure)
    assert store.failure(CELL.key) == failure
    store.write(CELL, ROWS)
    assert store.failure(CELL.key) is None
    assert not list((store.folder / "failures").iterdir())


def test_a_damaged_record_of_a_failure_is_still_a_failure(store):
    (store.folder / "failures" / f"{CELL.key}.json").write_text("{")
    assert store.failure(CELL.key).message == "its record cannot be read"


def test_preparing_twice_writes_nothing(store):
    before = {path: path.stat().st_mtime_ns for path in store.folder.iterdir() if path.is_file()}
    store.prepare(PLAN, [CELL])
    assert {path: path.stat().st_mtime_ns for path in store.folder.iterdir() if path.is_file()} == before
    assert store.plan()["cells"][0]["key"] == CELL.key
    assert (store.folder / "plan.toml").read_text() == PLAN.text


def test_a_plan_that_was_no_file_leaves_no_file_of_another(store):
    store.prepare(Plan.from_dict(PLAN.content), [CELL])
    assert not (store.folder / "plan.toml").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"is not a study \(it holds thesis\.tex\)"):
        Store(tmp_path).prepare(PLAN, [CELL])
    with pytest.raises(StoreError, match="is a file"):
        Store(tmp_path / "thesis.tex").prepare(PLAN, [CELL])


def test_a_read_only_store_gives_one_sentence_and_loses_nothing():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        store = Store(Path(name) / "x")
        store.prepare(PLAN, [CELL])
        store.write(CELL, ROWS)
        for part in (store.folder, store.folder / "cells", store.folder / "failures", store.folder / "active"):
            part.chmod(0o755)
        other = Cell("run.py:one", {"a": 2})
        with not_writable(store.folder / "cells"), pytest.raises(StoreError, match=r"cannot be written \(Permission"):
            store.write(other, ROWS)
        with not_writable(store.folder), pytest.raises(StoreError, match=r"cannot be written \(Permission denied\)"):
            store.prepare(PLAN, [CELL, other])
        assert store.is_sound(CELL.key)
        assert [path.name for path in (store.folder / "cells").iterdir()] == [f"{CELL.key}.arrow"]


def test_a_full_disk_gives_one_sentence_and_loses_nothing(store, monkeypatch, tmp_path):
    store.write(CELL, ROWS)
    # The kernel answers every write with "no space left on device". A link, because pyarrow removes what it could not
    # finish: under its own name the device itself would be gone.
    (tmp_path / "full").symlink_to("/dev/full")

    @contextlib.contextmanager
    def on_a_full_disk(path):
        yield tmp_path / "full"

    monkeypatch.setattr(module, "replacing_file", on_a_full_disk)
    with pytest.raises(StoreError, match=r"cannot be written \(.*No space left on device"):
        store.write(Cell("run.py:one", {"a": 2}), ROWS)
    assert store.is_sound(CELL.key)
    assert Path("/dev/full").is_char_device()


def test_leftovers_are_cleared_only_by_a_run_that_is_alone(store):
    leftover, plan = store.folder / "cells" / temporary_name(".arrow"), store.folder / temporary_name(".json")
    leftover.write_text("half")
    plan.write_text("half")
    outputs = store.folder / "outputs" / temporary_name()
    outputs.mkdir(parents=True)
    for half in (leftover, plan, outputs):
        os.utime(half, (time.time() - 100,) * 2)
    note = store.folder / "active" / f"{socket.gethostname()}-{os.getppid()}"
    note.touch()
    with store.at_work() as others:
        assert others == 1
        assert leftover.exists()
    note.unlink()
    with store.at_work() as others:
        assert others == 0
    assert not leftover.exists()
    assert not list(store.folder.glob(".*"))
    assert not list((store.folder / "outputs").iterdir())
    assert not list((store.folder / "active").iterdir())


def test_what_a_run_that_begins_a_moment_later_writes_is_left_alone(store, monkeypatch):
    clear, half = Store._clear_leftovers, store.folder / "cells" / temporary_name(".arrow")

    def meanwhile(self, **when):
        half.write_text("another run is writing this")
        clear(self, **when)

    monkeypatch.setattr(Store, "_clear_leftovers", meanwhile)
    plan = store.folder / temporary_name(".json")  # written before a run says that it is at work
    plan.touch()
    os.utime(plan, (time.time() - 5,) * 2)
    with store.at_work():
        assert half.exists()
        assert plan.exists()


def test_a_folder_with_the_plan_of_somebody_else_is_left_alone(tmp_path):
    theirs = tmp_path / "plan.json"
    theirs.write_text('{"resources": []}')
    with pytest.raises(StoreError, match=r"is not a study \(it holds a plan.json that is not ours\)"):
        Store(tmp_path).prepare(PLAN, [CELL])
    with pytest.raises(InputError, match="its plan.json is not ours. Give the folder that caveat study wrote"):
        Store(tmp_path).plan()
    assert theirs.read_text() == '{"resources": []}'


def test_a_damaged_plan_is_written_again(store):
    (store.folder / "plan.json").write_text('{"format": 1')
    with pytest.raises(InputError, match="plan.json is damaged"):
        store.plan()
    store.prepare(PLAN, [CELL])
    assert store.plan()["title"] == PLAN.title


def test_a_plan_that_appears_while_the_folder_is_looked_at_is_no_stranger(tmp_path, monkeypatch):
    folder, look = tmp_path / "runs", Path.iterdir
    (folder / "cells").mkdir(parents=True)

    def meanwhile(self):
        if self == folder:
            (folder / "plan.json").touch()
        return look(self)

    monkeypatch.setattr(Path, "iterdir", meanwhile)
    Store(folder).prepare(PLAN, [CELL])


def test_of_two_runs_that_begin_at_once_one_counts_as_the_earlier(store, monkeypatch):
    pids = [os.getpid(), os.getppid()]
    monkeypatch.setattr("os.getpid", lambda: pids[0])
    with store.at_work() as first:
        note = next((store.folder / "active").iterdir())
        monkeypatch.setattr("os.getpid", lambda: pids[1])
        with store.at_work() as second:
            assert (first, second) == (0, 1)
        os.utime(note, (time.time() + 60,) * 2)  # as if it had looked around before the other, and begun after it
        with store.at_work() as third:
            assert third == 0


def test_a_killed_run_does_not_count_as_active(store):
    dead = store.folder / "active" / f"{socket.gethostname()}-4194999"  # above any process number
    dead.touch()
    with store.at_work() as others:
        assert others == 0
    assert not dead.exists()


def test_without_pyarrow_the_extra_is_named_at_once(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'caveat\[stats\]'"):
        Store(tmp_path)


def test_links_are_refused_and_nothing_behind_them_is_deleted(tmp_path):
    elsewhere, folder = tmp_path / "home", tmp_path / "s"
    (elsewhere / ".ssh").mkdir(parents=True)
    (elsewhere / ".ssh" / "id").write_text("secret")
    (elsewhere / ".profile").write_text("mine")
    (elsewhere / temporary_name()).mkdir()
    folder.mkdir()
    for part in ("cells", "failures", "outputs", "active"):
        (folder / part).symlink_to(elsewhere)
        for path in (elsewhere, *elsewhere.iterdir()):
            os.utime(path, (0, 0))
        with pytest.raises(StoreError, match=f"{part} is a link"):
            Store(folder).prepare(PLAN, [CELL])
        if part != "active":
            with Store(folder).at_work():  # also without the check
                pass
        assert len(list(elsewhere.iterdir())) == 3
        assert (elsewhere / ".ssh" / "id").read_text() == "secret"
        (folder / part).unlink()
        shutil.rmtree(folder / "active", ignore_errors=True)


def test_only_our_own_temporary_names_are_cleared(store):
    theirs = [store.folder / "cells" / name for name in (".ssh", ".git", ".caveat-notes", ".abc.arrow.x1")]
    for folder in theirs:
        folder.mkdir()
        (folder / "id").write_text("secret")
    link = store.folder / "cells" / temporary_name()
    link.symlink_to(theirs[0])
    for path in theirs:
        os.utime(path, (0, 0))
    os.utime(link, (0, 0), follow_symlinks=False)
    with store.at_work():
        pass
    assert all((folder / "id").exists() for folder in theirs)
    assert link.is_symlink()


def test_a_plan_file_that_no_study_wrote_is_left_alone(tmp_path):
    (tmp_path / "plan.toml").write_text("# mine")
    for plan in (PLAN, Plan.from_dict(PLAN.content)):
        with pytest.raises(StoreError, match="plan.toml that no study wrote"):
            Store(tmp_path).prepare(plan, [CELL])
    assert (tmp_path / "plan.toml").read_text() == "# mine"
    (tmp_path / "plan.toml").write_text(PLAN.text)  # the plan that is run may lie in the folder of its study
    Store(tmp_path).prepare(PLAN, [CELL])
    other = Plan.parse(PLAN.text + "\n")
    with pytest.raises(StoreError, match="plan.toml that no study wrote"):
        Store(tmp_path).prepare(other, [CELL])
    assert (tmp_path / "plan.toml").read_text() == PLAN.text


def test_a_plan_may_change_also_after_a_kill_between_its_two_files(store):
    other = Plan.parse(PLAN.text + "\n")
    store.prepare(other, [CELL])
    assert (store.folder / "plan.toml").read_text() == other.text
    (store.folder / "plan.toml").write_text(PLAN.text)  # plan.json was written, plan.toml was not
    store.prepare(other, [CELL])
    assert (store.folder / "plan.toml").read_text() == other.text


def test_a_plan_with_line_ends_of_windows_may_be_prepared_twice_and_changed(tmp_path):
    for text in (PLAN.text, PLAN.text, PLAN.text + "\n"):
        (tmp_path / "p.toml").write_bytes(text.replace("\n", "\r\n").encode())
        Store(tmp_path / "runs").prepare(Plan.read(tmp_path / "p.toml"), [CELL])
    assert (tmp_path / "runs" / "plan.toml").read_text() == PLAN.text + "\n"


@pytest.mark.parametrize("where", ["x" * 300, "file", "file/inner"])
def test_a_place_where_no_store_can_be_is_one_sentence(tmp_path, where):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="cannot be written|is a file"):
        Store(tmp_path / where).prepare(PLAN, [CELL])


NUMBERS = [{"name": f"o{i}", "lower": i / 9, "value": i / 7} for i in range(50)]
CONTENTS = pytest.mark.parametrize(
    "rows",
    [ROWS, NUMBERS, [{"name": "a", "ok": True, "k": 3, "auc": None}], []],
    ids=["records", "rows", "one", "none"],
)


@CONTENTS
def test_no_changed_byte_of_a_cell_gets_through(store, rows):
    store.write(CELL, rows, {"seconds": 1.5})
    path = store.path(CELL.key)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(whole), size=250, replace=False):
        content = bytearray(whole)
        content[place] ^= 1 << rng.integers(8)
        path.write_bytes(content)
        with pytest.raises(InputError, match="is damaged"):
            store.read(CELL.key)
    path.write_bytes(whole)
    assert store.is_sound(CELL.key)


@CONTENTS
def test_a_cell_that_was_cut_off_or_grew_is_damaged(store, rows):
    store.write(CELL, rows)
    path = store.path(CELL.key)
    whole = path.read_bytes()
    for content in (b"", whole[:10], whole[:-1], whole[:-32], whole + b"x", b"x" + whole):
        path.write_bytes(content)
        assert not store.is_sound(CELL.key)


def test_records_of_another_version_are_computed_again(store):
    """Sealed as this version would, but with a field that its records do not have."""
    import hashlib

    import pyarrow as pa

    store.write(CELL, ROWS)
    table = store.read(CELL.key).table
    column = table.column(0).combine_chunks()
    names = [field.name for field in column.type] + ["new"]
    wider = pa.StructArray.from_arrays([*column.flatten(), pa.nulls(len(column))], names=names)
    sink = pa.BufferOutputStream()
    changed = pa.table({table.column_names[0]: wider}).replace_schema_metadata(table.schema.metadata)
    with pa.ipc.new_stream(sink, changed.schema) as stream:
        stream.write_table(changed)
    content = sink.getvalue().to_pybytes()
    store.path(CELL.key).write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(InputError, match="other fields"):
        store.read(CELL.key)


def test_a_cell_can_be_read_by_any_arrow_reader(store):
    import pyarrow as pa

    store.write(CELL, NUMBERS)
    with pa.OSFile(str(store.path(CELL.key))) as file:
        assert pa.ipc.open_stream(file).read_all().to_pylist() == NUMBERS
