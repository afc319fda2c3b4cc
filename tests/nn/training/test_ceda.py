from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat import InputError  # noqa: E402
from caveat.nn.training import CEDA  # noqa: E402
from caveat.nn.training.batch import Batch  # noqa: E402
from caveat.nn.training.ceda import mean_log_confidence  # noqa: E402


def test_by_hand():
    # p = (3/4, 1/4) and (1/2, 1/2)
    found = mean_log_confidence(torch.tensor([[math.log(3), 0.0], [0.0, 0.0]]))
    assert float(found) == pytest.approx((math.log(3 / 4) + math.log(1 / 2)) / 2)


def test_the_loss_adds_a_mean_and_a_mean_whatever_the_numbers():
    inputs, outliers = torch.tensor([[math.log(3), 0.0]] * 3), torch.tensor([[0.0, math.log(4)]] * 7)
    loss, _ = CEDA(kappa=0.5).loss(nn.Identity(), Batch(inputs, torch.zeros(3).long(), outliers))
    assert float(loss) == pytest.approx(math.log(4 / 3) + 0.5 * math.log(4 / 5))


def test_the_gradient_is_that_of_the_chosen_class():
    torch.manual_seed(0)
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(mean_log_confidence(logits), logits)
    p = logits.detach().softmax(dim=1)
    chosen = nn.functional.one_hot(p.argmax(dim=1), 4)
    torch.testing.assert_close(found, (chosen - p) / 6)


def test_wrong_parameters_are_named():
    with pytest.raises(InputError, match="value must be a finite number, at least 0, got -1"):
        CEDA(kappa=-1)
    with pytest.raises(InputError, match="the ramp of value must start"):
        CEDA(ramp=(0.6, 0.2))
