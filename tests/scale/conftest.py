"""Two worker processes on this machine, and rows to send them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import caveat
from caveat import Outputs


class TwoWorkers:
    """Worker processes without a nanny, one thread each, at a scheduler on the loopback address."""

    def __init__(self, address, folder):
        self.address, self.folder, self.processes = address, folder, []

    def fill(self, client):
        """Start what is missing of two, and wait for it."""
        self.processes = [process for process in self.processes if process.poll() is None]
        path = os.pathsep.join([str(Path(caveat.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-nanny", "--nthreads", "1",
                   "--no-dashboard", "--local-directory", str(self.folder)]  # fmt: skip
        while len(self.processes) < 2:
            self.processes.append(
                subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            )  # fmt: skip
        client.wait_for_workers(2, timeout=60)

    def kill_one(self):
        self.processes[0].kill()  # kill -9

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait(timeout=10)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=0, protocol="tcp", host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as scheduler,
        distributed.Client(scheduler, set_as_default=False) as client,
    ):
        workers = TwoWorkers(scheduler.scheduler_address, tmp_path_factory.mktemp("dask"))
        try:
            yield client, workers
        finally:
            workers.stop()


@pytest.fixture
def workers(cluster):
    client, workers = cluster
    workers.fill(client)
    return workers


@pytest.fixture
def client(cluster, workers):
    return cluster[0]


@pytest.fixture
def folder(tmp_path, train):
    train.save(tmp_path / "train")
    return tmp_path / "train"


@pytest.fixture(scope="session")
def wide():
    rng = np.random.default_rng(7)
    labels = rng.integers(5, size=4000)
    features = (rng.normal(size=(4000, 24)) + rng.normal(size=(5, 24))[labels]).astype(np.float32)
    return Outputs(features=features, labels=labels)


def learned(score):
    """The arrays and numbers that a fitted score holds."""
    kept = {name: value for name, value in vars(score).items() if name.endswith("_")}
    return {name: np.asarray(value) for name, value in kept.items() if isinstance(value, (np.ndarray, float))}


@pytest.fixture(scope="session", name="learned")
def learned_fixture():
    return learned
