from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs

pytest.importorskip("torch")

from caveat_lab.experiments.train_plan import Source, TrainPlan
from caveat_lab.experiments.training import fit_to, inputs_of, limited_rows, load_images, load_parts, run_training
from caveat_lab.networks import load_model


def plan(**change):
    usual = {
        "train": Source(name="digits"), "validation": 0.2, "test": 0.3, "model": "small_cnn",
        "model_options": {"width": 4, "dropout": 0.2}, "seed": 1, "threads": 1,
        "training": {"epochs": 6, "learning_rate": 0.01, "batch_size": 64},
        "outliers": {"noise": Source(made="uniform_noise", limit=30), "turned": Source(made="rotated", limit=40)},
    }  # fmt: skip
    return TrainPlan(**usual | change)


def test_a_model_and_its_outputs(tmp_path):
    done = run_training(plan(mc=3), tmp_path)
    assert set(done.outputs) == {"train", "validation", "test", "noise", "turned"}
    said = {name: Outputs.load(path) for name, path in done.outputs.items()}
    # 1797 digits: 539 for the test, 252 of the rest for validation
    assert {name: outputs.n for name, outputs in said.items()} == {
        "train": 1006, "validation": 252, "test": 539, "noise": 30, "turned": 40,
    }  # fmt: skip
    assert said["test"].correct.mean() > 0.9
    assert said["noise"].labels is None
    assert said["noise"].mc_logits.shape == (3, 30, 10)
    loaded = load_model(tmp_path)
    assert loaded.history == done.trained.history
    assert {"number", "phase", "loss"} <= set(loaded.history[0].as_dict())

    before = {name: path.stat().st_mtime_ns for name, path in done.outputs.items()}
    again = run_training(plan(mc=3), tmp_path)  # finished: nothing is done twice
    assert again.trained.resumed
    assert {name: path.stat().st_mtime_ns for name, path in again.outputs.items()} == before
    with pytest.raises(InputError, match=r"another plan \(seed\)"):
        run_training(plan(mc=3, seed=2), tmp_path)


