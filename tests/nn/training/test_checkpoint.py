from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")

from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training import Paradigm  # noqa: E402
from caveat_lab.networks.training.checkpoint import read_tensors  # noqa: E402
from caveat_lab.networks.training.paradigm import CrossEntropy  # noqa: E402

HOW = {"epochs": 4, "batch_size": 32, "learning_rate": 0.01, "threads": 1, "schedule": "cosine"}


class Halt(Exception):
    pass


class Stops(Paradigm):
    """Cross-entropy that is stopped at one step, once, and is otherwise the same run."""

    name = "stops"

    def __init__(self, at):
        self.at, self.steps = at, 0

    def __repr__(self):
        return "Stops()"

    def loss(self, net, batch):
        self.steps += 1
        if self.steps == self.at:
            raise Halt
        noise = torch.rand(batch.inputs.shape, generator=batch.generator)  # own random state, to be restored too
        return CrossEntropy().loss(net, replace(batch, inputs=batch.inputs + 0.1 * noise))


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("at", [2, 10, 11, 27, 40])  # 300 rows by 32 are 10 steps in an epoch
def test_a_stopped_run_ends_with_the_same_weights(tmp_path, blobs, small_net, same_weights, optimizer, at):
    how = {**HOW, "optimizer": optimizer, "validation": blobs(seed=1)}
    whole = fit_classifier(small_net(), blobs(), Stops(at=0), **how)
    with pytest.raises(Halt):
        fit_classifier(small_net(), blobs(), Stops(at=at), **how, checkpoint=tmp_path, checkpoint_seconds=0)
    resumed = fit_classifier(small_net(seed=9), blobs(), Stops(at=0), **how, checkpoint=tmp_path)
    assert resumed.resumed
    assert not whole.resumed
    assert same_weights(whole.model, resumed.model)
    for one, other in zip(whole.history, resumed.history, strict=True):
        assert (one.loss, one.parts, one.validation) == (other.loss, other.parts, other.validation)


def test_a_finished_run_is_not_run_again(tmp_path, blobs, small_net, same_weights):
    first = fit_classifier(small_net(), blobs(), **HOW, checkpoint=tmp_path)
    again = fit_classifier(small_net(seed=3), blobs(), **HOW,
                           checkpoint=tmp_path)  # fmt: skip
    assert same_weights(first.model, again.model)
    assert again.seconds == first.seconds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.02}, "learning_rate was 0.01, now 0.02"),
        ({"seed": 4}, "seed was 0, now 4"),
        ({"paradigm": Stops(at=0)}, r"paradigm was 'CrossEntropy\(\)', now 'Stops\(\)'"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, blobs, small_net, change, message):
    fit_classifier(small_net(), blobs(), **HOW, checkpoint=tmp_path)
    with pytest.raises(InputError, match=message):
        fit_classifier(small_net(), blobs(), **{**HOW, **change}, checkpoint=tmp_path)


def test_other_data_is_refused(tmp_path, blobs, small_net):
    fit_classifier(small_net(), blobs(), **HOW, checkpoint=tmp_path)
    with pytest.raises(InputError, match="holds a checkpoint of another run: data was"):
        fit_classifier(small_net(), blobs(seed=5), **HOW, checkpoint=tmp_path)


def test_a_damaged_checkpoint_is_named(tmp_path, blobs, small_net):
    fit_classifier(small_net(), blobs(), **HOW, checkpoint=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="is damaged or not a safetensors file"):
        fit_classifier(small_net(), blobs(), **HOW, checkpoint=tmp_path)


# One process imports torch and forks the runs, before any of them has started a thread.
SCRIPT = """
    import os, signal, sys, time
    from pathlib import Path
    import numpy as np, torch
    import torch._dynamo  # optimizers import it, and that is slow: once here, not in every child
    from torch import nn
    from caveat_lab.networks import fit_classifier
    here = Path(sys.argv[1])

    def start(name):
        if child := os.fork():
            return child
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
        rng = np.random.default_rng(0)
        x = rng.normal(size=(800, 4)).astype(np.float32)
        y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
        trained = fit_classifier(net, (x, y), epochs=5, batch_size=16, threads=1, learning_rate=0.01,
                                 checkpoint=here / name, checkpoint_seconds=0.02)
        weights = {key: value.numpy() for key, value in net.state_dict().items()}
        np.savez(here / f"{name}.npz", resumed=trained.resumed, **weights)
        os._exit(0)

    os.waitpid(start("whole"), 0)
    file, before = here / "killed" / "checkpoint.safetensors", 0
    for kill in range(2):
        child = start("killed")
        while not file.exists() or file.stat().st_mtime_ns == before:
            time.sleep(0.005)
        time.sleep(0.02 * kill)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert not (here / "killed.npz").exists(), "the run was over before it could be killed"
        before = file.stat().st_mtime_ns
    os.waitpid(start("killed"), 0)
"""


def test_a_killed_process_goes_on_to_the_same_weights(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")

    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=120)
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "killed.npz") as killed:
        assert killed["resumed"]
        for key in set(whole.files) - {"resumed"}:
            np.testing.assert_array_equal(whole[key], killed[key])


def test_only_data_is_in_the_file(tmp_path, blobs, small_net):
    fit_classifier(small_net(), blobs(), **HOW, checkpoint=tmp_path)
    tensors, about = read_tensors(tmp_path / "checkpoint.safetensors")
    assert about["format"] == "caveat-checkpoint"
    assert torch.equal(tensors["net.0.weight"], fit_classifier(small_net(), blobs(), **HOW).model[0].weight)
