"""Mistakes of a matrix are found before its first training."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.experiments import Plan, run

torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow")
BASE = {
    "scores": ["msp"], "resamples": 5,
    "matrix": {"backbone": ["small_cnn"], "paradigm": ["cross_entropy"]},
    "data": {"digits": {"name": "digits", "test": 0.25, "limit": 200, "outliers": {"a": {"made": "rotated", "n": 20}}}},
    "training": {"epochs": 1},
}  # fmt: skip


def refused(folder, **change):
    """The one sentence about a plan with a change; nothing of it was trained."""
    content = copy.deepcopy(BASE)
    for path, value in change.items():
        table, key = path.split("__")
        content[table][key] = value
    with pytest.raises(InputError) as error:
        run(Plan.from_dict(content, folder=folder), store=folder / "runs")
    assert not (folder / "runs" / "models").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("matrix__backbone", ["small_cnn", "vgg31"], "unknown architecture 'vgg31'. Did you mean 'vgg13'"),
        ("matrix__backbone", [{"name": "small_cnn", "wdth": 4}], "unknown option of small_cnn 'wdth'. Did you mean"),
        ("matrix__backbone", [{"name": "small_cnn", "width": "four"}], "width of small_cnn must be a whole number"),
        ("matrix__backbone", [{"name": "small_vit", "heads": 0}], "heads of small_vit must be a whole number"),
        ("matrix__backbone", [{"name": "small_cnn", "weights": "no"}], "no does not exist"),
        ("matrix__paradigm", ["cross_entropy", "devris"], "unknown paradigm 'devris'. Did you mean 'devries'"),
        ("matrix__paradigm", [{"name": "deep_gamblers", "rewrd": 3.0}], "unknown parameter of deep_gamblers 'rewrd'"),
        ("matrix__paradigm", [{"name": "deep_gamblers", "reward": "3"}], "reward must be"),
        ("matrix__paradigm", [{"name": "confidnet", "shares": 3}], "shares must be three positive numbers"),
        ("matrix__paradigm", [{"name": "confidnet", "shares": [1, 2]}], "shares of confidnet must be 3 numbers"),
        ("matrix__paradigm", ["oe"], "oe learns from outliers"),
        ("training__outliers", ["uniform"], "cross_entropy uses no outliers"),
        ("training__schedule", "cosin", "unknown schedule 'cosin'"),
        ("training__optimizer", "adamm", "unknown optimizer 'adamm'"),
        ("training__epochs", 0, "epochs must be a whole number"),
        ("training__early_stopping", {"monitor": "los"}, "monitor"),
        ("training__device", "cdua", "device 'cdua' cannot be used"),
        ("training__device", "meta", "device 'meta' cannot be used"),
    ],
)
def test_names_and_options_are_checked_before_the_first_training(tmp_path, key, value, message):
    assert message in refused(tmp_path, **{key: value})


def test_an_unknown_kind_of_outliers_is_named(tmp_path):
    message = refused(tmp_path, matrix__paradigm=["oe"], training__outliers=["unifrm"])
    assert "unknown kind of outlier 'unifrm'. Did you mean 'uniform'" in message


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_cuda_without_cuda_is_named_and_another_machine_may_have_it(tmp_path):
    from caveat_lab.experiments.readiness import check_networks

    assert "device 'cuda' cannot be used" in refused(tmp_path, training__device="cuda")
    check_networks(Plan.from_dict(BASE | {"training": {"epochs": 1, "device": "cuda"}}), here=False)


def test_all_absent_data_are_named_at_once_when_the_plan_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVEAT_DATA", str(tmp_path / "empty"))
    data = {"own": {"path": "own.npz", "test": 0.2, "outliers": {
        "isun": {"split": "all"}, "dtd": {"split": "all"}, "more": {"path": "more.npz"}}}}  # fmt: skip
    content = BASE | {"data": data}
    Plan.from_dict(content, folder=tmp_path)  # may be written on another machine
    with pytest.raises(InputError) as error:
        run(Plan.from_dict(content, folder=tmp_path), store=tmp_path / "runs")
    lines = str(error.value).splitlines()
    assert lines[0] == "4 sets or files of the plan are not here:"
    for part in ("isun (all) is not here. Get it from", "dtd (all)", "own.npz does not exist", "more.npz does not"):
        assert any(part in line for line in lines[1:])
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"test": "test"}, "own.npz has no splits, so split 'test' cannot be chosen"),
        ({"train": "trian", "test": 0.2}, "own.npz has no splits, so split 'trian' cannot be chosen"),
    ],
)
def test_a_split_of_a_file_without_splits_is_named(tmp_path, own, message):
    np.savez(tmp_path / "own.npz", x=np.zeros((200, 8, 8), dtype=np.uint8), y=np.arange(200) % 4)
    assert message in refused(tmp_path, data__digits={"path": "own.npz"} | own)


def test_a_wrong_split_of_a_file_with_splits_is_named(tmp_path):
    images, labels = np.zeros((20, 8, 8), dtype=np.uint8), np.arange(20) % 4
    np.savez(tmp_path / "own.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    message = refused(tmp_path, data__digits={"path": "own.npz", "train": "train", "test": "tset"})
    assert "'tset'. Did you mean 'test'" in message


@pytest.mark.parametrize("name", ["train", "validation", "test", "inlier", "calibration"])
def test_an_outlier_set_with_the_name_of_a_role_is_refused(name):
    data = {"digits": BASE["data"]["digits"] | {"outliers": {name: {"made": "uniform_noise", "n": 20}}}}
    with pytest.raises(InputError, match=f"data.digits.outliers cannot have a set called '{name}'"):
        Plan.from_dict(BASE | {"data": data})


def test_outliers_that_are_the_training_images_are_refused_with_dropout_passes_too(tmp_path):
    data = {"digits": {"name": "digits", "test": 0.25, "outliers": {"copy": {"name": "digits", "limit": 40}}}}
    content = BASE | {"data": data, "matrix": {"backbone": ["small_cnn"], "dropout": 0.3, "passes": 2}}
    failures = run(Plan.from_dict(content), store=tmp_path / "runs").failures
    assert "share" in failures[0].message
    assert "outlier set 'copy'" in failures[0].message


def test_test_images_that_are_the_training_images_are_refused(tmp_path):
    images, labels = np.random.default_rng(0).random((40, 8, 8)), np.arange(40) % 4
    np.savez(tmp_path / "own.npz", x_train=images, y_train=labels, x_test=images[:20], y_test=labels[:20])
    data = {"own": {"path": "own.npz", "train": "train", "test": "test"}}
    failures = run(Plan.from_dict(BASE | {"data": data}, folder=tmp_path), store=tmp_path / "runs").failures
    assert "data.train and data.test share 20 of 20 images" in failures[0].message


def test_a_class_without_an_image_to_learn_from_is_named(tmp_path):
    np.savez(tmp_path / "own.npz", x=np.random.default_rng(0).random((41, 8, 8)), y=np.append(np.arange(40) % 4, 4))
    messages = set()
    for seed in range(8):  # the only image of class 4 is held out for some of them
        content = BASE | {"data": {"own": {"path": "own.npz", "test": 0.5}}, "matrix": {"seed": seed}}
        failures = run(Plan.from_dict(content, folder=tmp_path), store=tmp_path / f"runs{seed}").failures
        messages |= {failure.message for failure in failures if failure.error == "InputError"}
    assert any("class 4 has no image to learn from: all 1 of it" in message for message in messages)
    assert any("Raise data.limit" in message for message in messages)


def embedded(folder, **change):
    """A refusal of a matrix with files of embeddings, of which some are changed."""
    labels = np.arange(60) % 10
    arrays = {"a": np.eye(12)[labels], "text": np.eye(12)[:10]} | change
    np.savez(folder / "train.npz", embeddings=np.eye(12)[labels], labels=labels)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    train = "train.npy" if "train" in change else "train.npz"
    files = {"train": train, "a": "a.npy", "text": "text.npy"}
    return refused(folder, data__digits=BASE["data"]["digits"] | {"embeddings": files})


def test_training_embeddings_of_a_matrix_must_have_labels(tmp_path):
    message = embedded(tmp_path, train=np.eye(12)[np.arange(60) % 10])
    assert "train.npy must have labels" in message


@pytest.mark.parametrize("n", [9, 11])
def test_too_few_and_too_many_class_texts_are_named_before_the_first_training(tmp_path, n):
    assert f"one text embedding per class, got {n} for 10 classes" in embedded(tmp_path, text=np.eye(12)[:n])


def test_embeddings_of_other_encoders_are_named(tmp_path):
    assert "must have the same width" in embedded(tmp_path, a=np.eye(11)[:5])


def test_text_alone_is_named(tmp_path):
    np.save(tmp_path / "text.npy", np.eye(12)[:10])
    message = refused(tmp_path, data__digits=BASE["data"]["digits"] | {"embeddings": {"text": "text.npy"}})
    assert "Add files for train and every outlier set" in message


def test_a_file_of_embeddings_that_is_not_there_is_named(tmp_path):
    files = {"train": "train.npz", "a": "a.npy"}
    message = refused(tmp_path, data__digits=BASE["data"]["digits"] | {"embeddings": files})
    assert message.startswith("2 sets or files")
