"""A network of arrays certifies what torch certifies, without torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.robust import Network

SMALL = {
    "0.dense.weight": [[1.0, -1.0], [0.5, 2.0]], "0.dense.bias": [0.0, -0.5], "1.relu.args": [],
    "2.dense.weight": [[1.0, 0.0], [0.0, 1.0]], "2.dense.bias": [0.0, 0.0],
}  # fmt: skip


def test_by_hand():
    # x = (0.5, 0.5) +- 0.1: first unit 0 +- 0.2 -> [0, 0.2]; second 0.75 +- 0.25 -> [0.5, 1]
    # f_0 - f_1 <= 0.2 - 0.5 and f_1 - f_0 <= 1 - 0
    net = Network.of(SMALL)
    found = net.difference_bounds([[0.5, 0.5]], 0.1)[0]
    np.testing.assert_allclose(found, [[0, -0.3], [1, 0]], atol=1e-12)
    bounds = net.confidence_bounds([[0.5, 0.5]], 0.1)
    assert np.exp(bounds.upper[0]) == pytest.approx(1 / (1 + np.exp(-1)))
    assert np.exp(bounds.lower[0]) == pytest.approx(1 / (1 + np.exp(-0.3)))
    assert np.exp(bounds.value[0]) == pytest.approx(1 / (1 + np.exp(-0.75)))


def test_no_point_of_a_dense_grid_passes_the_bounds():
    rng = np.random.default_rng(0)
    side = np.linspace(-0.2, 0.2, 41)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    for _ in range(20):
        net = Network.of({
            "0.dense.weight": rng.normal(size=(5, 2)) * 3, "0.dense.bias": rng.normal(size=5), "1.relu.args": [],
            "2.dense.weight": rng.normal(size=(3, 5)) * 3, "2.dense.bias": rng.normal(size=3),
        })  # fmt: skip
        x = rng.random(2)
        bounds = net.confidence_bounds([x], 0.2)
        values = net.confidence_bounds(np.clip(x + grid, 0, 1), 0.0).value
        assert values.max() <= bounds.upper[0]
        assert values.min() >= bounds.lower[0]


@pytest.mark.parametrize("kind", ["dense", "conv", "pools", "activations", "sequence", "parametrized"])
def test_agrees_with_torch_to_rounding(kind, tmp_path):
    torch = pytest.importorskip("torch")
    from torch import nn
    from torch.nn.utils import parametrizations as norms

    from caveat_lab.bounds import confidence_bounds, export_network

    torch.manual_seed(0)
    model = {
        "dense": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Dropout(), nn.Linear(9, 4, False)),
        "conv": lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
            nn.Conv2d(4, 6, 3, padding=2, dilation=2, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4),
        ),
        "pools": lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Identity(), nn.Linear(4, 4),
        ),
        "activations": lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(64, 9), nn.GELU(), nn.Linear(9, 9), nn.GELU(approximate="tanh"), nn.LayerNorm(9),
            nn.Linear(9, 9), nn.SiLU(), nn.Linear(9, 9), nn.Sigmoid(), nn.LeakyReLU(-0.3), nn.Tanh(), nn.Linear(9, 4),
        ),
        "sequence": lambda: nn.Sequential(
            nn.Conv1d(1, 4, 5, stride=2, padding=3), nn.BatchNorm1d(4), nn.SiLU(), nn.MaxPool1d(3, 2, 1),
            nn.Conv1d(4, 4, 3, dilation=2, groups=2), nn.AvgPool1d(2, padding=1), nn.Tanh(), nn.AdaptiveAvgPool1d(1),
            nn.Flatten(), nn.Linear(4, 4),
        ),
        "parametrized": lambda: nn.Sequential(
            norms.weight_norm(nn.Conv2d(1, 3, 3)), nn.ReLU(), nn.Flatten(), norms.spectral_norm(nn.Linear(108, 6)),
            nn.GELU(), norms.weight_norm(nn.Linear(6, 4)),
        ).double(),
    }[kind]().eval()  # fmt: skip
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    x = torch.rand(7, 1, 64) if kind == "sequence" else torch.rand(7, 1, 8, 8)
    np.savez(tmp_path / "net.npz", **export_network(model))
    net = Network.load(tmp_path / "net.npz")
    np.testing.assert_allclose(net.logits(x.numpy()), model.double()(x.double()).detach().numpy(), atol=1e-12)
    ours, theirs = net.confidence_bounds(x.numpy(), 0.05), confidence_bounds(model, x, 0.05)
    for name in ("value", "lower", "upper"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-11)
    assert net.n_classes == 4


def test_safetensors_files_are_read(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    numpy_files.save_file({k: np.asarray(v, dtype=np.float32) for k, v in SMALL.items()}, tmp_path / "net.safetensors")
    found = Network.load(tmp_path / "net.safetensors").logits([[0.5, 0.25]])
    np.testing.assert_allclose(found, Network.of(SMALL).logits([[0.5, 0.25]]))


def test_torch_is_not_needed():
    code = (
        "import sys\n"
        "from caveat_lab.robust import Network\n"
        "net = Network.of({'0.dense.weight': [[1.0], [0.0]], '0.dense.bias': [0.0, 0.0]})\n"
        "print(net.confidence_bounds([[0.5]], 0.1).n, 'torch' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1 False\n"
    )


def test_small_blocks_change_nothing(monkeypatch):
    x = np.random.default_rng(0).random((30, 2))
    whole = Network.of(SMALL).confidence_bounds(x, 0.1)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 300)
    parts = Network.of(SMALL).confidence_bounds(x, 0.1)
    np.testing.assert_allclose(parts.upper, whole.upper, rtol=1e-12)


@pytest.mark.parametrize(("arrays", "what"), [
    ({"weight": [[1.0]]}, "not the part of a layer"),
    ({"0.softmax.args": []}, "not the part of a layer"),
    ({"0.gelu.args": []}, "args of 1 numbers, got 0"),
    ({"1.relu.args": []}, "without a gap"),
    ({}, "without a gap"),
    ({"0.dense.weight": [[1.0]]}, "lacks bias"),
    ({"0.relu.args": []}, "last layer must be dense"),
    ({"0.max_pool.args": [2, 2], "1.dense.weight": [[1.0]], "1.dense.bias": [0.0]}, "args of 6"),
    ({"0.dense.weight": [[np.nan]], "0.dense.bias": [0.0]}, "has NaN"),
])  # fmt: skip
def test_wrong_arrays_are_named(arrays, what):
    with pytest.raises(InputError, match=what):
        Network.of(arrays)


@pytest.mark.parametrize(("x", "epsilon", "what"), [
    ([[0.5, 2.0]], 0.1, "must lie between 0 and 1"), ([0.5], 0.1, "batch of inputs"),
    ([[0.5, 0.5]], -1, "epsilon must be"),
])  # fmt: skip
def test_wrong_inputs_are_named(x, epsilon, what):
    with pytest.raises(InputError, match=what):
        Network.of(SMALL).confidence_bounds(x, epsilon)


def test_an_overflow_is_no_guarantee():
    huge = {**SMALL, "2.dense.weight": [[1e308, 1e308], [-1e308, -1e308]], "2.dense.bias": [1e308, -1e308]}
    with pytest.raises(InputError, match="the bound of the confidence is NaN"), np.errstate(all="ignore"):
        Network.of(huge).confidence_bounds([[0.9, 0.9]], 0.1)


@pytest.mark.parametrize(
    ("weight", "bias"), [([1.0, 2.0], [0.0]), ([[1.0, 2.0]], [0.0, 1.0]), (np.empty((2, 0)), [0.0, 0.0])]
)
def test_arrays_that_do_not_fit_each_other_are_refused(weight, bias):
    # One weight row and two biases would broadcast to two classes.
    with pytest.raises(InputError, match=r"layer 0 \(dense\) needs weight of 2 axes and bias as long as its first"):
        Network.of({"0.dense.weight": weight, "0.dense.bias": bias})


def test_inputs_that_do_not_fit_are_named():
    net = Network.of({"0.dense.weight": np.ones((2, 3)), "0.dense.bias": np.zeros(2)})
    for call in (net.logits, lambda x: net.confidence_bounds(x, 0.1)):
        with pytest.raises(InputError, match=r"cannot take inputs of shape \(4,\)"):
            call(np.ones((1, 4)))
