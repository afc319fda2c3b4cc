from __future__ import annotations

import warnings

import numpy as np
import pytest

from caveat import CaveatWarning, InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.errors import TrainingError  # noqa: E402
from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training import CrossEntropy, EarlyStopping  # noqa: E402


def test_a_network_learns_what_can_be_learned(blobs, small_net):
    trained = fit_classifier(small_net(), blobs(), epochs=20, learning_rate=0.02, validation=blobs(seed=1))
    assert trained.outputs(blobs(seed=2)).correct.mean() > 0.95
    assert len(trained.history) == 20
    assert trained.history[-1].loss < trained.history[0].loss / 2
    assert trained.history[-1].validation["accuracy"] > 0.95
    assert not trained.model.training


def test_one_step_of_sgd_by_hand():
    # Linear model w = 0, one row x = (1, 2), y = 0, two classes: p = (1/2, 1/2), the gradient of row 0 of w is
    # (p_0 - 1) x = -x/2 and of row 1 is x/2; a rate of 0.1 moves them by +x/20 and -x/20.
    model = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(model.weight)
    data = (np.array([[1.0, 2.0]]), [0])
    fit_classifier(model, data, n_classes=2, epochs=1, optimizer="sgd", momentum=0.0, learning_rate=0.1)
    np.testing.assert_allclose(model.weight.detach(), [[0.05, 0.1], [-0.05, -0.1]], rtol=1e-6)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(blobs, small_net, same_weights):
    def train(seed):
        return fit_classifier(small_net(), blobs(), epochs=2, learning_rate=0.05, seed=seed).model

    assert same_weights(train(0), train(0))
    assert not same_weights(train(0), train(1))


def test_nothing_global_is_changed(blobs, small_net):
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    model = small_net()
    torch.manual_seed(5)
    fit_classifier(model, blobs(), epochs=1, learning_rate=0.05, threads=2)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_parameters_the_caller_froze_stay_as_they_are(blobs, small_net):
    model = small_net()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    fit_classifier(model, blobs(), epochs=3, learning_rate=0.05)
    assert torch.equal(model[0].weight, before)
    assert not model[0].weight.requires_grad


def test_bytes_are_images(small_net):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=64)
    x = (rng.random((64, 6, 6)) * 100 + 120 * y[:, None, None]).astype(np.uint8)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    trained = fit_classifier(model, (x, y), epochs=15, batch_size=16, learning_rate=0.01)
    as_floats = trained.outputs((x[:, None] / 255.0, y))
    np.testing.assert_allclose(trained.outputs((x, y)).logits, as_floats.logits, rtol=1e-5, atol=1e-6)
    assert as_floats.correct.mean() > 0.95
    table = rng.integers(0, 9, size=(40, 4)).astype(np.uint8)  # bytes, but no images: numbers as they are
    flat = fit_classifier(nn.Linear(4, 2), (table, (table[:, 0] > 4).astype(int)), epochs=60, learning_rate=0.1)
    weight, bias = (parameter.detach().numpy() for parameter in flat.model.parameters())
    np.testing.assert_allclose(flat.outputs(table).logits, table @ weight.T + bias, rtol=1e-4)


def test_data_sets_are_taken_too(blobs, small_net, same_weights):
    x, y = blobs()
    how = {"epochs": 2, "learning_rate": 0.05}
    arrays = fit_classifier(small_net(), (x, y), **how).model
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    assert same_weights(arrays, fit_classifier(small_net(), tensors, **how).model)

    class Lazy(torch.utils.data.Dataset):
        def __len__(self):
            return len(x)

        def __getitem__(self, i):
            return x[i], y[i]

    assert same_weights(arrays, fit_classifier(small_net(), Lazy(), **how).model)

    class Known(Lazy):
        targets = y.tolist()

    assert same_weights(arrays, fit_classifier(small_net(), Known(), **how).model)


