from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training import ConfidNet, CrossEntropy, EarlyStopping  # noqa: E402
from caveat_lab.networks.training.confidnet import true_class_probability  # noqa: E402
from caveat_lab.networks.training.paradigm import Batch  # noqa: E402


def test_true_class_probability_by_hand():
    # softmax of (log 3, 0) is (3/4, 1/4)
    logits = torch.tensor([[math.log(3), 0.0]]).repeat(2, 1)
    torch.testing.assert_close(true_class_probability(logits, torch.tensor([0, 1])), torch.tensor([0.75, 0.25]))


def test_the_regression_loss_by_hand_and_where_its_gradient_goes():
    paradigm = ConfidNet(layers=0)
    model = nn.Linear(2, 2, bias=False)
    nn.init.eye_(model.weight)
    net = paradigm.build(model, 2)
    nn.init.zeros_(net.regressor[0].weight)
    nn.init.zeros_(net.regressor[0].bias)
    x, y = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0]]), torch.tensor([0, 1])
    loss, parts = paradigm.regression_loss(net, Batch(x, y, progress=0.0))
    # s = 1/2; TCP 3/4 and 1/4: both errors are 1/4, squared 1/16
    assert float(loss.detach()) == pytest.approx(1 / 16)
    assert parts["tcp"] == pytest.approx(0.5)
    loss.backward()
    assert model.weight.grad is None  # the truth is a target, not something to move
    assert net.regressor[0].weight.grad is not None


def test_phases_train_what_they_should(blobs, small_net):
    seen = {}  # which parts wanted a gradient and which were in train mode, in the later phases
    paradigm = ConfidNet(hidden=8, layers=1, shares=(0.5, 0.25, 0.25), fine_tuning_rate=0.1)
    original = ConfidNet.regression_loss

    def regression_loss(self, net, batch):
        wish = tuple(
            any(p.requires_grad for p in part.parameters()) for part in (net.model, net.encoder, net.regressor)
        )
        modes = (net.model.training, net.encoder.training, net.regressor.training)
        seen.setdefault((wish, modes), []).append(batch.progress)
        return original(self, net, batch)

    ConfidNet.regression_loss = regression_loss
    try:
        x, y = blobs()
        trained = fit_classifier(small_net(), (x, y), paradigm, epochs=8, learning_rate=0.02)
    finally:
        ConfidNet.regression_loss = original
    confidence, fine_tuning = seen
    assert confidence == ((False, False, True), (False, False, True))
    assert fine_tuning == ((False, True, True), (False, False, True))
    assert [epoch.phase for epoch in trained.history] == ["classifier"] * 4 + ["confidence"] * 2 + ["fine-tuning"] * 2
    assert trained.history[-1].learning_rate == pytest.approx(0.002)
    # The classifier is that of plain training of as many epochs, untouched by the later phases.
    assert not torch.equal(trained.model.encoder[0].weight, trained.model.model[0].weight)
    assert all(parameter.requires_grad for parameter in trained.model.parameters())


def test_the_classifier_is_the_one_plain_training_gives(blobs, small_net, same_weights):
    # Dropout draws from one generator, so a network without it sees the same order and nothing else.
    paradigm = ConfidNet(hidden=4, layers=1, shares=(4, 1, 1))
    wrapped = fit_classifier(small_net(dropout=0.0), blobs(), paradigm, epochs=6, learning_rate=0.02)
    plain = fit_classifier(small_net(dropout=0.0), blobs(), CrossEntropy(), epochs=4, learning_rate=0.02)
    assert same_weights(wrapped.model.model, plain.model)


def test_confidence_finds_errors(blobs, small_net):
    x, y = blobs(n=900)
    x[:, 0] += np.random.default_rng(0).normal(size=900).astype(np.float32) * 3
    trained = fit_classifier(small_net(), (x, y), ConfidNet(hidden=32, layers=2), epochs=40, learning_rate=0.01)
    said = trained.outputs((x, y), batch_size=100)
    assert said.confidence.shape == (900,)
    assert said.confidence[said.correct].mean() > said.confidence[~said.correct].mean() + 0.05
    with torch.no_grad():
        again = trained.paradigm.confidence(trained.model, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(said.confidence, again, rtol=1e-4)


def test_a_loader_that_can_be_read_once_is_enough(blobs, small_net):
    x, y = blobs(n=60)
    trained = fit_classifier(small_net(), (x, y), ConfidNet(hidden=4, layers=1), epochs=20, learning_rate=0.05)
    whole = trained.outputs((x, y))
    halves = [(torch.from_numpy(x[part]), torch.from_numpy(y[part])) for part in (slice(50), slice(50, None))]
    once = trained.outputs(iter(halves))
    np.testing.assert_allclose(once.confidence, whole.confidence, rtol=1e-5)
    np.testing.assert_array_equal(once.labels, whole.labels)


@pytest.mark.parametrize("at", [3, 14, 25, 33])  # 300 rows by 32 are 10 steps: two epochs, one and one
def test_a_stopped_run_goes_on_in_its_phase(tmp_path, blobs, small_net, same_weights, at):
    how = {"epochs": 4, "batch_size": 32, "learning_rate": 0.05, "threads": 1, "validation": blobs(seed=1),
           "early_stopping": EarlyStopping(patience=4)}  # fmt: skip
    paradigm = ConfidNet(hidden=8, layers=1, shares=(2, 1, 1))
    whole = fit_classifier(small_net(), blobs(), paradigm, **how)
    steps = 0
    originals = ConfidNet.loss, ConfidNet.regression_loss

    def halting(original):
        def loss(*args, **named):
            nonlocal steps
            steps += 1
            if steps == at:
                raise KeyboardInterrupt
            return original(*args, **named)

        return loss

    ConfidNet.loss, ConfidNet.regression_loss = (halting(original) for original in originals)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_classifier(small_net(), blobs(), copy.copy(paradigm), **how, checkpoint=tmp_path, checkpoint_seconds=0)
    finally:
        ConfidNet.loss, ConfidNet.regression_loss = originals
    resumed = fit_classifier(small_net(seed=8), blobs(), paradigm, **how, checkpoint=tmp_path)
    assert resumed.resumed
    assert same_weights(whole.model, resumed.model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 0}, "hidden must be"),
        ({"shares": (1, 1, 0)}, "shares must be three positive"),
        ({"fine_tuning_rate": 0}, "fine_tuning_rate must be"),
    ],
)
def test_wrong_parameters_are_named(change, message):
    with pytest.raises(InputError, match=message):
        ConfidNet(**change)
