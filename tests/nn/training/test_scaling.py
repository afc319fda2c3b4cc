import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn.training.scaling import mean_scale  # noqa: E402


@pytest.mark.parametrize(
    ("optimiser", "make"),
    [
        ("sgd", lambda p, lr, wd: torch.optim.SGD(p, lr=lr, weight_decay=wd, momentum=0.9, nesterov=True)),
        ("adam", lambda p, lr, wd: torch.optim.Adam(p, lr=lr, weight_decay=wd)),
    ],
)
def test_the_mean_loss_takes_the_steps_of_the_sum(optimiser, make):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((32, 5), generator=generator, dtype=torch.float64)
    y = torch.randint(3, (32,), generator=generator)
    published = {"sgd": (0.05 / 32, 0.4), "adam": (0.01, 0.4)}[optimiser]
    ours = mean_scale(*published, batch_size=32, optimiser=optimiser)
    weights = []
    for (rate, decay), reduction in ((published, "sum"), ((ours.learning_rate, ours.weight_decay), "mean")):
        torch.manual_seed(1)
        layer = nn.Linear(5, 3, dtype=torch.float64)
        steps = make(layer.parameters(), rate, decay)
        for _ in range(10):
            steps.zero_grad()
            nn.functional.cross_entropy(layer(x), y, reduction=reduction).backward()
            steps.step()
        weights.append(layer.weight.detach())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-6, atol=1e-7)


def test_the_rates_of_the_appendix():
    # MNIST: "0.005/128", decay 0.05, batch 128 -> 0.005 and 0.05 / 128 = 3.9e-4 on the mean scale.
    rates = mean_scale(0.005 / 128, 0.05, batch_size=128)
    assert (rates.learning_rate, rates.weight_decay) == pytest.approx((0.005, 3.90625e-4))
