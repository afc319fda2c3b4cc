"""Plans take networks of the user's own, and start from networks that know other classes."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.experiments import run
from caveat_lab.experiments.expansion import expand
from caveat_lab.experiments.matrix import networks
from caveat_lab.experiments.plan import Plan
from caveat_lab.experiments.train_plan import TrainPlan

CODE = """
from torch import nn
def network(in_shape, classes, dropout=0.0, width=8):
    channels, height, side = in_shape
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * side, width), nn.ReLU(), nn.Dropout(dropout),
                         nn.Linear(width, classes))
def nothing(in_shape, classes):
    return classes
def steady(in_shape, classes):
    return network(in_shape, classes)
"""
TRAIN = {
    "data": {"name": "digits", "limit": 600, "test": 0.25}, "model": {"name": "own.py:network", "width": 12},
    "training": {"epochs": 6, "learning_rate": 0.02, "batch_size": 50}, "seed": 1,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.py").write_text(CODE)
    return tmp_path


def train(folder, out="model", **changed):
    from caveat_lab.experiments.training import run_training

    return run_training(TrainPlan.from_dict(TRAIN | changed, folder=folder), folder / out, progress=False)


def test_a_network_of_ones_own_is_trained_kept_and_read_again(folder):
    pytest.importorskip("torch")
    from caveat_lab.experiments.functions import find_function
    from caveat_lab.networks.training import load_model

    trained = train(folder).trained
    x = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    again = load_model(folder / "model", build=find_function("own.py:network", str(folder / "own.py")))
    np.testing.assert_array_equal(again.outputs(x).logits, trained.outputs(x).logits)
    assert again.outputs(x).features.shape == (5, 12)
    with pytest.raises(InputError, match=r"that 'own.py:network' makes.*load_model\(folder, build=...\)"):
        load_model(folder / "model")


def test_what_the_function_cannot_do_is_named(folder):
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="unknown option of own.py:network 'depth'"):
        train(folder, model={"name": "own.py:network", "depth": 2})
    with pytest.raises(InputError, match="own.py:nothing must return a torch module, got int"):
        train(folder, "nothing", model={"name": "own.py:nothing"})
    with pytest.raises(InputError, match=r"other.py does not exist"):
        train(folder, model={"name": "other.py:network"})
    with pytest.raises(InputError, match=r"model.name must be 'file.py:function'"):
        train(folder, model={"name": "own.py:"})


def test_a_function_without_dropout_is_asked_for_none(folder):
    pytest.importorskip("torch")
    assert train(folder, model={"name": "own.py:steady", "dropout": 0.0}).trained.n_classes == 10
    with pytest.raises(InputError, match="unknown option of own.py:steady 'dropout'"):
        train(folder, "other", model={"name": "own.py:steady", "dropout": 0.3})


def test_a_study_asks_networks_of_ones_own_and_computes_again_when_the_file_changes(folder):
    pytest.importorskip("torch")
    content = {
        "scores": ["msp", "mahalanobis"], "metrics": ["auroc", "accuracy"], "resamples": 5,
        "matrix": {"backbone": [{"name": "own.py:network", "width": [6, 12]}], "dropout": [0.2], "passes": [0, 3]},
        "data": {"digits": {"name": "digits", "test": 0.25, "limit": 600, "outliers": {
            "noise": {"made": "uniform_noise", "n": 40}}}},
        "training": {"epochs": 6, "learning_rate": 0.02, "batch_size": 50},
    }  # fmt: skip
    plan = Plan.from_dict(content, folder=folder)
    results = run(plan, store=folder / "runs")
    assert not results.failures

    def trainings():
        cells, _ = expand(Plan.from_dict(content, folder=folder))
        return {cell.label: cell.key for cell in cells if cell.task == "train"}

    before = trainings()
    assert {name.split("/")[1].split(" dropout")[0] for name in before} == {"network width 6", "network width 12"}
    assert trainings() == before
    (folder / "own.py").write_text(CODE.replace("nn.ReLU()", "nn.Tanh()"))
    after = trainings()
    assert before.keys() == after.keys()
    assert all(before[name] != after[name] for name in before)


def test_a_start_that_knows_other_classes_keeps_all_layers_but_the_last(folder):
    torch = pytest.importorskip("torch")
    from caveat_lab.networks.training.model_folder import load_start

    start = train(folder).trained.model.state_dict()

    def fresh():
        torch.manual_seed(0)
        nn = torch.nn
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Dropout(0.0), nn.Linear(12, 3))

    scope: dict = {}
    exec(CODE, scope)
    net, own = fresh(), fresh().state_dict()
    load_start(net, folder / "model", new_head=True, build=scope["network"])
    state = net.state_dict()
    assert torch.equal(state["1.weight"], start["1.weight"])
    assert torch.equal(state["4.weight"], own["4.weight"])
    with pytest.raises(InputError, match="do not fit"):
        load_start(fresh(), folder / "model", build=scope["network"])


def test_a_plan_starts_from_other_classes(folder):
    pytest.importorskip("torch")
    train(folder)
    join = [{"name": "digits", "limit": 100}, {"name": "digits", "limit": 100}]  # 20 classes
    how = {"data": {"join": join, "test": 0.25}, "training": {"epochs": 1, "learning_rate": 1e-9}}
    model = {"name": "own.py:network", "width": 12, "start": "model"}
    with pytest.warns(UserWarning, match="collapsed"):
        moved = train(folder, "moved", model=model | {"new_head": True}, **how).trained
    assert moved.n_classes == 20
    assert np.abs(moved.model[1].weight.detach() - train(folder).trained.model[1].weight.detach()).max() < 1e-6
    with pytest.raises(InputError, match="do not fit"):
        train(folder, "refused", model=model, **how)
    with pytest.raises(InputError, match=r"Name the start, or leave\s+new_head out"):
        TrainPlan.from_dict(TRAIN | {"model": {"name": "small_cnn", "new_head": True}})


def test_a_paradigm_may_be_for_some_backbones_alone():
    content = {
        "matrix": {
            "backbone": ["small_cnn", {"name": "small_vit", "label": "ViT"}],
            "paradigm": [
                {"name": "devries", "training": {"epochs": 9}, "backbones": ["small_cnn"]},
                {"name": "devries", "training": {"epochs": 2}, "backbones": "ViT"},
                "confidnet",
            ],
        },
        "data": {"digits": {"name": "digits", "test": 0.2}},
    }
    found, _ = networks(content)
    epochs = {network.name: network.training["training"].get("epochs") for network in found}
    assert epochs == {
        "digits/small_cnn/devries": 9, "digits/small_cnn/confidnet": None, "digits/ViT/devries": 2,
        "digits/ViT/confidnet": None,
    }  # fmt: skip
    content["matrix"]["paradigm"][0]["backbones"] = ["small_cnm"]
    with pytest.raises(InputError, match=r"unknown label in matrix.paradigm\[0\].backbones.*'small_cnn'"):
        networks(content)


def test_given_weights_of_ones_own_network_are_compared_with_the_plan(folder):
    pytest.importorskip("torch")
    trained = train(folder).trained
    model = TRAIN["model"] | {"weights": "model"}
    again = train(folder, "taken", model=model, training={}).trained
    x = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    np.testing.assert_array_equal(again.outputs(x).logits, trained.outputs(x).logits)
    with pytest.raises(InputError, match="the file says backbone width 12, the plan says backbone width 6"):
        train(folder, "narrow", model=model | {"width": 6}, training={})
    with pytest.raises(InputError, match="the file says backbone own.py:network.*the plan says backbone small_cnn"):
        train(folder, "other", model={"name": "small_cnn", "weights": "model"}, training={})


def test_weights_of_one_network_do_not_count_as_several_seeds():
    content = {
        "matrix": {"backbone": [{"name": "small_cnn", "weights": "models/a"}], "seed": [0, 1]},
        "data": {"digits": {"name": "digits", "test": 0.2}},
    }
    with pytest.raises(
        InputError, match="'models/a' of digits/small_cnn.* are one network, and matrix.seed has 2 seeds"
    ):
        networks(content)
    for change in ({"seed": [0]}, {"backbone": [{"name": "small_cnn", "weights": "models/a-{seed}"}]}):
        assert networks(content | {"matrix": content["matrix"] | change})
