import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat import InputError  # noqa: E402
from caveat_lab.bounds import confidence_loss, difference_bounds, largest_difference  # noqa: E402
from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training import ACET, Joint  # noqa: E402
from caveat_lab.networks.training.good import GOOD, certified_count, interval_init_, quantile_loss  # noqa: E402
from caveat_lab.networks.training.paradigm import Batch  # noqa: E402


def line():
    """f(x) = (2x, 0): with x = 0.5 and epsilon 0.25 the difference is at most 1.5."""
    net = nn.Linear(1, 2, bias=False)
    net.weight.data.copy_(torch.tensor([[2.0], [0.0]]))
    return net


def one(paradigm, progress, net=None, outliers=None):
    x, y = torch.tensor([[0.0]]), torch.tensor([0])  # logits (0, 0): cross-entropy log 2
    outliers = torch.tensor([[0.5]]) if outliers is None else outliers
    return paradigm.loss(net or line(), Batch(x, y, outliers, progress=progress))


def test_the_objective_by_hand():
    # log 2 + 0.3 log(1 + 1.5^2 / 2) at the end of the ramps.
    loss, parts = one(GOOD(epsilon=0.25), 1.0)
    assert loss.item() == pytest.approx(math.log(2) + 0.3 * math.log(1 + 1.5**2 / 2))
    assert parts == pytest.approx({"in": math.log(2), "out": math.log(1 + 1.5**2 / 2), "kappa": 0.3, "epsilon": 0.25})


def test_the_ramps_by_hand():
    # At 0.25 kappa is half way from 0.1 to 0.4 and epsilon 0.3 of the way from 0.1 to 0.6: 0.15 and 0.09.
    loss, parts = one(GOOD(epsilon=0.3), 0.25)
    assert (parts["kappa"], parts["epsilon"]) == pytest.approx((0.15, 0.09))
    assert loss.item() == pytest.approx(math.log(2) + 0.15 * math.log(1 + (2 * 0.59) ** 2 / 2))


def test_first_the_inliers_alone():
    loss, parts = one(GOOD(), 0.05)
    assert loss.item() == pytest.approx(math.log(2))
    assert parts["out"] == 0


def test_good_0_looks_at_the_outliers_only():
    # No ball: the difference at 0.5 is 1, whatever epsilon is.
    loss, _ = one(GOOD(quantile=0), 1.0)
    assert loss.item() == pytest.approx(math.log(2) + 0.3 * math.log(1 + 1 / 2))


def test_the_ball_is_cut_off_at_the_range_of_inputs():
    # x = 0.9 with epsilon 0.3 reaches 1, not 1.2: the difference is at most 2.
    loss, _ = one(GOOD(), 1.0, outliers=torch.tensor([[0.9]]))
    assert loss.item() == pytest.approx(math.log(2) + 0.3 * math.log(1 + 2**2 / 2))


def test_good_80_joins_ball_and_point():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y, out = torch.rand(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]), torch.rand(10, 4)
    loss, _ = GOOD(quantile=0.8).loss(net, Batch(x, y, out))
    largest = largest_difference(difference_bounds(net, out, 0.3))
    expected = nn.functional.cross_entropy(net(x), y) + 0.3 * quantile_loss(largest, net(out), 0.8)
    torch.testing.assert_close(loss, expected)


def test_the_gradient_is_that_of_autograd_on_the_formula():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    x, y, out = (torch.rand(4, 3).double(), torch.tensor([0, 1, 1, 0]), torch.rand(4, 3).double())
    loss, _ = GOOD(kappa=1.0).loss(net, Batch(x, y, out))
    loss.backward()
    # By finite differences in one weight of the first layer.
    step, weight = 1e-6, net[0].weight
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            weight[1, 2] += sign * step
            value = nn.functional.cross_entropy(net(x), y) + confidence_loss(difference_bounds(net, out, 0.3)).mean()
            values.append(value.item())
            weight[1, 2] -= sign * step
    assert weight.grad[1, 2].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-8)


def test_layers_are_drawn_anew_only_where_that_is_asked_for():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    assert not GOOD(interval_init=True).build(net, 3)[2].bias.any()
    net = nn.Sequential(nn.Linear(4, 3))
    before = net[0].bias.clone()
    assert torch.equal(GOOD().build(net, 3)[0].bias, before)


def test_a_pretrained_network_keeps_its_weights(blobs, small_net, same_weights):
    import copy

    x, y = blobs()
    x = (x - x.min()) / (x.max() - x.min())
    pretrained = fit_classifier(small_net(), (x, y), epochs=30, learning_rate=0.05).model
    started = copy.deepcopy(pretrained)
    trained = fit_classifier(started, (x, y), "good", outliers=x, epochs=1, learning_rate=1e-12)
    for mine, theirs in zip(trained.model.parameters(), pretrained.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    assert trained.outputs((x, y)).correct.mean() > 0.9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"quantile": 80}, "quantile must be a finite number, at least 0 and at most 1, got 80"),
        ({"kappa": -1}, "kappa must be a finite number, at least 0"),
        ({"epsilon": math.nan}, "epsilon must be a finite number"),
        ({"epsilon_ramp": (0.6, 0.1)}, "the ramp of epsilon must start"),
    ],
)
def test_wrong_parameters(wrong, message):
    with pytest.raises(InputError, match=message):
        GOOD(**wrong)


def test_too_strong_too_soon_collapses_and_is_reported():
    from caveat import CaveatWarning
    from caveat_lab import data
    from caveat_lab.networks.training import OutlierMix, fit_classifier

    images = data.digits()[slice(0, 300)]
    x = torch.from_numpy(images.inputs())
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    at_once = GOOD(kappa=30.0, kappa_ramp=(0.0, 0.0), epsilon_ramp=(0.0, 0.0))
    with pytest.warns(CaveatWarning, match="training collapsed"):
        fit_classifier(net, (x, images.labels), at_once, outliers=OutlierMix(x), epochs=3, batch_size=50)


