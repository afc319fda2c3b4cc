"""Folders of arrays are saved and read atomically and keep files of other origin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs
from caveat._internal import files
from caveat.outputs.files import FOLDER
from caveat.scores import KNN, Energy, load

# Every array holds one number, so that arrays of two saves are told apart.
COMMON = """
import json, os, random, signal, sys, time
import numpy as np
from caveat import Outputs
from caveat.scores import KNN, load as load_score

kind, folder, times, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def save(k, folder=folder):
    if kind == "outputs":
        cube = np.full((64, 8), float(k))
        Outputs(logits=cube, features=cube, embeddings=cube, confidence=cube[:, 0], layers={"a": cube}).save(folder)
    else:
        score = KNN(k=1).fit(Outputs(features=np.ones((8, 4))))
        score.bank_, score.more_, score.count_ = np.full((64, 8), float(k)), np.full(9, float(k)), k
        score.save(folder)

def duration():
    started = time.perf_counter()
    for k in range(3):
        save(0)
    return (time.perf_counter() - started) / 3

def numbers(folder=folder):
    if kind == "outputs":
        said = Outputs.load(folder)
        arrays = [said.logits, said.features, said.embeddings, said.confidence, said.layers["a"]]
    else:
        score = load_score(folder)
        arrays = [score.bank_, score.more_, np.array([score.count_])]
    return {float(x) for array in arrays for x in (array.min(), array.max())}
"""
KILLS = (
    COMMON
    + """
save(0)
chance, lost, mixed, usual = random.Random(seed), 0, 0, duration()
for turn in range(times):
    pid = os.fork()
    if pid == 0:
        for k in range(1_000_000):
            save(turn * 1000 + k)
    time.sleep(chance.random() * 4 * usual)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    try:
        found = numbers()
    except Exception as error:
        print(repr(error), file=sys.stderr)
        lost += 1
        save(0)
        continue
    mixed += len(found) != 1
save(7)
page = "caveat.json" if kind == "outputs" else "score.json"
with open(f"{folder}/{page}") as stream:
    listed = set(json.load(stream)["folder"]["files"].values())
left = {name for name in os.listdir(folder) if name.endswith(".npy")} ^ listed
print(lost, mixed, len(left), numbers() == {7.0})
"""
)
FIRST_SAVES = (
    COMMON
    + """
chance, broken, whole = random.Random(seed), 0, 0
folder, usual = folder + "/many", duration()
for turn in range(times):
    pid = os.fork()
    if pid == 0:
        for k in range(1_000_000):
            save(k, f"{folder}/{turn}-{k}")
    time.sleep(chance.random() * 5 * usual)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.startswith(f"{turn}-"):
            whole += 1
            broken += numbers(f"{folder}/{name}") != {float(name.split("-")[1])}
print(broken, whole)
"""
)
EVERY_STEP = (
    COMMON
    + """
save(0)
step = lost = mixed = 0
done = False
while not done:
    step += 1
    pid = os.fork()
    if pid == 0:
        left = [step]
        def counting(act):
            def acting(*args, **how):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return act(*args, **how)
            return acting
        for name in ("rename", "replace", "unlink", "fsync", "mkdir", "rmdir"):
            setattr(os, name, counting(getattr(os, name)))
        save(step)
        os._exit(0)
    done = os.waitpid(pid, 0)[1] == 0
    try:
        mixed += len(numbers()) != 1
    except Exception as error:
        print(repr(error), file=sys.stderr)
        lost += 1
        save(0)
print(step, lost, mixed)
"""
)
READERS = (
    COMMON
    + """
save(0)
pid = os.fork()
if pid == 0:
    for k in range(1_000_000):
        save(k)
