from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from caveat import InputError
from caveat.scores import make

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn._modes import dropout_awake, seeded  # noqa: E402
from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training import ConfidNet, CrossEntropy, DeepGamblers, DeVries, Trained, dropout_mean  # noqa: E402
from caveat_lab.networks.training.dropout_mean import _prefixes_once  # noqa: E402

PARADIGMS = ["cross_entropy", ConfidNet(hidden=4, layers=1), DeVries(), DeepGamblers(reward=1.5)]


@pytest.mark.parametrize("paradigm", PARADIGMS, ids=lambda given: getattr(given, "name", given))
def test_a_mean_of_passes_that_differ(blobs, small_net, paradigm):
    data = blobs(n=120)
    trained = fit_classifier(small_net(dropout=0.3), data, paradigm, epochs=12, learning_rate=0.05)
    said = dropout_mean(trained, data, passes=40, batch_size=50, rng=np.random.default_rng(0))
    rest = trained.outputs(data)
    assert said.mc_logits.shape == (40, 120, 3)
    np.testing.assert_allclose(said.logits, said.mc_logits.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(said.head.logits(said.features), said.logits, rtol=1e-4, atol=1e-4)
    assert (said.mc_logits.std(axis=0) > 0).mean() > 0.9
    # Dropout is unbiased and here just before the head: the mean over passes tends to the eval-mode pass.
    spread = said.mc_logits.std(axis=0) / np.sqrt(40)
    assert np.mean(np.abs(said.logits - rest.logits) < 4 * spread + 1e-5) > 0.98
    assert (said.confidence is None) == (rest.confidence is None)
    np.testing.assert_array_equal(said.labels, data[1])


@pytest.mark.parametrize("paradigm", PARADIGMS, ids=lambda given: getattr(given, "name", given))
def test_as_a_plain_loop_of_passes(blobs, small_net, paradigm):
    x, y = blobs(n=50)
    trained = fit_classifier(small_net(dropout=0.3), (x, y), paradigm, epochs=15, learning_rate=0.05)
    said = dropout_mean(trained, (x, y), passes=4, rng=np.random.default_rng(3))
    net, inputs = trained.model, torch.from_numpy(x)
    seed = int(np.random.default_rng(3).integers(2**63))
    with torch.no_grad(), dropout_awake(net), seeded(seed, torch.device("cpu")):
        seen = [trained.paradigm.look(net, inputs) for _ in range(4)]
    np.testing.assert_allclose(said.features, torch.stack([one[1] for one in seen]).mean(dim=0), rtol=1e-5, atol=1e-6)
    if said.confidence is not None:
        np.testing.assert_allclose(said.confidence, torch.stack([one[2] for one in seen]).mean(dim=0), rtol=1e-5)


def test_the_prediction_is_the_mean_softmax_not_the_softmax_of_the_mean(blobs, small_net):
    x, y = blobs(n=80)
    trained = fit_classifier(small_net(dropout=0.5), (x, y), epochs=12, learning_rate=0.05)
    said = dropout_mean(trained, (x, y), passes=6, rng=0)
    expected = softmax(said.mc_logits.astype(np.float64), axis=2).mean(axis=0)
    np.testing.assert_allclose(said.probs, expected, rtol=1e-10)
    assert np.abs(softmax(said.logits, axis=1) - expected).max() > 1e-3
    np.testing.assert_array_equal(said.predictions, expected.argmax(axis=1))
    # Scores of probabilities read the mean softmax, as mc_msp and mc_entropy do from the passes.
    for name in ("msp", "entropy"):
        np.testing.assert_allclose(make(name).score(said), make(f"mc_{name}").score(said), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(make("max_logit").score(said), -said.mc_logits.mean(axis=0).max(axis=1), rtol=1e-4)
    spare = dropout_mean(trained, (x, y), passes=6, keep=False, rng=0)
    assert spare.mc_logits is None
    np.testing.assert_array_equal(spare.probs, said.probs)


def test_the_same_rng_gives_the_same_and_nothing_is_left_behind(blobs, small_net):
    data = blobs(n=60)
    trained = fit_classifier(small_net(), data, epochs=5, learning_rate=0.05)
    before = torch.get_rng_state()
    one, two, other = (dropout_mean(trained, data, passes=3, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.mc_logits, two.mc_logits)
    assert not np.array_equal(one.mc_logits, other.mc_logits)
    assert torch.equal(before, torch.get_rng_state())
    assert not any(module.training for module in trained.model.modules())
    assert "forward" not in trained.model.__dict__


def test_the_part_before_dropout_runs_once_and_says_the_same():
    class Counted(nn.Linear):
        calls = 0

        def forward(self, x):
            Counted.calls += 1
            return super().forward(x)

    torch.manual_seed(0)
    net = nn.Sequential(Counted(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)).eval()
    net[2].train()
    x = torch.randn(6, 4)
    torch.manual_seed(1)
    plain = [net(x) for _ in range(5)]
    Counted.calls = 0
    torch.manual_seed(1)
    with _prefixes_once(net):
        quick = [net(x) for _ in range(5)]
        assert Counted.calls == 1
        net(x + 1)
        assert Counted.calls == 2
    assert all(torch.equal(a, b) for a, b in zip(plain, quick, strict=True))
    net(x)
    assert Counted.calls == 3


def test_a_network_without_dropout_is_named(blobs, small_net):
    trained = fit_classifier(small_net(dropout=0.0), blobs(), epochs=3, learning_rate=0.05)
    with pytest.raises(InputError, match="dropout layer whose rate is above 0"):
        dropout_mean(trained, blobs(), passes=2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("layers", [
    lambda: (), lambda: (nn.Linear(4, 4), nn.ReLU(inplace=True)), lambda: (nn.ReLU(inplace=True),),
])  # fmt: skip
def test_layers_that_write_in_place_hear_the_same_in_every_pass(layers):
    # dropout in place halves what the pass before left: after 200 passes nothing would be left
    torch.manual_seed(0)
    first = layers()
    net = nn.Sequential(*first, nn.Dropout(0.5, inplace=True), nn.Linear(4, 2))
    x = np.full((300, 4), 0.5, dtype=np.float32)
    trained = Trained(net.eval(), CrossEntropy(), 2, (), 0.0, 0, False, False)
    said = dropout_mean(trained, x, passes=200, rng=0)
    with torch.no_grad():
        expected = net(torch.tensor(x))[0].numpy()
    # each logit is a sum of four terms of equal chance of 0 and twice itself, over 200 x 300 draws
    features = net[:-2](torch.tensor(x[:1])).detach().numpy()[0] if first else x[0]
    spread = np.sqrt(((net[-1].weight.detach().numpy() * features) ** 2).sum(axis=1) / (200 * 300))
    assert (spread > 0).all()
    assert (np.abs(said.mc_logits.mean(axis=(0, 1)) - expected) < 4 * spread).all()
    assert (x == 0.5).all()
