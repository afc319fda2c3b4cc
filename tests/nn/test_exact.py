import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds.exact import exact_logits  # noqa: E402


def test_the_logits_are_those_of_the_network_at_rest_in_float64():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 2)).train()
    x = torch.rand(7, 3)
    said = exact_logits(net, x, batch_size=3)
    assert said.dtype == np.float64
    assert net.training
    assert net[0].weight.dtype == torch.float32
    np.testing.assert_allclose(said, net.eval()(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    by_hand = x.double().numpy() @ net[0].weight.detach().double().numpy().T + net[0].bias.detach().double().numpy()
    by_hand = by_hand @ net[2].weight.detach().double().numpy().T + net[2].bias.detach().double().numpy()
    np.testing.assert_allclose(said, by_hand, rtol=1e-12)
