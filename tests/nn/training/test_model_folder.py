from __future__ import annotations

import json

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")

from caveat_lab.networks import architectures, fit_classifier, load_model  # noqa: E402
from caveat_lab.networks.training import ConfidNet, CrossEntropy, DeepGamblers, DeVries, save_model  # noqa: E402
from caveat_lab.networks.training.checkpoint import read_tensors, write_tensors  # noqa: E402

ARCHITECTURE = {"name": "small_cnn", "in_shape": [1, 8, 8], "classes": 3, "dropout": 0.2, "width": 4,
                "normalize": [[0.4], [0.3]]}  # fmt: skip


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=120)
    return (rng.random((120, 1, 8, 8)) * 0.3 + 0.3 * y[:, None, None, None]).astype(np.float32), y


@pytest.mark.parametrize(
    "paradigm",
    [CrossEntropy(), ConfidNet(hidden=4, layers=1, shares=(3, 1, 1)), DeVries(budget=None), DeepGamblers(reward=1.5)],
    ids=lambda paradigm: paradigm.name,
)
def test_what_is_saved_is_loaded(tmp_path, images, paradigm):
    trained = fit_classifier(
        architectures.make(**ARCHITECTURE, seed=0), images, paradigm, epochs=15, learning_rate=0.01
    )
    save_model(trained, tmp_path, architecture={**ARCHITECTURE, "seed": 0}, about={"classes": ["a", "b", "c"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
    loaded = load_model(tmp_path)
    assert loaded.paradigm == paradigm
    assert loaded.history == trained.history
    one, two = trained.outputs(images), loaded.outputs(images)
    np.testing.assert_array_equal(one.logits, two.logits)
    if one.confidence is not None:
        np.testing.assert_array_equal(one.confidence, two.confidence)


def test_damage_is_named(tmp_path, images):
    with pytest.raises(InputError, match=r"model.json does not exist"):
        load_model(tmp_path)
    trained = fit_classifier(architectures.make(**ARCHITECTURE, seed=0), images, epochs=15, learning_rate=0.01)
    save_model(trained, tmp_path, architecture=ARCHITECTURE)
    weights, metadata = read_tensors(tmp_path / "model.safetensors")
    about = json.loads(metadata["about"])
    assert json.loads((tmp_path / "model.json").read_text(encoding="utf-8")) == about

    def write(**change):
        write_tensors(
            tmp_path / "model.safetensors",
            weights,
            metadata | {"about": json.dumps(json.loads(json.dumps(about)) | change)},
        )

    write(format="other")
    with pytest.raises(InputError, match="does not describe a model of Caveat"):
        load_model(tmp_path)
    write(version=99)
    with pytest.raises(InputError, match="Upgrade Caveat"):
        load_model(tmp_path)
    write(history=[{"number": 1}])
    with pytest.raises(InputError, match="is damaged"):
        load_model(tmp_path)
    write(architecture={**ARCHITECTURE, "width": 8})
    with pytest.raises(InputError, match="does not fit"):
        load_model(tmp_path)
    write(architecture={**ARCHITECTURE, "name": "smallcnn"})
    with pytest.raises(InputError, match="unknown architecture 'smallcnn'. Did you mean 'small_cnn'"):
        load_model(tmp_path)


def test_normalizing_is_the_first_layer(images):
    x, _ = images
    plain = architectures.make("small_cnn", (1, 8, 8), 3, seed=1).eval()
    normal = architectures.make("small_cnn", (1, 8, 8), 3, seed=1, normalize=([0.4], [0.3])).eval()
    with torch.no_grad():
        torch.testing.assert_close(normal(torch.from_numpy(x)), plain((torch.from_numpy(x) - 0.4) / 0.3))
    with pytest.raises(InputError, match=r"one mean per channel \(1\), got 2"):
        architectures.make("small_cnn", (1, 8, 8), 3, normalize=([0, 0], [1, 1]))
    with pytest.raises(InputError, match="std must be a positive number, got 0"):
        architectures.make("small_cnn", (1, 8, 8), 3, normalize=([0.0], [0.0]))


@pytest.fixture
def trained(images):
    return fit_classifier(architectures.make(**ARCHITECTURE, seed=0), images, epochs=15, learning_rate=0.01)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_file_of_somebody_else_is_left_alone(tmp_path, trained, name):
    if name == "model.json":
        (tmp_path / name).write_text("{}")
    else:
        write_tensors(tmp_path / name, {"w": torch.zeros(2)}, {"format": "pt"})
    before = (tmp_path / name).read_bytes()
    with pytest.raises(InputError, match="left alone"):
        save_model(trained, tmp_path, architecture=ARCHITECTURE)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: before}


def test_a_model_is_read_from_one_file_so_that_two_trainings_never_mix(tmp_path, trained, images):
    save_model(trained, tmp_path, architecture=ARCHITECTURE)
    other = fit_classifier(
        architectures.make(**ARCHITECTURE | {"width": 8}, seed=0), images, epochs=15, learning_rate=0.01
    )
    page = (tmp_path / "model.json").read_bytes()
    save_model(other, tmp_path, architecture=ARCHITECTURE | {"width": 8})
    (tmp_path / "model.json").write_bytes(page)  # as if killed before the copy for people was written
    assert load_model(tmp_path).history == other.history
    (tmp_path / "model.safetensors").write_bytes(b"half")
    save_model(trained, tmp_path, architecture=ARCHITECTURE)  # a damaged file of ours is replaced
    assert load_model(tmp_path).history == trained.history


def test_a_model_of_an_older_version_is_read_by_its_page(tmp_path, trained):
    save_model(trained, tmp_path, architecture=ARCHITECTURE)
    weights, metadata = read_tensors(tmp_path / "model.safetensors")
    del metadata["about"]
    write_tensors(tmp_path / "model.safetensors", weights, metadata)
    assert load_model(tmp_path).history == trained.history
