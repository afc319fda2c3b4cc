"""The runner: killed at any moment it resumes to the same table, and a failure stays in its cell."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import caveat
from caveat import CaveatWarning, InputError
from caveat.errors import StoreError
from caveat.evaluation.records import Left
from caveat_lab.experiments import Plan, Store, StudyResults, run

SLOW_TASK = """
import time
import numpy as np

def one(k):
    time.sleep(0.03)
    with open("LOG", "a") as log:
        log.write(f"{k}\\n")
    rng = np.random.default_rng(k)
    return [{"i": i, "value": float(v)} for i, v in enumerate(rng.normal(size=200))]
"""
GRID = '[task]\nrun = "run.py:one"\n[grid]\nk = {}\n'
PROGRAM = """
import resource, sys
from caveat_lab.experiments import run
plan, store, limit = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
sys.exit(len(run(plan, store=store).missing))
"""


def start(plan, store, *, limit=0):
    """A run in a process of its own, that may write files up to a size."""
    environment = dict(os.environ, PYTHONPATH=str(Path(caveat.__file__).parent.parent), OMP_NUM_THREADS="1")
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(plan), str(store), str(limit)], env=environment, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def finished(store):
    return len(list((store / "cells").glob("[!.]*.arrow"))) if (store / "cells").is_dir() else 0


def slow_study(task_study, tmp_path, cells):
    log = tmp_path / "log.txt"
    log.touch()
    return task_study(SLOW_TASK.replace('"LOG"', repr(str(log))), GRID.format(list(range(cells)))), log


def csv_of(results, path):
    return results.to_csv(path).read_bytes()


def test_a_run_killed_several_times_ends_with_the_same_table(task_study, tmp_path):
    plan, _ = slow_study(task_study, tmp_path, cells=24)
    expected = csv_of(run(plan, store=tmp_path / "whole"), tmp_path / "whole.csv")
    store, rng = tmp_path / "killed", np.random.default_rng(0)
    seen = 0
    for _ in range(3):
        process = start(plan, store)
        deadline = time.monotonic() + 60
        while finished(store) <= seen and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.08))  # anywhere: in the task, in the write, between the two
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        assert process.returncode == -signal.SIGKILL
        assert seen < finished(store) < 24
        seen = finished(store)
    results = run(plan, store=store)
    assert csv_of(results, tmp_path / "killed.csv") == expected
    assert not list((store / "cells").glob(".*"))  # what the kills left behind is gone
    assert not list((store / "active").iterdir())


def test_two_runs_on_one_store_share_the_work_and_agree(task_study, tmp_path):
    plan, log = slow_study(task_study, tmp_path, cells=40)
    store = tmp_path / "shared"
    both = [start(plan, store) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    for process in both:
        process.stderr.close()
    computed = log.read_text().split()
    assert sorted(set(map(int, computed))) == list(range(40))
    expected = csv_of(run(plan, store=tmp_path / "alone"), tmp_path / "alone.csv")
    assert csv_of(StudyResults.read(store), tmp_path / "shared.csv") == expected
    assert len(computed) < 50  # not everything twice


def test_only_missing_cells_are_computed(score_study):
    store = score_study / "runs"
    first = run(score_study / "plan.toml", store=store)
    stamps = {path.name: path.stat().st_mtime_ns for path in (store / "cells").iterdir()}
    plan = (score_study / "plan.toml").read_text().replace('"msp"', '"msp", "max_logit"')
    seen = []
    again = run(Plan.parse(plan, folder=score_study), store=store, progress=seen.append)
    assert (seen[0].total, seen[0].already) == (11, 9)
    assert len(again.finished) == 11
    after = {path.name: path.stat().st_mtime_ns for path in (store / "cells").iterdir()}
    assert {name: after[name] for name in stamps} == stamps
    assert first.failures == again.failures == ()


def test_processes_give_the_same_table_as_one(score_study, tmp_path):
    one = run(score_study / "plan.toml", store=tmp_path / "one")
    two = run(score_study / "plan.toml", store=tmp_path / "two", jobs=2)
    assert csv_of(one, tmp_path / "1.csv") == csv_of(two, tmp_path / "2.csv")


def test_a_dask_cluster_gives_the_same_table_as_one(score_study, tmp_path):
    distributed = pytest.importorskip("distributed")
    one = run(score_study / "plan.toml", store=tmp_path / "one")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=":0",
        silence_logs=50, local_directory=str(tmp_path / "dask"),
    ) as cluster:  # fmt: skip
        seen = []
        two = run(
            score_study / "plan.toml", store=tmp_path / "two", scheduler=cluster.scheduler_address, progress=seen.append
        )
    assert seen[-1].done == 9
    assert csv_of(one, tmp_path / "1.csv") == csv_of(two, tmp_path / "2.csv")


def test_no_dask_scheduler_is_one_sentence(task_study, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("caveat._internal.cluster._PATIENCE", 0.3)
    with pytest.raises(InputError, match=r"there is no Dask scheduler at tcp://127\.0\.0\.1:9"):
        run(task_study(), store=tmp_path / "runs", scheduler="tcp://127.0.0.1:9")


@pytest.mark.parametrize("address", ["", "here", "tcp://here", "http://127.0.0.1:9", "tcp://127.0.0.1:9/x"])
def test_what_is_no_address_of_a_scheduler_is_refused_at_once(task_study, tmp_path, address):
    with pytest.raises(InputError, match="scheduler must be an address such as tcp://10.0.0.1:8786, got"):
        run(task_study(), store=tmp_path / "runs", scheduler=address)
    assert not (tmp_path / "runs").exists()


FAILING = """
def one(k):
    if k == 1:
        raise ValueError("k is one")
    if k == 2:
        raise SystemExit("left")
    return [{"value": k}]
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_cell_is_recorded_and_stops_nothing(task_study, tmp_path, jobs):
    plan = task_study(FAILING, GRID.format([0, 1, 2, 3]))
    seen = []
    results = run(plan, store=tmp_path / "runs", jobs=jobs, progress=seen.append)
    assert [(f.label, f.error, f.message) for f in results.failures] == [
        ("k=1", "ValueError", "k is one"), ("k=2", "SystemExit", "left"),
    ]  # fmt: skip
    assert "raise ValueError" in results.failures[0].traceback
    assert [cell["label"] for cell in results.finished] == ["k=0", "k=3"]
    assert (seen[-1].done, seen[-1].failed) == (2, 2)