lost = mixed = 0
seen = set()
for _ in range(times):
    try:
        found = numbers()
    except Exception as error:
        print(repr(error), file=sys.stderr)
        lost += 1
        continue
    mixed += len(found) != 1
    seen |= found
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
print(lost, mixed, len(seen))
"""
)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
slow = pytest.mark.slow


def drive(script, *args):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@forks
@pytest.mark.parametrize("kind", ["outputs", "score"])
@pytest.mark.parametrize("kills", [40, pytest.param(400, marks=slow)])
def test_a_save_that_is_killed_loses_nothing_and_leaves_nothing(place, kind, kills):
    lost, mixed, left, last = drive(KILLS, kind, place, kills, 1)
    assert (lost, mixed, last) == ("0", "0", "True")
    assert left == "0"  # the next save removes what the killed ones left


@forks
@pytest.mark.parametrize("kind", ["outputs", "score"])
def test_a_save_that_is_killed_at_any_step_loses_nothing(place, kind):
    steps, lost, mixed = drive(EVERY_STEP, kind, place, 0, 0)
    assert int(steps) > 10
    assert (lost, mixed) == ("0", "0")


@forks
@pytest.mark.parametrize("kills", [10, pytest.param(400, marks=slow)])
def test_a_first_save_that_is_killed_leaves_the_whole_folder_or_none(place, kills):
    broken, whole = drive(FIRST_SAVES, "outputs", place, kills, 2)
    assert broken == "0"
    assert int(whole) > 0


@forks
@pytest.mark.parametrize("kind", ["outputs", "score"])
@pytest.mark.parametrize("loads", [250, pytest.param(5000, marks=slow)])
def test_a_reader_never_gets_arrays_of_two_saves(place, kind, loads):
    lost, mixed, seen = drive(READERS, kind, place, loads, 3)
    assert (lost, mixed) == ("0", "0")
    assert int(seen) > 1  # it was replaced meanwhile


@pytest.fixture
def place(request, tmp_path):
    """A folder for many saves: in memory, where waiting for the disk takes no time; on the disk for the long tests."""
    memory = Path("/dev/shm")
    if request.node.get_closest_marker("slow") or not os.access(memory, os.W_OK):
        yield tmp_path / "x"
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name) / "x"


@pytest.fixture
def saved(tmp_path):
    Outputs(logits=np.zeros((2, 3))).save(tmp_path / "said")
    return tmp_path / "said"


@pytest.mark.parametrize("content", ["{}", '{"format": "recipes"}', "[1]", "{", '{"format": "caveat-score"}'])
def test_a_folder_with_the_page_of_somebody_else_is_left_alone(tmp_path, content):
    (tmp_path / "caveat.json").write_text(content)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="was not written by Caveat .* left alone"):
        Outputs(logits=np.zeros((2, 3))).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["caveat.json", "thesis.tex"]
    assert (tmp_path / "caveat.json").read_text() == content


def test_a_folder_without_a_page_is_left_alone(tmp_path):
    np.save(tmp_path / "logits.npy", np.ones((2, 3)))  # made by hand
    with pytest.raises(InputError, match="was not written by Caveat"):
        Outputs(logits=np.zeros((2, 3))).save(tmp_path)
    assert Outputs.load(tmp_path).logits.max() == 1


@pytest.mark.parametrize("save", [Outputs(logits=np.zeros((2, 3))).save, Energy().save], ids=["outputs", "score"])
def test_files_of_other_people_survive_a_save(tmp_path, save):
    folder = tmp_path / "x"
    save(folder)
    np.save(folder / "mine.npy", np.ones(3))
    (folder / "notes.txt").write_text("mine")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.txt").write_text("mine")
    (folder / ".hidden").write_text("mine")
    save(folder)
    save(folder)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert found >= {"mine.npy", "notes.txt", "sub/deep.txt", ".hidden"}


def test_a_file_of_the_page_that_became_a_link_is_not_followed(tmp_path, saved):
    np.save(tmp_path / "precious.npy", np.ones(3))
    (saved / "logits.npy").unlink()
    (saved / "logits.npy").symlink_to(tmp_path / "precious.npy")
    Outputs(logits=np.zeros((2, 3))).save(saved)
    assert (tmp_path / "precious.npy").exists()
    assert (saved / "logits.npy").is_symlink()


@pytest.mark.parametrize("name", ["../precious.npy", "precious.txt", "sub/precious.npy", "/etc/precious.npy", 7])
def test_a_page_that_lists_files_elsewhere_deletes_nothing_and_reads_nothing(tmp_path, saved, name):
    (tmp_path / "precious.npy").write_text("mine")
    (saved / "precious.txt").write_text("mine")
    page = json.loads((saved / "caveat.json").read_text())
    page["folder"]["files"]["logits.npy"] = name
    (saved / "caveat.json").write_text(json.dumps(page))
    with pytest.raises(InputError, match="not in its folder"):
        Outputs.load(saved)
    with pytest.raises(InputError, match="left alone"):
        Outputs(logits=np.zeros((2, 3))).save(saved)
    assert (tmp_path / "precious.npy").exists()
    assert (saved / "precious.txt").exists()


def test_a_name_that_was_given_up_belongs_to_whoever_takes_it(saved):
    Outputs(logits=np.ones((2, 3))).save(saved)  # its file has another name
    assert not (saved / "logits.npy").exists()
    np.save(saved / "logits.npy", np.full((2, 3), 5.0))
    with pytest.warns(CaveatWarning, match="logits.npy"):
        assert Outputs.load(saved).logits.max() == 1
    Outputs(logits=np.zeros((2, 3))).save(saved)
    assert np.load(saved / "logits.npy").max() == 5


def test_a_first_save_has_plain_names(tmp_path):
    for folder in (tmp_path / "new", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        Outputs(logits=np.zeros((2, 3)), labels=[0, 1]).save(folder)
        assert sorted(path.name for path in folder.iterdir()) == ["caveat.json", "labels.npy", "logits.npy"]


def test_a_folder_of_version_1_is_read_and_replaced(tmp_path):
    np.save(tmp_path / "logits.npy", np.ones((2, 3)))
    np.save(tmp_path / "layer.a%2Fb.npy", np.ones((2, 3)))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "caveat.json").write_text('{"format": "caveat-outputs", "version": 1, "n": 2}')
    assert Outputs.load(tmp_path).layers["a/b"].max() == 1
    Outputs(logits=np.zeros((4, 3))).save(tmp_path)
    assert Outputs.load(tmp_path).n == 4
    assert not (tmp_path / "logits.npy").exists()
    assert not (tmp_path / "layer.a%2Fb.npy").exists()
    assert (tmp_path / "notes.txt").exists()


def test_a_score_of_version_1_is_read_and_replaced(tmp_path, train):
    KNN(k=3).fit(train).save(tmp_path / "s")
    page = json.loads((tmp_path / "s" / "score.json").read_text())
    del page["folder"], page["crc32"]
    (tmp_path / "s" / "score.json").write_text(json.dumps(page | {"version": 1}))
    assert isinstance(load(tmp_path / "s"), KNN)
    np.save(tmp_path / "s" / "mine.npy", np.ones(3))
    Energy().save(tmp_path / "s")
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["mine.npy", "score.json"]


def test_what_was_memory_mapped_before_a_save_stays_readable(saved):
    before = Outputs.load(saved, check=False)
    Outputs(logits=np.ones((5, 3))).save(saved)
    assert before.logits.max() == 0
    Outputs.load(saved).save(saved)  # onto itself
    assert Outputs.load(saved).logits.min() == 1


def test_a_failed_save_leaves_the_old_content_and_no_other(tmp_path, saved):
    with pytest.raises(RuntimeError), FOLDER.saving(saved) as staged:  # noqa: PT012
        (staged / "logits.npy").write_text("half")
        raise RuntimeError
    assert sorted(path.name for path in saved.iterdir()) == ["caveat.json", "logits.npy"]
    assert list(tmp_path.iterdir()) == [saved]


def test_a_page_that_cannot_be_written_leaves_the_old_content(saved, monkeypatch):
    def full(path, content):
        raise OSError("no space")

    monkeypatch.setattr("caveat._internal.folders.write_json", full)
    with pytest.raises(OSError, match="no space"):
        Outputs(logits=np.ones((2, 3))).save(saved)
    assert Outputs.load(saved).logits.max() == 0


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    for value in (1.0, 2.0):
        Outputs(logits=np.full((2, 3), value)).save(tmp_path / "near")
    assert (tmp_path / "near").is_symlink()
    assert Outputs.load(tmp_path / "far").logits.max() == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the names of open files")
def test_everything_is_on_the_disk_before_the_page_that_names_it(tmp_path, saved, monkeypatch):
    events = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def record(what, act):
        def acting(*args, **how):
            events.append((what, *(os.readlink(f"/proc/self/fd/{a}") if what == "sync" else str(a) for a in args)))
            return act(*args, **how)

        return acting

    for name, act in (("fsync", fsync), ("replace", replace), ("rename", rename)):
        monkeypatch.setattr(os, name, record("sync" if name == "fsync" else "move", act))
    Outputs(logits=np.ones((2, 3)), features=np.ones((2, 3))).save(saved)
    page = next(i for i, e in enumerate(events) if e[0] == "move" and e[2] == str(saved / "caveat.json"))
    moved = [e for e in events[:page] if e[0] == "move" and e[2].endswith(".npy")]
    assert len(moved) == 2
    for event in moved:  # the content, then the name in the folder
        start = events.index(event)
        assert ("sync", event[1]) in events[:start]
        assert ("sync", str(saved)) in events[start:page]
    assert ("sync", events[page][1]) in events[:page]
    assert ("sync", str(saved)) in events[page:]
    events.clear()
    Outputs(logits=np.ones((2, 3))).save(tmp_path / "new")
    last = next(i for i, e in enumerate(events) if e[0] == "move" and e[2] == str(tmp_path / "new"))
    synced = {Path(e[1]).name for e in events[:last] if e[0] == "sync"}
    assert {"logits.npy", Path(events[last][1]).name} <= synced
    assert ("sync", str(tmp_path)) in events[last:]


def test_leftovers_of_a_killed_process_are_removed_and_those_of_a_live_one_are_not(tmp_path, saved):
    dead, young, theirs = (tmp_path / name for name in (files.temporary_name(), files.temporary_name(), ".caveat-x"))
    for folder in (dead, young, theirs):
        folder.mkdir()
        (folder / "logits.npy").write_text("half")
    os.utime(dead, (time.time() - 100,) * 2)
    os.utime(theirs, (time.time() - 100,) * 2)
    (tmp_path / files.temporary_name()).symlink_to(theirs)
    with FOLDER.saving(tmp_path / "live") as live:
        os.utime(live, (time.time() - 100,) * 2)
        Outputs(logits=np.zeros((2, 3))).save(tmp_path / "other")
        assert live.exists()
        Outputs(logits=np.zeros((2, 3))).save(live / "inner")  # the block must write a page
        (live / "inner" / "caveat.json").rename(live / "caveat.json")
        (live / "inner" / "logits.npy").rename(live / "logits.npy")
        (live / "inner").rmdir()
    assert Outputs.load(tmp_path / "live").n == 2
    assert not dead.exists()
    assert young.exists()
    assert (theirs / "logits.npy").exists()


def test_leftover_files_of_a_killed_process_are_removed_and_those_of_a_live_one_are_not(tmp_path, saved):
    dead, young = (saved / files.temporary_name(".json") for _ in range(2))
    theirs = [saved / name for name in (".caveat-0123.json", "notes.json", "x.caveat-0123456789abcdef.json")]
    for file in (dead, young, *theirs):
        file.write_text("half")
    with files.replacing_file(saved / "mine.json") as live:
        for file in (dead, live, *theirs):
            os.utime(file, (time.time() - 100,) * 2)
        Outputs(logits=np.zeros((2, 3))).save(saved)
        assert live.exists()
    assert not dead.exists()
    assert young.exists()
    assert all(file.exists() for file in theirs)
    assert (saved / "mine.json").exists()


def test_of_two_first_saves_at_once_the_later_one_wins_and_leaves_nothing(tmp_path):
    target = tmp_path / "x"
    with FOLDER.saving(target) as staged:
        np.save(staged / "logits.npy", np.ones((2, 3)))
        files.write_json(staged / "caveat.json", {"format": "caveat-outputs", "version": 2, "n": 2})
        Outputs(logits=np.zeros((4, 3)), labels=[0, 1, 2, 0]).save(target)
    found = Outputs.load(target)
    assert (found.n, found.labels) == (2, None)
    assert len(list(target.iterdir())) == 2


def test_names_at_the_limit_of_the_file_system_can_be_saved_twice(tmp_path):
    name = "x" * (255 - len("layer..npy"))
    for value in (1.0, 2.0):
        Outputs(layers={name: np.full((2, 3), value), name[:-1]: np.full((2, 3), -value)}).save(tmp_path / "x")
        layers = Outputs.load(tmp_path / "x").layers
        assert (layers[name].max(), layers[name[:-1]].max()) == (value, -value)


@pytest.mark.parametrize("where", ["x" * 300, "file/x", "file", "y/" + "x" * 300])
def test_a_place_where_no_folder_can_be_is_one_sentence(tmp_path, where):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="Check the path|Choose another path"):
        Outputs(logits=np.zeros((2, 3))).save(tmp_path / where)
    with pytest.raises(InputError):
        Outputs.load(tmp_path / where)
    with pytest.raises(InputError):
        load(tmp_path / where)
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(InputError, match="cannot be written"):
        Outputs(layers={"x" * 300: np.zeros((2, 3))}).save(tmp_path / "long")
    assert not (tmp_path / "long").exists()
