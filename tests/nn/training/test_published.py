"""The schedules of appendix D at given epochs, worked out by hand from its text."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from caveat import CaveatWarning, InputError  # noqa: E402
from caveat_lab import data  # noqa: E402
from caveat_lab.networks.training import CCU, PUBLISHED_DATA, PUBLISHED_METHODS, fit_preset, published_preset  # noqa: E402
from caveat_lab.networks.training.presets import PRESETS  # noqa: E402
from caveat_lab.networks.training.schedule import as_schedule  # noqa: E402


def rate(preset, epoch):
    return preset.learning_rate * as_schedule(preset.schedule)(epoch / preset.epochs)


def ramped(preset, epoch):
    return preset.paradigm.ramped(epoch / preset.epochs)


@pytest.mark.parametrize("method", PUBLISHED_METHODS)
def test_mnist_has_sgd_on_the_sum_for_420_epochs(method):
    # 0.005 / 128 on the sum of 128 losses is 0.005 on their mean; a decay of 0.05 becomes 0.05 / 128.
    preset = published_preset(method, "mnist")
    assert (preset.architecture, preset.optimizer, preset.epochs, preset.batch_size) == ("l", "sgd", 420, 128)
    assert preset.weight_decay == pytest.approx(0.05 / 128)
    steps = {0: 5e-3, 49: 5e-3, 50: 1e-3, 100: 2e-4, 200: 4e-5, 300: 8e-6, 350: 1.6e-6, 419: 1.6e-6}
    assert {epoch: rate(preset, epoch) for epoch in steps} == pytest.approx(steps)


@pytest.mark.parametrize(("method", "kappa"), [("oe", 0.3), ("ceda", 1.0), ("ccu", 0.3), ("good", 0.3)])
def test_on_mnist_kappa_rises_from_epoch_2_to_102(method, kappa):
    preset = published_preset(method, "mnist")
    expected = {0: 0.0, 2: 0.0, 27: kappa / 4, 52: kappa / 2, 102: kappa, 419: kappa}
    assert {epoch: ramped(preset, epoch)[0] for epoch in expected} == pytest.approx(expected)


def test_on_mnist_the_radius_of_good_rises_from_epoch_10_to_130():
    expected = {10: 0.0, 40: 0.075, 70: 0.15, 130: 0.3, 400: 0.3}
    preset = published_preset("good", "mnist", quantile=0.6)
    assert {epoch: ramped(preset, epoch)[1] for epoch in expected} == pytest.approx(expected)
    assert preset.paradigm.quantile == 0.6
    assert not preset.start


@pytest.mark.parametrize(("name", "first"), [("svhn", 0.01), ("cifar10", 0.1)])
def test_baselines_on_color_images_have_adam_whose_rate_does_not_depend_on_the_scale_of_the_loss(name, first):
    for method in ("plain", "oe", "ceda", "ccu"):
        preset = published_preset(method, name)
        assert (preset.architecture, preset.optimizer, preset.epochs) == ("xl", "adam", 420)
        assert preset.weight_decay == pytest.approx(0.005 / 128)
        steps = {0: first / 128, 29: first / 128, 30: first / 640, 99: first / 640, 100: first / 3200}
        assert {epoch: rate(preset, epoch) for epoch in steps} == pytest.approx(steps)
        if method != "plain":  # kappa from epoch 60 to 360
            expected = {60: 0.0, 135: 0.25, 210: 0.5, 360: 1.0, 419: 1.0}
            assert {epoch: ramped(preset, epoch)[0] for epoch in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "epochs", "radius"), [("mnist", 420, 0.3), ("svhn", 100, 0.03), ("cifar10", 100, 0.01)]
)
def test_acet_has_two_epochs_without_outliers_and_four_without_an_attack(name, epochs, radius):
    preset = published_preset("acet", name)
    assert preset.epochs == epochs
    assert preset.paradigm.steps == 40
    expected = {0: [0, 0], 1: [0, 0], 2: [1, 0], 5: [1, 0], 6: [1, radius], 99: [1, radius]}
    assert {epoch: ramped(preset, epoch) for epoch in expected} == {e: pytest.approx(v) for e, v in expected.items()}


@pytest.mark.parametrize(("name", "radius"), [("svhn", 0.03), ("cifar10", 0.01)])
def test_good_on_color_images_trains_ceda_further_for_900_epochs(name, radius):
    preset = published_preset("good", name, quantile=0.8)
    assert (preset.epochs, preset.start, preset.paradigm.quantile) == (900, "ceda", 0.8)
    assert not preset.paradigm.interval_init
    steps = {0: 1e-4, 449: 1e-4, 450: 2e-5, 750: 4e-6, 850: 8e-7}
    assert {epoch: rate(preset, epoch) for epoch in steps} == pytest.approx(steps)
    # kappa from a virtual epoch -2 to 298: 2/300 at the beginning, half after 148. epsilon from 4 to 204.
    expected = {0: [2 / 300, 0], 4: [6 / 300, 0], 104: [106 / 300, radius / 2], 148: [0.5, 0.72 * radius],
                204: [206 / 300, radius], 298: [1, radius], 899: [1, radius]}  # fmt: skip
    assert {epoch: ramped(preset, epoch) for epoch in expected} == {e: pytest.approx(v) for e, v in expected.items()}


@pytest.mark.parametrize(("name", "sgd"), [("mnist", True), ("svhn", False), ("cifar10", False)])
def test_the_mixtures_of_ccu_have_the_published_rate(name, sgd):
    # 1e-5 / 128 on the sum: 1e-5 on the mean for SGD, 1e-5 / 128 for Adam.
    preset = published_preset("ccu", name)
    assert isinstance(preset.paradigm, CCU)
    assert preset.paradigm.trained
    assert preset.learning_rate * preset.paradigm.mixture_rate == pytest.approx(1e-5 if sgd else 1e-5 / 128)


def test_the_preset_paper_is_that_of_good_100_on_mnist():
    published = published_preset("good", "mnist")
    assert replace(PRESETS["paper"], what="", schedule={}) == replace(published, what="", schedule={})
    assert PRESETS["paper"].schedule == pytest.approx(published.schedule)


@pytest.mark.parametrize("name", PUBLISHED_DATA)
@pytest.mark.parametrize("method", PUBLISHED_METHODS)
def test_every_published_schedule_trains(method, name):
    images = data.digits()[:200]
    preset = replace(published_preset(method, name), architecture="mlp", epochs=1, batch_size=50)
    if method == "ccu":
        preset = replace(preset, paradigm=replace(preset.paradigm, components=4, epsilon=0.01))
    noise = np.random.default_rng(0).random((100, 1, 8, 8)).astype(np.float32)
    pair = (images.inputs(), images.labels)
    outliers = {} if method == "plain" else {"outliers": noise}
    if preset.start:
        with pytest.raises(InputError, match="trained by 'ceda'"):
            fit_preset(preset, pair, **outliers)
        first = replace(published_preset("ceda", name), architecture="mlp", epochs=1, batch_size=50)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaveatWarning)
            outliers["start"] = fit_preset(first, pair, outliers=noise, threads=1, progress=False).model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)  # one epoch does not learn much
        trained = fit_preset(preset, pair, threads=1, progress=False, **outliers)
    assert np.isfinite(trained.history[-1].loss)


def test_what_is_not_published_is_named():
    with pytest.raises(InputError, match="unknown method"):
        published_preset("joint", "mnist")
    with pytest.raises(InputError, match="unknown data"):
        published_preset("oe", "cifar100")
    with pytest.raises(InputError, match="quantile"):
        published_preset("good", "mnist", quantile=80)