def test_a_cell_that_takes_its_process_with_it_stops_nothing_either(task_study, tmp_path):
    code = "import os, signal\ndef one(k):\n if k == 3: os.kill(os.getpid(), signal.SIGKILL)\n return [{'value': k}]"
    results = run(task_study(code, GRID.format(list(range(8)))), store=tmp_path / "runs", jobs=2)
    assert [(f.label, f.error) for f in results.failures] == [("k=3", "ProcessKilled")]
    assert [row["value"] for row in results.rows()] == [0, 1, 2, 4, 5, 6, 7]


def test_a_failed_cell_is_tried_again(task_study, tmp_path):
    switch = tmp_path / "works"
    code = f"import os\ndef one(k):\n if not os.path.exists({str(switch)!r}): raise OSError('no network')\n return []"
    plan = task_study(code, GRID.format([0, 1]))
    assert len(run(plan, store=tmp_path / "runs").failures) == 2  # an OSError of the task is not a store failure
    switch.touch()
    results = run(plan, store=tmp_path / "runs")
    assert results.failures == ()
    assert not list((tmp_path / "runs" / "failures").iterdir())


def test_a_damaged_cell_is_computed_again_with_a_note(task_study, tmp_path):
    plan, store = task_study(), tmp_path / "runs"
    before = csv_of(run(plan, store=store), tmp_path / "a.csv")
    path = next((store / "cells").iterdir())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.warns(CaveatWarning, match="was damaged and is computed again"):
        results = run(plan, store=store)
    assert csv_of(results, tmp_path / "b.csv") == before


def test_a_store_that_fills_up_keeps_what_it_has_and_goes_on_later(task_study, tmp_path):
    # A file size limit simulates a full disk: the third cell is too large for it.
    code = """
    def one(k):
        return [{"value": (i * 2654435761 % 2**32) / 7} for i in range(20000 if k == 2 else 5)]
    """
    plan, store = task_study(code, GRID.format([0, 1, 2, 3])), tmp_path / "runs"
    process = start(plan, store, limit=50_000)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "StoreError" in said
    assert "cannot be written" in said
    assert "File too large" in said
    kept = StudyResults.read(store)
    assert [cell["label"] for cell in kept.finished] == ["k=0", "k=1"]
    assert kept.failures == ()  # the cell is not to blame
    assert run(plan, store=store).missing == ()


