from __future__ import annotations

import copy

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import extract  # noqa: E402


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.drop = nn.Dropout(0.5)
        self.side = nn.Linear(16, 7)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        h = self.drop(self.body(x))
        self.side(h)  # runs, but is not the answer
        return self.fc(h)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return SmallCNN()


@pytest.fixture
def batches():
    torch.manual_seed(1)
    return [(torch.randn(n, 1, 8, 8), torch.randint(0, 3, (n,))) for n in (5, 5, 2)]


def test_outputs_are_those_of_the_model_at_rest(model, batches):
    said = extract(model, batches)
    model.eval()
    with torch.no_grad():
        expected = model(torch.cat([x for x, _ in batches])).numpy()
    np.testing.assert_allclose(said.logits, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(said.head.logits(said.features), said.logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(said.labels, torch.cat([y for _, y in batches]))
    assert said.features.shape == (12, 16)


def test_the_model_is_left_bit_identical_and_in_its_modes(model, batches):
    model.train()
    model.drop.eval()  # a mixed state must survive
    before = copy.deepcopy(model.state_dict())
    extract(model, batches)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert model.training
    assert model.body.training
    assert not model.drop.training
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.is_grad_enabled()


def test_the_model_is_restored_when_a_batch_fails(model):
    model.train()
    with pytest.raises(RuntimeError):
        extract(model, [torch.zeros(2, 5, 8, 8)])  # five channels instead of one
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_a_head_can_be_named(model, batches):
    assert extract(model, batches, head="side").logits.shape == (12, 7)


def test_a_model_that_ends_in_a_softmax_gets_the_candidates_named(model, batches):
    wrapped = nn.Sequential(model, nn.Softmax(dim=1))
    with pytest.raises(InputError, match=r"Pass head=<name>; candidates: '0.side', '0.fc'"):
        extract(wrapped, batches)
    assert extract(wrapped, batches, head="0.fc").logits.shape == (12, 3)


@pytest.mark.parametrize(
    ("head", "message"),
    [("nope", "there is no such module; candidates: 'side', 'fc'"), ("drop", "it is Dropout; candidates")],
)
def test_a_wrong_head_name_is_explained(model, batches, head, message):
    with pytest.raises(InputError, match=message):
        extract(model, batches, head=head)


def test_a_head_over_a_sequence_is_refused():
    with pytest.raises(InputError, match=r"one feature vector per sample, got shape \(2, 5, 4\) for 2 samples"):
        extract(nn.Sequential(nn.Linear(4, 3)), [torch.zeros(2, 5, 4)])


def test_a_head_that_runs_twice_is_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.fc(x))

    with pytest.raises(InputError, match="must run once in a forward pass, ran 2 times"):
        extract(Twice(), [torch.zeros(2, 3)], head="fc")


def test_loaders_without_labels_and_bad_loaders(model):
    assert extract(model, [torch.randn(3, 1, 8, 8)]).labels is None
    assert extract(model, [[torch.randn(3, 1, 8, 8)]]).labels is None
    with pytest.raises(InputError, match="at least one batch"):
        extract(model, [])
    with pytest.raises(InputError, match="a batch must be a tensor or a tuple that starts with one, got dict"):
        extract(model, [{"x": 1}])
    with pytest.raises(InputError, match="every batch must have labels, or none"):
        extract(model, [(torch.randn(3, 1, 8, 8), torch.tensor([0, 1, 2])), torch.randn(3, 1, 8, 8)])


def test_a_torch_data_loader_and_the_progress_bar(model, batches, capsys):
    data = torch.utils.data.TensorDataset(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches]))
    said = extract(model, torch.utils.data.DataLoader(data, batch_size=4), progress=True)
    assert said.n == 12
    assert capsys.readouterr().out == ""