def test_milestones_and_cosine_are_followed(blobs, small_net):
    # Four epochs of one step each; cosine is (1 + cos(pi k / 4)) / 2 before step k.
    wave = [(1 + np.cos(np.pi * k / 4)) / 2 for k in range(4)]
    for schedule, expected in (("constant", [1, 1, 1, 1]), ("cosine", wave), ({0.5: 0.1}, [1, 1, 0.1, 0.1])):
        done = fit_classifier(small_net(), blobs(n=64), epochs=4, batch_size=64, schedule=schedule, learning_rate=0.1)
        np.testing.assert_allclose([epoch.learning_rate / 0.1 for epoch in done.history], expected)


def test_early_stopping_goes_back_to_the_best_epoch(blobs, small_net):
    x, y = blobs(n=60)
    y = np.random.default_rng(0).permutation(y)  # nothing to learn: validation gets worse while training gets better
    held_out = blobs(n=200, seed=3)
    rule = EarlyStopping("loss", patience=3)
    trained = fit_classifier(small_net(dropout=0.0), (x, y), epochs=200, learning_rate=0.05, validation=held_out,
                             early_stopping=rule)  # fmt: skip
    losses = [epoch.validation["loss"] for epoch in trained.history]
    best = int(np.argmin(losses))
    assert trained.stopped_early
    assert len(losses) == best + 1 + 3
    said = trained.outputs(held_out)
    found = -np.log(said.probs[np.arange(said.n), said.labels]).mean()
    assert found == pytest.approx(losses[best], rel=1e-5)


def test_a_loss_that_is_no_number_stops_the_run(blobs, small_net):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.calls = nn.Linear(4, 3), 0

        def forward(self, x):
            self.calls += self.training
            return self.fc(x) / (0.0 if self.calls == 5 else 1.0)  # 300 rows by 128 are 3 steps: epoch 2, step 2

    with pytest.raises(TrainingError, match=r"nan in epoch 2, step 2 of 3 \(phase 'training'\). Lower learning_rate"):
        fit_classifier(Broken(), blobs(), epochs=3)


def test_a_rate_far_too_high_is_named(blobs, small_net):
    with pytest.raises(TrainingError, match=r"Lower learning_rate \(now 1e\+30\), or set clip=1"):
        fit_classifier(small_net(), blobs(), epochs=5, learning_rate=1e30, optimizer="sgd")


def test_a_collapse_is_reported(blobs, small_net):
    x, y = blobs()
    with pytest.warns(CaveatWarning, match="training collapsed: accuracy"):
        fit_classifier(small_net(), (np.zeros_like(x), y), epochs=1)
    model = nn.Linear(4, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.01)
    with pytest.warns(CaveatWarning, match=r"mean confidence 0.3\d+ on the training data is close to uniform"):
        fit_classifier(model, (x, y), epochs=1, optimizer="sgd", learning_rate=1e-3)


def test_a_calibrated_network_of_low_accuracy_has_not_collapsed(blobs, small_net):
    # 80 % of the labels are random: a network that knows it is not confident, and there is no outliers' loss to lower.
    rng = np.random.default_rng(0)
    x, y = blobs(n=900)
    y = np.where(rng.random(len(y)) < 0.8, rng.integers(0, 3, len(y)), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaveatWarning)
        trained = fit_classifier(small_net(dropout=0.0), (x, y), epochs=20, learning_rate=0.01)
    assert trained.outputs((x, y)).probs.max(axis=1).mean() < 0.5


