import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat import InputError  # noqa: E402
from caveat.nn.training.ibp_init import interval_init_  # noqa: E402


def test_the_spread_counts_every_input_of_a_convolution():
    # 64 x 16 x 5 x 5 = 25,600 weights; a standard deviation from so many is right to about 0.5 %.
    layer = nn.Conv2d(16, 64, 5)
    interval_init_(layer, generator=torch.Generator().manual_seed(0))
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 * math.pi) / (16 * 25), rel=0.02)
    assert not layer.bias.any()


def test_the_radius_keeps_its_size_through_layers():
    # Each layer turns a radius r into |W| r = 2 r on average, and ReLU keeps about half of it.
    net = nn.Sequential(*[nn.Linear(400, 400) for _ in range(5)])
    radii = {}
    for start in ("torch", "interval"):
        torch.manual_seed(0)
        if start == "interval":
            interval_init_(net)
        centre, radius = torch.rand(64, 400), torch.full((64, 400), 0.1)
        for layer in net:
            centre, radius = layer(centre), radius @ layer.weight.abs().T
            low, high = (centre - radius).relu(), (centre + radius).relu()
            centre, radius = (high + low) / 2, (high - low) / 2
        radii[start] = radius.mean().item()
    assert 0.05 < radii["interval"] < 0.2
    assert radii["torch"] > 10


def test_the_last_layer_can_be_left():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    before = net[2].weight.clone()
    interval_init_(net, last=False)
    assert torch.equal(net[2].weight, before)
    assert not net[0].bias.any()


def test_a_model_without_weights():
    with pytest.raises(InputError, match="must have a linear or convolutional layer"):
        interval_init_(nn.ReLU())
