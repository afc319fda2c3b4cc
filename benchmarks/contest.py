"""Runs the files of ``peers/`` against each other: one process per contender, which take turns on the same arrays."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np

__all__ = ["contenders", "deliver", "race"]

PEERS = Path(__file__).parent / "peers"
SOURCE = PEERS.parents[1] / "src"
OURS = ("caveat", "floor")  # run by this Python; the others by that of their environment
ROUNDS, LEAST_ROUNDS, BUDGET = 7, 2, 12.0  # turns of a method; seconds after which a slow contender has had enough
REST = 0.2  # seconds between turns with two threads: idle threads of the last contender may still spin
TIMEOUT = 600.0

Record = dict[str, Any]


class Worker:
    """A running file of ``peers/`` that answers commands with JSON."""

    def __init__(self, python: Path | str, script: Path, folder: Path, threads: int, *, pinned: bool = True) -> None:
        limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        cores = sorted(os.sched_getaffinity(0))[:threads] if pinned and hasattr(os, "sched_getaffinity") else []
        self.process = subprocess.Popen(
            [str(python), str(script), str(folder), "--turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, bufsize=0, env=os.environ | dict.fromkeys(limits, str(threads))
            | {"PYTHONPATH": str(SOURCE)},
        )  # fmt: skip
        if cores:  # joblib counts the cores it may use, so the limit holds for packages that ask for all of them
            os.sched_setaffinity(self.process.pid, cores)
        self._rest = b""
        self.hello = self._answer()

    def ask(self, command: str) -> Record:
        """The answer to one command; a contender that died or hangs answers with a problem."""
        if self.process.poll() is not None:
            return {"problem": f"ended with code {self.process.returncode}"}
        self.process.stdin.write(f"{command}\n".encode())
        return self._answer()

    def _answer(self) -> Record:
        deadline = time.monotonic() + TIMEOUT
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            block = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not block:
                self.process.kill()
                return {"problem": "no answer in time" if not ready else f"ended with code {self.process.wait()}"}
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def contenders(family: str, pythons: Mapping[str, Path]) -> dict[str, tuple[Path | str, Path]]:
    """Python and file of each contender of a family, Caveat first, the floor last."""
    kind = family.partition("_")[0]
    scripts = {path.stem.partition("_")[2]: path for path in sorted(PEERS.glob(f"{kind}_*.py"))}
    names = sorted(scripts, key=lambda name: (name == "floor", name != "caveat", name))
    return {
        name: (sys.executable if name in OURS else pythons[name], scripts[name])
        for name in names
        if name in OURS or name in pythons
    }


def race(family: str, folder: Path, pythons: Mapping[str, Path], threads: int) -> tuple[list[Record], Record]:
    """Times of all methods of a family: one record for each method and contender. Also the versions of each."""
    entered = contenders(family, pythons)
    workers = {name: Worker(python, script, folder, threads) for name, (python, script) in entered.items()}
    versions = {name: worker.hello.get("versions", worker.hello) for name, worker in workers.items()}
    try:
        methods = dict.fromkeys(name for worker in workers.values() for name in worker.hello.get("methods", ()))
        records = []
        for method in methods:
            runners = {name: worker for name, worker in workers.items() if method in worker.hello.get("methods", ())}
            records += _race_method(family, method, runners, threads)
    finally:
        for worker in workers.values():
            worker.__exit__()
    return records, versions


def _race_method(family: str, method: str, runners: Mapping[str, Worker], threads: int) -> list[Record]:
    records: dict[str, Record] = {}
    for name, worker in runners.items():
        # the check is also the warm-up; with more threads one untimed turn is enough
        answer = worker.ask(f"{'check' if threads == 1 and name != 'floor' else 'time'} {method}")
        keep = answer if threads == 1 or "problem" in answer else {}
        records[name] = {"family": family, "method": method, "package": name, "threads": threads} | (
            {} if name == "floor" and "problem" not in answer else keep
        )
    turns: dict[str, list[Record]] = {name: [] for name in runners}
    for _ in range(ROUNDS):
        for name, worker in runners.items():
            had = turns[name]
            enough = len(had) >= LEAST_ROUNDS and sum(turn["first"] + turn["second"] for turn in had) > BUDGET
            if "problem" in records[name] or enough:
                continue
            if threads > 1:
                time.sleep(REST)
            answer = worker.ask(f"time {method}")
            if "problem" in answer:
                records[name]["problem"] = answer["problem"]
            else:
                had.append(answer)
    for name, had in turns.items():
        if had and "problem" not in records[name]:
            records[name] |= _times(had)
    return list(records.values())


def _times(turns: list[Record]) -> Record:
    """Median and quartiles of each half and of their sum."""
    first, second, cpu = (np.array([turn[name] for turn in turns]) for name in ("first", "second", "cpu"))
    record = {"cpu": float(np.median(cpu)), "turns": len(turns)}
    for name, low, high, values in (
        ("seconds", "low", "high", first + second),
        ("first", "first_low", "first_high", first),
        ("second", "second_low", "second_high", second),
    ):
        record[low], record[name], record[high] = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
    return record


def deliver(folders: Mapping[str, Path], pythons: Mapping[str, Path], at_once: int = 2) -> list[Record]:
    """Delivered levels and sizes over the repeated draws, for all families and contenders; times do not matter here."""
    jobs = [
        (family, name, python, script)
        for family, folder in folders.items()
        if (folder / "draws").exists()
        for name, (python, script) in contenders(family, pythons).items()
        if name != "floor"
    ]

    # the longest job first (river tests at every point), so that no process is left with it at the end
    jobs.sort(key=lambda job: (job[0] != "drift", job[1] != "river"))

    def run(job: tuple[str, str, Path | str, Path]) -> list[Record]:
        family, name, python, script = job
        with Worker(python, script, folders[family], 1, pinned=False) as worker:
            head = {"family": family, "package": name}
            return [
                head | {"method": method} | worker.ask(f"draws {method}") for method in worker.hello.get("methods", ())
            ]

    with ThreadPoolExecutor(at_once) as pool:
        return [record for records in pool.map(run, jobs) for record in records]
