"""What 0.1 spelled the British way works for two more minor releases, with a warning; old files load in silence."""

from __future__ import annotations

import json

import pytest

from caveat.errors import CaveatDeprecationWarning, InputError

torch = pytest.importorskip("torch")
from caveat.nn import architectures  # noqa: E402
from caveat.nn.attacks import attack_confidence  # noqa: E402
from caveat.nn.bounds.box import Box  # noqa: E402
from caveat.nn.training import Preset, fit_classifier  # noqa: E402
from caveat.nn.training.checkpoint import read_checkpoint, write_tensors  # noqa: E402
from caveat.nn.training.good import GOOD  # noqa: E402
from caveat.nn.training.model_folder import load_model, save_model  # noqa: E402

OLD = pytest.warns(CaveatDeprecationWarning, match=r"deprecated since Caveat 0\.2 .* removed in 0\.4")


def test_the_optimizer_of_a_training(blobs, small_net, same_weights):
    how = {"epochs": 1, "learning_rate": 0.01}
    new, old = small_net(), small_net()
    fit_classifier(new, blobs(), optimizer="sgd", **how)
    with OLD:
        fit_classifier(old, blobs(), optimiser="sgd", **how)
    same_weights(new, old)


def test_the_optimizer_of_a_preset():
    with OLD as caught:
        preset = Preset("", "mlp", GOOD(), epochs=1, optimiser="sgd")
    assert "Use Preset(optimizer=...)" in str(caught[0].message)
    assert preset == Preset("", "mlp", GOOD(), epochs=1, optimizer="sgd")
    with OLD:
        assert preset.optimiser == "sgd"
    with pytest.raises(InputError, match="got both"):
        Preset("", "mlp", GOOD(), epochs=1, optimiser="sgd", optimizer="sgd")


def test_the_optimizers_of_an_attack(small_net, blobs):
    x, _ = blobs(n=4)
    how = {"epsilon": 0.1, "rng": 0, "clip": None, "starts": ["point"], "steps": 2, "progress": False}
    net = small_net().eval()
    new = attack_confidence(net, x, optimizers=["apgd"], **how)
    with OLD:
        old = attack_confidence(net, x, optimisers=["apgd"], **how)
    assert (old.log_confidence == new.log_confidence).all()


def test_the_center_of_a_box():
    with OLD:
        box = Box(centre=torch.zeros(2), radius=torch.ones(2))
    with OLD:
        assert box.centre is box.center


def test_normalization():
    how = {"in_shape": (1, 8, 8), "classes": 3, "seed": 0}
    with OLD:
        net = architectures.make("small_cnn", normalise=([0.4], [0.3]), **how)
    with OLD:
        assert isinstance(net[0], architectures.Normalise)


def test_a_model_of_before_loads(blobs, tmp_path):
    architecture = {"name": "small_cnn", "in_shape": (1, 8, 8), "classes": 3, "normalize": [[0.4], [0.3]]}
    y = torch.arange(60) % 3
    x = torch.rand(60, 1, 8, 8) * 0.1 + y[:, None, None, None] / 3
    trained = fit_classifier(architectures.make(**architecture, seed=0), (x, y), epochs=8, learning_rate=0.01)
    save_model(trained, tmp_path, architecture=architecture)
    for path in (tmp_path / "model.json", tmp_path / "model.safetensors"):
        content = path.read_bytes()
        assert b"normalize" in content
        path.write_bytes(content.replace(b"normalize", b"normalise"))
    assert torch.equal(load_model(tmp_path).model(x), trained.model.eval()(x))


def test_a_checkpoint_of_before_is_resumed(tmp_path):
    about = {
        "settings": {"optimiser": "adam"}, "position": {"epoch": 3}, "groups": [{"lr": 0.1}], "numbers": {"0.step": 5.0}
    }  # fmt: skip
    tensors = {"net.weight": torch.ones(2), "optimiser.0.exp_avg": torch.zeros(2)}
    write_tensors(tmp_path / "checkpoint.safetensors", tensors,
                  {"format": "caveat-checkpoint", "about": json.dumps(about)})  # fmt: skip
    position, kinds, state = read_checkpoint(tmp_path, {"optimizer": "adam"})
    assert (position.epoch, set(kinds)) == (3, {"net", "chance", "best"})
    assert state["state"][0].keys() == {"exp_avg", "step"}
    with pytest.raises(InputError, match="optimizer was 'adam'"):
        read_checkpoint(tmp_path, {"optimizer": "sgd"})
