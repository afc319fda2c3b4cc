from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from caveat import InputError  # noqa: E402
from caveat_lab import data  # noqa: E402
from caveat_lab.experiments.certification import certify  # noqa: E402
from caveat_lab.networks.training import GOOD, PRESETS, CrossEntropy, fit_preset  # noqa: E402


@pytest.fixture(scope="module")
def digits():
    images = data.digits()
    order = np.random.default_rng(0).permutation(len(images))
    return images[order[:1300]], images[order[1300:]]


def test_tiny_certifies_noise_around_digits_in_seconds(digits):
    train, test = digits
    trained = fit_preset("tiny", (train.inputs(), train.labels), threads=1)
    rng = np.random.default_rng(1)
    noise = data.noise(200, rng)[:, None]
    found = certify(
        trained.model, inlier=test, outliers={"uniform": noise, "permuted": data.permuted(test.pixels, rng)[:, None]},
        epsilon=0.3, points=100, attack=("apgd",), steps=20,
    )  # fmt: skip
    assert found.accuracy > 0.95
    uniform, permuted = found.sets
    assert found.gauc(uniform) > 0.95
    assert found.gauc(permuted) > 0.9
    for one in found.sets:
        assert found.gauc(one) <= found.aauc(one) <= found.auc(one)


def test_the_recipe_of_the_paper():
    # MNIST, appendix D: SGD at 0.005/128 on the sum, decay 0.05, 420 epochs, rate / 5 at 50, 100, 200, 300 and 350;
    # kappa from epoch 2 to 102, epsilon from 10 to 130.
    paper = PRESETS["paper"]
    assert (paper.architecture, paper.optimizer, paper.epochs, paper.batch_size) == ("l", "sgd", 420, 128)
    assert (paper.learning_rate, paper.weight_decay) == pytest.approx((0.005, 0.05 / 128))
    assert {round(share * 420): factor for share, factor in paper.schedule.items()} == pytest.approx(
        {50: 0.2, 100: 0.04, 200: 0.008, 300: 0.0016, 350: 0.00032}
    )
    assert isinstance(paper.paradigm, GOOD)
    assert np.array(paper.paradigm.kappa_ramp) * 420 == pytest.approx([2, 102])
    assert np.array(paper.paradigm.epsilon_ramp) * 420 == pytest.approx([10, 130])


def test_a_recipe_takes_rows_from_the_whole_set():
    # Labels in order: the first 20 rows would all be of class 0.
    x, y = np.zeros((100, 8, 8), dtype=np.uint8), np.repeat(np.arange(2), 50)
    x[y == 1, 2:6, 2:6] = 255
    short = replace(PRESETS["tiny"], rows=20, epochs=3, batch_size=10)
    trained = fit_preset(short, (x, y))
    assert trained.n_classes == 2


def test_the_same_seed_gives_the_same_network(digits):
    train, _ = digits
    short = replace(PRESETS["tiny"], paradigm=GOOD(kappa=0.01), rows=400, epochs=4, batch_size=20)
    first, second, third = (fit_preset(short, (train.inputs(), train.labels), seed=s, threads=1) for s in (0, 0, 1))
    x = torch.from_numpy(train.inputs()[:5])
    assert torch.equal(first.model(x), second.model(x))
    assert not torch.equal(first.model(x), third.model(x))


def test_what_a_preset_cannot_do():
    x, y = np.zeros((10, 8, 8), dtype=np.uint8), np.arange(10) % 2
    with pytest.raises(InputError, match="unknown preset 'quik'. Did you mean 'quick'"):
        fit_preset("quik", (x, y))
    with pytest.raises(InputError, match="preset 'paper' makes no outliers of its own"):
        fit_preset("paper", (x, y))
    with pytest.raises(InputError, match=r"trains on images \(n, channels, height, width\), got shape \(10, 64\)"):
        fit_preset("tiny", (np.zeros((10, 64)), y))


@pytest.fixture
def plain(digits, tmp_path):
    """A network like that of the tiny preset, trained without outliers, and a file of its weights."""
    from safetensors.torch import save_file

    train, _ = digits
    recipe = replace(PRESETS["tiny"], paradigm=CrossEntropy(), epochs=6)
    net = fit_preset(recipe, (train.inputs(), train.labels), threads=1).model
    save_file(net.state_dict(), tmp_path / "plain.safetensors")
    return net, tmp_path / "plain.safetensors"


@pytest.mark.parametrize("interval_init", [False, True])
def test_a_preset_can_start_from_a_model_and_does_not_draw_it_anew(digits, plain, interval_init, same_weights):
    train, test = digits
    net, file = plain
    before = {name: value.clone() for name, value in net.state_dict().items()}
    recipe = replace(
        PRESETS["tiny"], epochs=1, learning_rate=1e-12, paradigm=GOOD(kappa=0.3, interval_init=interval_init)
    )
    for start in (net, file):
        trained = fit_preset(recipe, (train.inputs(), train.labels), start=start, threads=1)
        for name, value in trained.model.state_dict().items():
            torch.testing.assert_close(value, before[name], atol=1e-6, rtol=0)
        assert trained.outputs((test.inputs(), test.labels)).correct.mean() > 0.9
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_a_start_that_does_not_fit_is_named(digits, plain, tmp_path):
    train, _ = digits
    data = (train.inputs(), train.labels)
    with pytest.raises(InputError, match="do not fit the network"):
        fit_preset("good", data, start=plain[1])
    with pytest.raises(InputError, match="does not exist"):
        fit_preset("tiny", data, start=tmp_path / "no.safetensors")
    with pytest.raises(InputError, match="not read: convert"):
        fit_preset("tiny", data, start=tmp_path / "model.pt")


def test_recipes_that_make_a_new_network_ask_for_interval_weights():
    asked = {name: recipe.paradigm.interval_init for name, recipe in PRESETS.items()}
    assert asked == {"tiny": False, "quick": True, "standard": True, "long": True, "good": True, "paper": False}