def test_trouble_with_the_store_stops_the_run(task_study, tmp_path, monkeypatch):
    def full(self, cell, rows, facts=None):
        if cell.params["a"] == 2:
            raise StoreError("no room")
        return write(self, cell, rows, facts)

    write = Store.write
    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(StoreError, match="no room"):
        run(task_study(), store=tmp_path / "runs")
    assert len(StudyResults.read(tmp_path / "runs").finished) == 2


def test_made_outputs_that_do_not_fit_on_the_disk_stop_the_run(task_study, tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("caveat._internal.folders.staging", full)
    with pytest.raises(StoreError, match=r"cannot be written \(No space left on device\)"):
        run(task_study(SOURCE_TASK, SOURCE_PLAN), store=tmp_path / "runs")
    assert not list((tmp_path / "runs" / "failures").iterdir())


def test_a_finished_study_may_be_read_only(task_study, tmp_path, monkeypatch):
    plan = task_study()
    run(plan, store=tmp_path / "runs")
    monkeypatch.setattr(Store, "at_work", None)  # nothing is to be written, not even that a run is active
    assert run(plan, store=tmp_path / "runs").missing == ()


def test_stopping_by_hand_leaves_a_store_to_go_on_with(task_study, tmp_path):
    def stop(state):
        if state.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(task_study(), store=tmp_path / "runs", progress=stop)
    assert len(StudyResults.read(tmp_path / "runs").finished) == 2
    assert run(task_study(), store=tmp_path / "runs").missing == ()


def test_a_thousand_cells_take_no_more_memory_than_a_hundred(task_study, tmp_path):
    # Each cell gives 100 rows, some 100 kB: kept, they would be 90 MB more in the end.
    code = "def one(k):\n return [{'i': i, 'value': k + i / 8, 'name': f'row {i} of {k}' * 50} for i in range(100)]"
    plan = task_study(code, GRID.format(list(range(1000))))
    page, sizes = os.sysconf("SC_PAGESIZE"), {}

    def look(state):
        if state.latest is not None:
            sizes[state.done] = int(Path("/proc/self/statm").read_text().split()[1]) * page

    results = run(plan, store=tmp_path / "runs", progress=look)
    assert len(results.finished) == 1000
    assert max(sizes.values()) - sizes[100] < 25e6


SOURCE_TASK = """
import numpy as np
from caveat import Outputs

def outputs(seed, n, broken=False):
    if broken:
        raise RuntimeError("no data")
    rng = np.random.default_rng(seed)
    def some(shift, labels=True):
        y = rng.integers(3, size=n)
        return Outputs(logits=rng.normal(size=(n, 3)) + shift * np.eye(3)[y], labels=y if labels else None)
    return {"train": some(4), "inlier": some(4), "outliers": {"noise": some(0, labels=False)}}
"""
SOURCE_PLAN = """
seeds = [1, 2]
resamples = 20
scores = ["msp", "knn"]
[sources.good]
task = "run.py:outputs"
params = {n = 80}
[sources.good.outliers]
noise = {regime = "far"}
[sources.bad]
task = "run.py:outputs"
params = {n = 80, broken = true}
"""


def test_outputs_that_a_task_makes_are_measured_for_each_seed(task_study, tmp_path):
    plan = task_study(SOURCE_TASK, SOURCE_PLAN)
    results = run(plan, store=tmp_path / "runs", jobs=2)
    table = results.table("auroc")
    columns = [table[name] for name in ("model", "seed", "outlier", "regime", "method")]
    assert list(zip(*columns, strict=True)) == [
        ("good", 1, "noise", "far", "msp"), ("good", 2, "noise", "far", "msp"),
    ]  # fmt: skip
    assert table["value"][0] != table["value"][1]
    errors = {failure.label: failure.message for failure in results.failures}
    assert errors["bad seed 1 outputs"] == "no data"
    assert errors["bad seed 1 msp"] == "the outputs of bad failed: no data"
    assert errors["good seed 1 knn"].startswith("score 'knn' needs features")  # named, and the outputs have none


def test_a_regime_of_a_set_that_the_task_does_not_make_is_an_error_that_suggests_the_right_one(task_study, tmp_path):
    text = SOURCE_PLAN.split("[sources.bad]", maxsplit=1)[0].replace('"msp", "knn"', '"msp"')
    plan, store = task_study(SOURCE_TASK, text), tmp_path / "runs"
    wrong = Plan.parse(text.replace("noise =", "nois ="), folder=plan.parent)
    said = "unknown outlier set in sources.good.outliers 'nois'. Did you mean 'noise'"
    with pytest.raises(InputError, match=said):
        run(wrong, store=store)
    seen = []
    run(plan, store=store, progress=seen.append)
    assert seen[0].already == 2  # what the task made was kept
    with pytest.raises(InputError, match=said):
        run(wrong, store=store)


def test_scores_that_were_not_named_are_skipped_where_made_outputs_do_not_allow_them(task_study, tmp_path):
    plan = task_study(
        SOURCE_TASK, SOURCE_PLAN.split("[sources.bad]", maxsplit=1)[0].replace('scores = ["msp", "knn"]\n', "")
    )
    results = run(plan, store=tmp_path / "runs")
    assert results.failures == results.missing == ()
    left = {(found.block.seed, str(found.method)): found.reason for found in results.records(Left)}
    assert left[1, "knn"].startswith("needs features")
    assert {"msp", "energy", "entropy"} <= set(results.table("auroc")["method"])


def test_made_outputs_that_were_cleared_away_are_made_again_when_needed(task_study, tmp_path):
    import shutil

    text = SOURCE_PLAN.split("[sources.bad]", maxsplit=1)[0].replace('"msp", "knn"', '"msp"')
    plan, store = task_study(SOURCE_TASK, text), tmp_path / "runs"
    run(plan, store=store)
    shutil.rmtree(store / "outputs")
    seen = []
    run(plan, store=store, progress=seen.append)
    assert seen[-1].done == 0  # nothing needs them
    run(Plan.parse(text.replace('"msp"', '"msp", "energy"'), folder=plan.parent), store=store, progress=seen.append)
    assert seen[-1].done == 4  # two scores, and outputs for two seeds
    assert StudyResults.read(store).missing == ()


def test_warnings_of_a_cell_are_kept_with_it(task_study, tmp_path):
    code = """
    import warnings
    from caveat import CaveatWarning

    def one(k):
        warnings.warn("Weak.", CaveatWarning)
        return []
    """
    results = run(task_study(code, GRID.format([0])), store=tmp_path / "runs")
    assert next(results.facts())["caveats"] == ["Weak."]


def test_progress_tells_what_is_under_way_and_how_long_it_takes(task_study, tmp_path):
    seen = []
    run(task_study(), store=tmp_path / "runs", progress=seen.append)
    assert [state.done for state in seen if state.latest] == [1, 2, 3, 4, 5, 6]
    assert seen[1].running == ("a=1, b=0",)
    assert seen[0].left is None
    assert seen[-1].left == 0


def test_wrong_arguments(task_study, tmp_path):
    with pytest.raises(InputError, match="jobs must be a whole number, at least 1, got 0"):
        run(task_study(), store=tmp_path / "runs", jobs=0)
    assert not (tmp_path / "runs").exists()


def test_a_damaged_cell_is_computed_again(score_study):
    plan = Plan.read(score_study / "plan.toml")
    before = run(plan, store=score_study / "runs")
    key = next(cell["key"] for cell in before.finished if cell["task"] == "score")
    table, path = before.store.read(key).table, before.store.path(key)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.warns(CaveatWarning, match="was damaged and is computed again"):
        after = run(plan, store=score_study / "runs")
    assert not after.missing
    assert repr(after.store.read(key).table.to_pydict()) == repr(table.to_pydict())


def test_made_outputs_that_are_damaged_are_made_again(task_study, tmp_path):
    plan = task_study(SOURCE_TASK, 'scores = ["msp"]\n[sources.good]\ntask = "run.py:outputs"\nparams = {n = 30}\n')
    first = run(plan, store=tmp_path / "runs")
    rows = [repr(row) for row in first.rows()]
    (made,) = (tmp_path / "runs" / "outputs").iterdir()
    (made / "notes.txt").write_text("mine")
    array = made / "inlier" / "logits.npy"
    array.write_bytes(array.read_bytes()[:-100])
    for cell in first.finished:
        if cell["task"] == "score":
            first.store.forget(cell["key"])
    again = run(plan, store=tmp_path / "runs")
    assert not again.failures
    assert [repr(row) for row in again.rows()] == rows
    kept = [path for path in made.parent.iterdir() if ".damaged-" in path.name]
    assert [(path / "notes.txt").read_text() for path in kept] == ["mine"]
