"""Contenders take turns; one that fails is reported and does not stop the others."""

import json
import sys

import contest
import numpy as np
import pytest
from arrays import write_all
from families import FAMILIES

STUB = """
import sys
sys.path.insert(0, {peers!r})
from turns import run

def broken(_, data):
    raise KeyError("no such thing")

run("numpy", {{"bh": (lambda data: None, lambda _, data: data.test > 1.5), "worse": (lambda _: None, broken)}})
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("arrays"), quick=True)


@pytest.fixture
def stub(tmp_path):
    path = tmp_path / "selection_stub.py"
    path.write_text(STUB.format(peers=str(contest.PEERS)))
    return path


def test_a_file_run_by_hand_prints_one_json_line(folders, stub):
    import subprocess

    done = subprocess.run([sys.executable, stub, folders["selection"]], capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    answer = json.loads(line)
    assert len(answer["seconds"]["bh"]) == 5
    assert "KeyError" in answer["seconds"]["worse"]
    assert answer["versions"]["numpy"] == np.__version__


def test_turns_give_times_memory_and_levels_and_a_failure_is_a_problem(folders, stub):
    with contest.Worker(sys.executable, stub, folders["selection"], 1) as worker:
        assert worker.hello["methods"] == ["bh", "worse"]
        records = contest._race_method("selection", "bh", {"stub": worker}, 1)
        assert records[0]["turns"] == contest.ROUNDS
        assert records[0]["low"] <= records[0]["seconds"] <= records[0]["high"]
        assert 0 < records[0]["size"] <= 1
        assert worker.ask("draws bh")["draws"] == 100
        (problem,) = contest._race_method("selection", "worse", {"stub": worker}, 1)
        assert "KeyError" in problem["problem"]
        assert "seconds" not in problem


def test_a_contender_that_dies_answers_with_a_problem(folders, tmp_path):
    script = tmp_path / "selection_dead.py"
    script.write_text("raise SystemExit(3)")
    with contest.Worker(sys.executable, script, folders["selection"], 1) as worker:
        assert "3" in worker.hello["problem"]
        assert "problem" in worker.ask("time bh")


def test_caveat_runs_first_the_floor_last_and_a_peer_without_environment_not_at_all():
    assert list(contest.contenders("sets", {"mapie": "python"})) == ["caveat", "mapie", "floor"]
    assert list(contest.contenders("ood_small", {})) == ["caveat", "floor"]


def test_every_family_has_caveat_and_what_is_timed_a_floor(folders):
    for family in folders:
        wanted = {"caveat", "floor"} if FAMILIES[family].timed else {"caveat"}
        assert wanted == set(contest.contenders(family, {}))


def test_arrays_are_the_same_in_every_run(folders, tmp_path):
    again = write_all(tmp_path, quick=True)
    for family, folder in folders.items():
        for path in folder.rglob("*.npy"):
            assert np.array_equal(np.load(path), np.load(again[family] / path.relative_to(folder)))