def test_bytes_normalizing_and_outliers_to_learn_from(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=80)
    x = (rng.random((80, 12, 12, 3)) * 80 + 150 * y[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "own.npz", x=x, y=y)
    own = Source(path=str(tmp_path / "own.npz"))
    done = run_training(
        plan(train=own, normalize=True, paradigm="oe", exposure=("uniform", "permuted"), outliers={}, sets=("test",)),
        tmp_path / "out",
    )
    first = done.trained.model[0]
    assert first.mean.shape == (3, 1, 1)
    assert 0.2 < float(first.mean.mean()) < 0.8
    assert done.trained.history[0].parts.keys() == {"in", "out", "kappa"}
    assert Outputs.load(done.outputs["test"]).n == 24
    np.savez(
        tmp_path / "strange.npz", x=rng.integers(0, 256, size=(60, 20, 20)).astype(np.uint8), y=np.zeros(60, dtype=int)
    )
    strange = Source(path=str(tmp_path / "strange.npz"))
    done = run_training(
        plan(train=own, normalize=True, paradigm="ceda", exposure=strange, outliers={}, sets=()), tmp_path / "other"
    )
    assert done.trained.paradigm.name == "ceda"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start") / "plain"
    return folder, run_training(plan(outliers={}), folder).trained.model


STILL = {"epochs": 1, "learning_rate": 1e-12, "batch_size": 64}


@pytest.mark.filterwarnings("ignore:training collapsed")  # an untrained detector lets nothing pass
@pytest.mark.parametrize("paradigm", ["good", "joint", "deep_gamblers"])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_training_starts_from_a_model(tmp_path, plain, paradigm, kind):
    folder, net = plain
    start = folder if kind == "folder" else folder / "model.safetensors"
    exposed = {} if paradigm == "deep_gamblers" else {"exposure": ("uniform",)}
    change = plan(start=str(start), paradigm=paradigm, training=STILL, outliers={}, sets=("test",), **exposed)
    done = run_training(change, tmp_path / "on").trained
    classifier = done.paradigm.classifier(done.model)
    for mine, theirs in zip(classifier.parameters(), net.parameters(), strict=True):
        assert abs(mine - theirs).max() < 1e-6


@pytest.mark.filterwarnings("ignore:training collapsed")
def test_the_classifier_of_a_wrapped_model_is_a_start(tmp_path, plain):
    how = {"outliers": {}, "sets": ("test",), "training": STILL}
    run_training(plan(start=str(plain[0]), paradigm="joint", exposure=("uniform",), **how), tmp_path / "joint")
    done = run_training(plan(start=str(tmp_path / "joint"), **how), tmp_path / "again").trained
    for mine, theirs in zip(done.model.parameters(), plain[1].parameters(), strict=True):
        assert abs(mine - theirs).max() < 1e-6


def test_starts_that_make_no_sense_are_named(tmp_path, plain):
    start = str(plain[0])
    with pytest.raises(InputError, match="interval_init draws all weights anew"):
        run_training(
            plan(start=start, paradigm="good", paradigm_options={"interval_init": True}, exposure=("uniform",)),
            tmp_path / "a",
        )
    with pytest.raises(InputError, match="do not fit the network"):
        run_training(plan(start=start, model_options={"width": 5}), tmp_path / "b")
    with pytest.raises(InputError, match="does not exist"):
        run_training(plan(start=str(tmp_path / "no.safetensors")), tmp_path / "c")


def test_a_start_that_has_seen_the_held_out_images_is_warned_of(tmp_path, plain):
    how = {"start": str(plain[0]), "training": STILL, "outliers": {}, "sets": ()}
    run_training(plan(**how), tmp_path / "same")
    with pytest.warns(CaveatWarning, match="has seen images that this plan holds out"):
        run_training(plan(**how, seed=2), tmp_path / "other")


def test_a_folder_of_an_earlier_release_goes_on(tmp_path):
    # its plan.json has no key for a start
    import json

    run_training(plan(outliers={}, sets=()), tmp_path)
    before = json.loads((tmp_path / "plan.json").read_text())
    assert before.pop("start") is None
    (tmp_path / "plan.json").write_text(json.dumps(before))
    assert run_training(plan(outliers={}, sets=()), tmp_path).trained.resumed


def test_images_of_another_size_are_made_to_fit():
    rng = np.random.default_rng(0)
    colours = rng.random((2, 32, 32, 3)).astype(np.float32)
    grey = fit_to(colours, (1, 28, 28))
    np.testing.assert_allclose(grey[:, 0], (colours @ [0.299, 0.587, 0.114])[:, 2:30, 2:30], rtol=1e-5)
    small = rng.random((2, 5, 5))
    padded = fit_to(small, (3, 8, 8))
    np.testing.assert_allclose(padded[:, 1, 1:6, 1:6], small, rtol=1e-6)
    assert padded.sum() == pytest.approx(3 * small.sum(), rel=1e-5)
    with pytest.raises(InputError, match="3 channels cannot become images with 2"):
        fit_to(colours, (2, 28, 28))


def test_a_test_set_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="outputs.sets has 'test', but data.test names no split"):
        run_training(plan(test=None), tmp_path)


def test_a_limit_draws_from_every_class_of_a_sorted_file(tmp_path):
    y = np.repeat(np.arange(4), 50)
    np.savez(tmp_path / "sorted.npz", x=np.zeros((200, 2, 2), dtype=np.uint8) + y[:, None, None].astype(np.uint8), y=y)
    source = Source(path=str(tmp_path / "sorted.npz"), limit=40)
    first, again, other = (load_images(source, seed=seed) for seed in (1, 1, 2))
    assert np.bincount(first.labels).tolist() == [10, 10, 10, 10]
    np.testing.assert_array_equal(first.pixels[:, 0, 0], first.labels)
    rows = [limited_rows(load_images(Source(path=source.path)), 40, seed=seed).tolist() for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]
    assert len(again) == len(other) == 40
    np.savez(tmp_path / "bare.npz", x=np.arange(200, dtype=np.uint8).reshape(200, 1, 1))
    bare = load_images(Source(path=str(tmp_path / "bare.npz"), limit=40), seed=1)
    assert bare.pixels.max() > 150  # without classes a sample of all rows