def test_a_remedy_names_outliers_only_where_there_are_some(blobs, small_net):
    x, y = blobs()
    with pytest.warns(CaveatWarning, match="check data and labels"):
        fit_classifier(small_net(), (np.zeros_like(x), y), epochs=1)
    with pytest.warns(CaveatWarning, match="weight of the outliers' loss"):
        fit_classifier(small_net(), (np.zeros_like(x), y), "oe", outliers=x, epochs=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"paradigm": "crossentropy"}, "unknown paradigm 'crossentropy'. Did you mean 'cross_entropy'"),
        ({"paradigm": 3}, "paradigm must be a name or a Paradigm, got 3"),
        ({"optimizer": "adamw"}, "unknown optimizer 'adamw'. Did you mean 'adam'"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin'. Did you mean 'cosine'"),
        ({"schedule": {1.5: 0.1}}, "a milestone of schedule must be above 0 and at most 1, got 1.5"),
        ({"learning_rate": 0}, "learning_rate must be a positive number, got 0"),
        ({"epochs": 0}, "epochs must be a whole number, at least 1, got 0"),
        ({"early_stopping": 3}, "Pass validation="),
        ({"outliers": np.zeros((3, 4))}, "paradigm 'cross_entropy' uses no outliers"),
        ({"n_classes": 2}, r"n_classes must be .*at least 3, got 2"),
        ({"n_classes": 5}, r"one logit per class, shape \(2, 5\), got \(2, 3\)"),
    ],
)
def test_wrong_arguments_are_named(blobs, small_net, change, message):
    with pytest.raises(InputError, match=message):
        fit_classifier(small_net(), blobs(), **change)


def test_wrong_data_is_named(blobs, small_net):
    x, y = blobs()
    with pytest.raises(InputError, match=r"data labels must be .* 300 rows, got shape \(299,\)"):
        fit_classifier(small_net(), (x, y[1:]))
    with pytest.raises(InputError, match="inputs alone"):
        fit_classifier(small_net(), x)
    with pytest.raises(InputError, match=r"cannot take inputs of shape \(2, 3\): mat1 and mat2"):
        fit_classifier(small_net(), (x[:, :3], y))
    x[7, 1] = np.nan
    with pytest.raises(InputError, match="data inputs has NaN, first at row 7"):
        fit_classifier(small_net(), (x, y))


def test_the_progress_bar_writes_to_standard_error_only(blobs, small_net, capsys):
    fit_classifier(small_net(), blobs(), CrossEntropy(), epochs=2, learning_rate=0.05, progress=True)
    assert capsys.readouterr().out == ""


def test_a_memory_map_is_read_without_a_word(tmp_path, blobs, small_net, same_weights, recwarn):
    x, y = blobs()
    np.save(tmp_path / "x.npy", x)
    torch.set_warn_always(True)  # torch says it only once a process
    try:
        mapped = fit_classifier(small_net(), (np.load(tmp_path / "x.npy", mmap_mode="r"), y), epochs=5)
    finally:
        torch.set_warn_always(False)
    assert not [one for one in recwarn if issubclass(one.category, UserWarning) and "writ" in str(one.message)]
    assert same_weights(mapped.model, fit_classifier(small_net(), (x, y), epochs=5).model)


class Scribbling(nn.Module):
    """Halves its input in place."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.fc = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        x *= 0.5
        return self.fc(self.body(x))


class Copying(Scribbling):
    def forward(self, x):
        return super().forward(x.clone())


@pytest.mark.parametrize("paradigm", ["cross_entropy", "confidnet", "devries", "deep_gamblers", "oe"])
def test_a_model_that_writes_into_its_input_is_trained_as_one_that_does_not(blobs, same_weights, paradigm):
    x, y = blobs()
    before = x.copy()
    how = {"outliers": 3 * np.random.default_rng(1).normal(size=x.shape)} if paradigm == "oe" else {}
    held_out = (x[:100].copy(), y[:100])
    one, two = (
        fit_classifier(kind(), (x, y), paradigm, epochs=8, learning_rate=0.05, validation=held_out, **how)
        for kind in (Scribbling, Copying)
    )
    assert same_weights(one.model, two.model)
    assert one.history[-1].validation == two.history[-1].validation
    said, expected = (done.outputs((x, y)) for done in (one, two))
    np.testing.assert_array_equal(said.logits, expected.logits)
    if said.has("confidence"):
        np.testing.assert_array_equal(said.confidence, expected.confidence)
    np.testing.assert_array_equal(x, before)
