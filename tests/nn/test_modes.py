from __future__ import annotations

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn._modes import at_rest, dropout_awake, seeded  # noqa: E402


class Merging(nn.Module):
    """Does more than set a flag when its mode changes, as adapters do that merge their weights."""

    def __init__(self):
        super().__init__()
        self.fc, self.drop, self.norm = nn.Linear(2, 2), nn.Dropout(0.5), nn.BatchNorm1d(2)

    def train(self, mode=True):
        self.fc.weight.data.add_(1)
        return super().train(mode)


def modes(model):
    return [module.training for module in model.modules()]


@pytest.mark.parametrize("state", [(True, True, True, True), (False, False, False, False), (True, False, True, False)])
def test_every_state_comes_back_and_no_code_of_the_model_runs(state):
    model = Merging()
    for module, mode in zip(model.modules(), state, strict=True):
        module.training = mode
    before = model.fc.weight.clone()
    with at_rest(model):
        assert modes(model) == [False] * 4
    assert modes(model) == list(state)
    with dropout_awake(model):
        assert modes(model) == [False, False, True, False]
    assert modes(model) == list(state)
    assert torch.equal(model.fc.weight, before)


def test_the_state_comes_back_after_an_error():
    model = Merging()
    fast = torch.backends.mha.get_fastpath_enabled()
    for context in (at_rest, dropout_awake):
        with pytest.raises(RuntimeError), context(model):
            raise RuntimeError
        assert modes(model) == [True] * 4
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_a_model_without_dropout_is_refused():
    with pytest.raises(InputError, match="needs a model with a dropout layer"), dropout_awake(nn.Linear(2, 2)):
        pass


def test_numbers_are_seeded_inside_and_untouched_outside():
    before = torch.random.get_rng_state()
    drawn = []
    for _ in range(2):
        with seeded(5, torch.device("cpu")):
            drawn.append(torch.rand(3))
    assert torch.equal(*drawn)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
def test_a_recurrent_layer_alone_has_nothing_to_drop_between():
    """Passes of such a model would all be the same, and say that it is sure."""
    with (
        pytest.raises(InputError, match="mc needs a model with a dropout layer"),
        dropout_awake(nn.LSTM(2, 2, dropout=0.5)),
    ):
        pass
    stacked = nn.LSTM(2, 2, num_layers=2, dropout=0.5).eval()
    with dropout_awake(stacked):
        assert stacked.training