def squares(path, n, value, size=6):
    """A file of grey squares of one brightness in two classes."""
    np.savez(path, x=np.full((n, size, size), value, dtype=np.uint8), y=np.arange(n) % 2 + 5)
    return Source(path=str(path))


def test_joined_sets_number_their_classes_one_after_the_other(tmp_path):
    first, second = squares(tmp_path / "a.npz", 10, 10), squares(tmp_path / "b.npz", 20, 20)
    images = load_images(Source(join=(first, second)))
    assert len(images) == 30
    assert np.bincount(images.labels).tolist() == [5, 5, 10, 10]
    assert (images.pixels[images.labels >= 2] == 20).all()
    few = load_images(Source(join=(first, second), limit=12))
    assert np.bincount(few.labels).tolist() == [2, 2, 4, 4]
    larger = squares(tmp_path / "c.npz", 4, 1, size=8)
    with pytest.raises(InputError, match="one shape"):
        load_images(Source(join=(first, larger)))


def test_images_are_padded_to_a_shape_and_made_smaller(tmp_path):
    source = squares(tmp_path / "a.npz", 12, 255)
    parts, classes = load_parts(plan(train=source, shape=(1, 8, 8), shrink=2))
    pixels = parts["train"].pixels
    assert pixels.shape[1:] == (4, 4)
    # one pixel of padding on each side: corners are a quarter full, edges half
    assert pixels[0].tolist() == [[0.25, 0.5, 0.5, 0.25], [0.5, 1, 1, 0.5], [0.5, 1, 1, 0.5], [0.25, 0.5, 0.5, 0.25]]
    assert classes == 7
    with pytest.raises(InputError, match="must divide the sides"):
        load_parts(plan(train=source, shrink=4))


def test_outliers_are_made_smaller_like_the_images(tmp_path):
    small = plan(train=squares(tmp_path / "a.npz", 12, 255), shape=(1, 8, 8), shrink=2, outliers={
        "bright": replace(squares(tmp_path / "b.npz", 9, 51, size=8), limit=4), "noise": Source(made="uniform_noise"),
    })  # fmt: skip
    parts, _ = load_parts(small)
    bright = inputs_of(small, "bright", parts)
    assert bright.shape == (4, 1, 4, 4)
    np.testing.assert_allclose(bright, 0.2, rtol=1e-6)
    assert inputs_of(small, "noise", parts).shape == (1000, 1, 4, 4)


def test_another_file_under_the_same_name_is_read_again(tmp_path):
    source = replace(squares(tmp_path / "a.npz", 10, 10), limit=4)
    assert (load_images(source).pixels == 10).all()
    squares(tmp_path / "a.npz", 10, 30)
    os.utime(tmp_path / "a.npz", ns=(1, 1))
    assert (load_images(source).pixels == 30).all()


def test_given_weights_are_not_trained(tmp_path):
    first = run_training(plan(), tmp_path / "first")
    second = run_training(plan(weights=str(tmp_path / "first")), tmp_path / "second")
    one, two = (Outputs.load(done.outputs["test"]) for done in (first, second))
    np.testing.assert_array_equal(one.logits, two.logits)
    assert not (tmp_path / "second" / "checkpoint").exists()


def test_augmentation_changes_what_is_learned_and_not_what_is_tested(tmp_path):
    plain = run_training(plan(outliers={}), tmp_path / "a")
    moved = run_training(plan(outliers={}, augment={"flip": False, "crop": 1}), tmp_path / "b")
    one, two = (Outputs.load(done.outputs["test"]) for done in (plain, moved))
    np.testing.assert_array_equal(one.labels, two.labels)
    assert not np.array_equal(one.logits, two.logits)
