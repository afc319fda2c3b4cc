from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import CaveatWarning, InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat import scores  # noqa: E402
from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training.branches import Branched, DeepGamblers, DeVries, gambler_loss, hinted_loss  # noqa: E402
from caveat_lab.networks.training.paradigm import Batch  # noqa: E402


class Fixed(nn.Module):
    """Logits and features that are known: a head whose weight is the identity."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2, bias=False)
        nn.init.eye_(self.fc.weight)

    def forward(self, x):
        return self.fc(x)


def test_hints_by_hand():
    # logits (log 3, 0): p = (3/4, 1/4); confidence 1/2 by a logit of 0; label 1, hinted:
    # p'_1 = 1/2 * 1/4 + 1/2 = 5/8. Not hinted, label 0: p_0 = 3/4.
    logits = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0]])
    found = hinted_loss(logits, torch.zeros(2), torch.tensor([1, 0]), torch.tensor([True, False]))
    assert float(found) == pytest.approx(-(math.log(5 / 8) + math.log(3 / 4)) / 2)


def test_the_whole_loss_by_hand_and_the_price_follows_the_budget():
    net = DeVries(price=0.2, hinted=1.0).build(Fixed(), 2)
    nn.init.zeros_(net.branch.weight)
    nn.init.zeros_(net.branch.bias)
    x, y = torch.tensor([[math.log(3), 0.0]]), torch.tensor([1])
    loss, parts = DeVries(price=0.2, hinted=1.0).loss(net, Batch(x, y, progress=0.0))
    # as above -log 5/8, and 0.2 * -log 1/2
    assert float(loss.detach()) == pytest.approx(-math.log(5 / 8) + 0.2 * math.log(2))
    assert parts["paid"] == pytest.approx(math.log(2))
    assert float(net.price) == pytest.approx(0.2 / 0.99)  # log 2 is above the budget of 0.3: the price rises
    nn.init.constant_(net.branch.bias, 3.0)  # -log sigmoid(3) = 0.049 is below it: the price falls
    DeVries(hinted=1.0).loss(net, Batch(x, y, progress=0.0))
    assert float(net.price) == pytest.approx(0.2 / 0.99 / 1.01)


def test_logarithms_of_hints_agree_with_the_plain_formula_and_its_gradient():
    torch.manual_seed(0)
    logits = torch.randn(20, 5, dtype=torch.float64, requires_grad=True)
    sure = torch.randn(20, dtype=torch.float64, requires_grad=True)
    y, hinted = torch.randint(5, (20,)), torch.rand(20) < 0.5
    c = torch.where(hinted, sure.sigmoid(), 1.0)
    mixed = c[:, None] * logits.softmax(1) + (1 - c)[:, None] * nn.functional.one_hot(y, 5)
    plain = -mixed[torch.arange(20), y].log().mean()
    found = hinted_loss(logits, sure, y, hinted)
    assert float(found.detach()) == pytest.approx(float(plain.detach()))
    for one, other in zip(
        torch.autograd.grad(found, (logits, sure)), torch.autograd.grad(plain, (logits, sure)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[900.0, -900.0]])
    for sure in (-500.0, 500.0):
        assert torch.isfinite(hinted_loss(logits, torch.tensor([sure]), torch.tensor([1]), torch.tensor([True])))


def test_without_hints_the_task_loss_is_cross_entropy():
    torch.manual_seed(0)
    logits, y = torch.randn(8, 3), torch.randint(3, (8,))
    found = hinted_loss(logits, torch.randn(8), y, torch.zeros(8, dtype=torch.bool))
    torch.testing.assert_close(found, nn.functional.cross_entropy(logits, y))


def test_training_gives_a_confidence_that_finds_errors(blobs, small_net):
    x, y = blobs(n=900)
    x[:, 0] += np.random.default_rng(0).normal(size=900).astype(np.float32) * 3  # some rows cannot be told apart
    trained = fit_classifier(small_net(), (x, y), "devries", epochs=40, learning_rate=0.01)
    assert isinstance(trained.model, Branched)
    assert set(trained.history[0].parts) == {"task", "paid", "lambda"}
    said = trained.outputs((x, y))
    assert said.logits.shape == (900, 3)
    assert said.confidence[said.correct].mean() > said.confidence[~said.correct].mean()
    np.testing.assert_array_equal(scores.make("confidence").score(said), -said.confidence)
    with torch.no_grad():  # from the features, as from the network itself
        again = trained.paradigm.confidence(trained.model, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(said.confidence, again, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"price": 0}, "price must be"), ({"hinted": 1.5}, "hinted must be"), ({"budget": -1}, "budget")],
)
def test_wrong_parameters_are_named(change, message):
    with pytest.raises(InputError, match=message):
        DeVries(**change)


def test_gambling_by_hand():
    # Two classes and abstention with probabilities 1/2, 1/4, 1/4; reward 3. Label 0: 3/2 + 1/4; label 1: 3/4 + 1/4.
    logits = torch.tensor([[2.0, 1.0, 1.0]]).log().repeat(2, 1)
    found = gambler_loss(logits, torch.tensor([0, 1]), 3.0)
    assert float(found) == pytest.approx(-(math.log(7 / 4) + math.log(1)) / 2, abs=1e-6)


@given(reward=st.floats(1.01, 50), seed=st.integers(0, 1000))
def test_without_abstention_it_is_cross_entropy_up_to_the_log_of_the_reward(reward, seed):
    torch.manual_seed(seed)
    logits, y = torch.randn(6, 4, dtype=torch.float64), torch.randint(4, (6,))
    never = torch.full((6, 1), -torch.inf, dtype=torch.float64)
    found = gambler_loss(torch.cat([logits, never], dim=1), y, reward)
    assert float(found) == pytest.approx(float(nn.functional.cross_entropy(logits, y)) - math.log(reward), abs=1e-9)


def test_logarithms_of_gambling_agree_with_the_plain_formula_and_its_gradient():
    torch.manual_seed(1)
    logits = torch.randn(20, 6, dtype=torch.float64, requires_grad=True)
    y = torch.randint(5, (20,))
    p = logits.softmax(dim=1)
    plain = -(2.2 * p[torch.arange(20), y] + p[:, -1]).log().mean()
    found = gambler_loss(logits, y, 2.2)
    assert float(found.detach()) == pytest.approx(float(plain.detach()))
    torch.testing.assert_close(*(torch.autograd.grad(value, logits)[0] for value in (found, plain)))


def test_the_warm_up_is_cross_entropy_over_the_classes(small_net):
    paradigm = DeepGamblers(warm_up=0.5)
    net = paradigm.build(small_net(dropout=0.0), 3)
    x, y = torch.randn(7, 4), torch.randint(3, (7,))
    early, _ = paradigm.loss(net, Batch(x, y, progress=0.49))
    late, parts = paradigm.loss(net, Batch(x, y, progress=0.5))
    torch.testing.assert_close(early, nn.functional.cross_entropy(net(x), y))
    torch.testing.assert_close(late, gambler_loss(torch.cat([net(x), net.both(x)[1][:, None]], dim=1), y, 2.2))
    assert 0 < parts["abstained"] < 1


def test_what_cannot_be_told_is_abstained_from(small_net):
    # Class 0 is clear; classes 1 and 2 look the same. Betting half on each returns 2.2 / 2 at best, so with a reward
    # of 1.5 (0.75 on average of a half) keeping the stake is the better bet there.
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    x = rng.normal(size=(900, 4)).astype(np.float32) * 0.3
    x[y == 0, 0] += 3
    trained = fit_classifier(small_net(), (x, y), DeepGamblers(reward=1.5), epochs=40, learning_rate=0.02)
    said = trained.outputs((x, y))
    assert -said.confidence[y == 0].mean() < 0.1
    assert -said.confidence[y > 0].mean() > 0.5
    with torch.no_grad():
        again = trained.paradigm.confidence(trained.model, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(said.confidence, again, rtol=1e-4, atol=1e-7)


def test_a_reward_that_never_pays_is_said(small_net):
    with pytest.warns(CaveatWarning, match=r"reward 4 is not below the number of classes \(3\)"):
        DeepGamblers(reward=4).build(small_net(), 3)
    with pytest.raises(InputError, match="reward must be above 1, got 1"):
        DeepGamblers(reward=1)


def test_a_model_without_a_head_is_named():
    with pytest.raises(InputError, match=r"linear layer with 3 outputs, one per class; its linear layers: '0' \(5\)"):
        DeepGamblers().build(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), 3)
