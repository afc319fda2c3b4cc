from __future__ import annotations

import pytest

from caveat import InputError
from caveat_lab.experiments.train_plan import Source, TrainPlan

PLAN = """
seed = 3
threads = 1

[paradigm]
name = "deep_gamblers"
reward = 1.5

[data]
name = "digits"
validation = 0.2
test = 0.3
limit = 500
normalize = true

[model]
name = "small_cnn"
width = 4

[training]
epochs = 2
learning_rate = 1
schedule = {"0.5" = 0.1}
early_stopping = 4

[outputs]
sets = ["train", "test"]
mc = 5
[outputs.outliers]
mnist = "test"
noise = {made = "uniform_noise", n = 20}
own = {path = "own/${KIND}.npz", split = "all", limit = 7}
"""


def read(tmp_path, text):
    file = tmp_path / "plan.toml"
    file.write_text(text, encoding="utf-8")
    return TrainPlan.read(file)


def test_everything_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("KIND", "textures")
    plan = read(tmp_path, PLAN)
    assert plan.train == Source(name="digits", limit=500)
    assert (plan.validation, plan.test, plan.normalize, plan.seed, plan.threads) == (0.2, 0.3, True, 3, 1)
    assert (plan.model, dict(plan.model_options)) == ("small_cnn", {"width": 4})
    assert (plan.paradigm, dict(plan.paradigm_options)) == ("deep_gamblers", {"reward": 1.5})
    assert dict(plan.training) == {"epochs": 2, "learning_rate": 1.0, "schedule": {"0.5": 0.1}}
    assert plan.early_stopping == {"patience": 4}
    assert (plan.sets, plan.mc) == (("train", "test"), 5)
    assert plan.outliers["mnist"] == Source(name="mnist", split="test")
    assert plan.outliers["noise"] == Source(made="uniform_noise", limit=20)
    assert plan.outliers["own"] == Source(path=str(tmp_path / "own/textures.npz"), split="all", limit=7)


def test_a_start_is_read_and_is_no_option_of_the_network(tmp_path, monkeypatch):
    monkeypatch.setenv("KIND", "plain")
    plan = read(tmp_path, PLAN.replace("width = 4", 'width = 4\nstart = "models/${KIND}"'))
    assert plan.start == str(tmp_path / "models/plain")
    assert dict(plan.model_options) == {"width": 4}
    assert read(tmp_path, PLAN).start is None


def test_little_is_enough(tmp_path):
    plan = read(tmp_path, '[data]\nname = "digits"')
    assert (plan.paradigm, plan.sets, plan.test) == ("cross_entropy", ("train", "validation"), None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seed = 3", "sede = 3"), "unknown key 'sede'. Did you mean 'seed'"),
        (("epochs = 2", "epoch = 2"), "unknown key 'training.epoch'. Did you mean 'training.epochs'"),
        (("epochs = 2", 'epochs = "two"'), "training.epochs must be a whole number, got 'two'"),
        (('name = "digits"', 'nane = "digits"'), "unknown key 'data.nane'. Did you mean 'data.name'"),
        (
            ('name = "digits"', 'name = "digits"\npath = "x"'),
            "data must have one of name, path, made or join, got name, path",
        ),
        (("validation = 0.2", "validation = 1.2"), "data.validation must be strictly between 0 and 1, got 1.2"),
        (('"train", "test"', '"train", "tset"'), "unknown outputs.sets 'tset'. Did you mean 'test'"),
        (('"uniform_noise"', '"uniform"'), "unknown outputs.outliers.noise.made 'uniform'"),
        (("mc = 5", "mc = -1"), "outputs.mc must be a whole number, at least 0, got -1"),
        (('mnist = "test"', "mnist = 3"), "outputs.outliers.mnist must be the split of a known data set or a table"),
        (("early_stopping = 4", "early_stopping = {patients = 4}"), "Did you mean 'training.early_stopping.patience'"),
        (('name = "deep_gamblers"', ""), "paradigm.name is missing"),
        (("seed = 3", "seed = "), "is not a TOML file"),
    ],
)
def test_wrong_keys_and_values_are_named(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, PLAN.replace(*change))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing.toml does not exist"):
        TrainPlan.read(tmp_path / "nothing.toml")


@pytest.mark.parametrize("join", ["digits", {"name": "digits"}, [], [["digits"]], [3]])
def test_a_join_that_is_no_list_of_sets_is_named(join):
    with pytest.raises(InputError, match=r"data\.join"):
        TrainPlan.from_dict({"data": {"join": join}})


def test_a_join_may_be_a_list_of_names():
    plan = TrainPlan.from_dict({"data": {"join": ["digits", {"name": "mnist", "split": "test"}]}})
    assert plan.train.join == (Source(name="digits"), Source(name="mnist", split="test"))
    with pytest.raises(InputError, match=r"data\.join\[1\]\.split is missing: mnist has train, test"):
        TrainPlan.from_dict({"data": {"join": ["digits", "mnist"]}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": {"name": "digts"}}, "unknown data set in data 'digts'. Did you mean 'digits'"),
        ({"data": {"name": "iris"}}, "data must name images, but iris holds table"),
        ({"data": {"name": "mnist"}}, r"data\.train is missing: mnist has train, test"),
        ({"data": {"name": "mnist", "train": "trian"}}, r"unknown split of mnist in data\.train 'trian'"),
        ({"data": {"name": "mnist", "train": "train", "test": "tset"}}, r"unknown split of mnist in data\.test 'tset'"),
        ({"data": {"name": "mnist", "train": "test", "test": "test"}}, "are the same images"),
        ({"data": {"path": "a.npz", "train": "test", "test": "test"}}, "are the same images"),
        ({"data": {"join": ["digits"], "test": "test"}}, "must be a share"),
        ({"data": {"join": ["digits"], "train": "all"}}, r"data\.train is not used"),
        ({"data": {"join": [{"made": "rotated"}]}}, "cannot be joined"),
        ({"outputs": {"outliers": {"mnist": "tset"}}}, "unknown split of mnist"),
        (
            {"outputs": {"outliers": {"a": {"made": "rotated", "n": 20, "limit": 30}}}},
            "n and limit, which",
        ),
        ({"outputs": {"outliers": {"test": {"made": "rotated"}}}}, "cannot have a set called 'test'"),
        ({"outputs": {"outliers": {"../a": {"made": "rotated"}}}}, "cannot have a set called '../a'"),
        ({"outputs": {"outliers": {"..": {"made": "rotated"}}}}, "cannot have a set called"),
        ({"training": {"outliers": {"made": "uniform_noise"}}}, 'Write outliers = ."uniform"'),
        ({"model": {"dropout": 1.0}}, r"model\.dropout must be at least 0 and below 1, got 1\.0"),
        ({"seed": -1}, "seed must be a whole number, at least 0"),
    ],
)
def test_sets_splits_and_numbers_that_cannot_be_are_named_when_the_plan_is_read(content, message):
    with pytest.raises(InputError, match=message):
        TrainPlan.from_dict({"data": {"name": "digits"}} | content)