@pytest.mark.parametrize("paradigm", [GOOD(), Joint(), ACET(start=0.0, attack_from=0.0)])
def test_outliers_outside_the_range_are_refused(paradigm):
    x, y = torch.rand(20, 4), torch.arange(20) % 2
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with pytest.raises(InputError, match="x must lie between 0 and 1, got values from"):
        fit_classifier(net, (x, y), paradigm, outliers=3 * torch.randn(50, 4), epochs=3)


def logits(*spread):
    return torch.tensor([[value, 0.0] for value in spread])


def test_the_count_of_the_appendix():
    # GOOD_60 with 128 outliers: 76 certified and 52 point samples (appendix E).
    assert certified_count(128, 0.6) == 76
    assert [certified_count(10, q) for q in (0, 0.8, 1)] == [0, 8, 10]


@pytest.mark.parametrize("quantile", [0, 0.6, 1])
def test_loss_and_gradients_are_those_of_the_formula_on_all_pairs(quantile):
    # The literal formula: every u_kl in one array, the largest of it, and log(1 + largest^2 / 2).
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, 12)).double()
    x, y, out = torch.rand(8, 5).double(), torch.arange(8), torch.rand(10, 5).double()
    loss, _ = GOOD(quantile=quantile, epsilon=0.1).loss(net, Batch(x, y, out))
    ball, point = (confidence_loss(difference_bounds(net, out, epsilon)) for epsilon in (0.1, 0.0))
    easy = ball.argsort()[: certified_count(10, quantile)]
    certified = torch.zeros(10, dtype=torch.bool)
    certified[easy] = True
    literal = nn.functional.cross_entropy(net(x), y) + 0.3 * torch.where(certified, ball, point).mean()
    torch.testing.assert_close(loss, literal)
    pairs = zip(*(torch.autograd.grad(value, list(net.parameters())) for value in (loss, literal)), strict=True)
    for got, want in pairs:
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("quantile", [0, 0.8, 1])
def test_a_step_never_holds_all_pairs_of_classes(quantile, largest_tensor):
    torch.manual_seed(0)
    n, classes = 128, 1000
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, classes))
    batch = Batch(torch.rand(n, 4), torch.arange(n), torch.rand(n, 4))
    with largest_tensor() as largest:
        loss, _ = GOOD(quantile=quantile).loss(net, batch)
        loss.backward()
    assert largest.entries <= 2**20 < n * classes**2 / 100
    assert net[2].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("norm", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm])
def test_a_parametrized_network_learns(norm):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), norm(nn.Linear(8, 3)))
    loss, _ = GOOD().loss(net, Batch(torch.rand(6, 4), torch.arange(6) % 3, torch.rand(6, 4)))
    loss.backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name


def test_the_easy_share_is_certified_and_the_hard_rest_is_not_dropped():
    # Sorted by the ball: 1, 2, 4, 6. q = 0.5 certifies 1 and 2; the points of 4 and 6 are 0.5 and 3.
    # L_CUB(m) = log(1 + m^2 / 2).
    loss = quantile_loss(torch.tensor([4.0, 1.0, 6.0, 2.0]), logits(0.5, 0.25, 3.0, 1.5), 0.5)
    expected = (math.log(1 + 1 / 2) + math.log(1 + 4 / 2) + math.log(1 + 0.25 / 2) + math.log(1 + 9 / 2)) / 4
    assert loss.item() == pytest.approx(expected)


def test_the_ends_of_the_quantile():
    ball, point = torch.tensor([4.0, 1.0]), logits(2.0, 1.0)
    assert quantile_loss(ball, point, 1).item() == pytest.approx((math.log(9) + math.log(1.5)) / 2)
    assert quantile_loss(ball, point, 0).item() == pytest.approx((math.log(3) + math.log(1.5)) / 2)


def test_the_gradient_goes_to_the_ball_of_the_easy_and_to_the_point_of_the_hard():
    # d/dm log(1 + m^2/2) = m / (1 + m^2/2): 1/1.5 at 1 and 2/3 at 2; each counts one half of the mean.
    ball = torch.tensor([4.0, 1.0], requires_grad=True)
    point = logits(2.0, 0.5).requires_grad_()
    quantile_loss(ball, point, 0.5).backward()
    assert ball.grad.tolist() == pytest.approx([0.0, 1 / 1.5 / 2])
    assert point.grad[:, 0].tolist() == pytest.approx([2 / 3 / 2, 0.0])


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
        center, radius = torch.rand(64, 400), torch.full((64, 400), 0.1)
        for layer in net:
            center, radius = layer(center), radius @ layer.weight.abs().T
            low, high = (center - radius).relu(), (center + radius).relu()
            center, radius = (high + low) / 2, (high - low) / 2
        radii[start] = radius.mean().item()
    assert 0.05 < radii["interval"] < 0.2
    assert radii["torch"] > 10


def test_a_parametrized_layer_is_drawn_anew_too():
    layer = nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 64, 25))
    interval_init_(layer, generator=torch.Generator().manual_seed(0))
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 * math.pi) / (16 * 25), rel=0.02)


def test_the_last_layer_can_be_left():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    before = net[2].weight.clone()
    interval_init_(net, last=False)
    assert torch.equal(net[2].weight, before)
    assert not net[0].bias.any()


def test_a_model_without_weights():
    with pytest.raises(InputError, match="must have a linear or convolutional layer"):
        interval_init_(nn.ReLU())
