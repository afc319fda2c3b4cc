"""Two worker processes on this machine, and rows to send them."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Outputs


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, protocol="tcp", host="127.0.0.1", dashboard_address=None,
            silence_logs=50, local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as one,
    ):  # fmt: skip
        yield one


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
