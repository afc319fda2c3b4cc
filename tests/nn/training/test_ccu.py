import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat import CaveatWarning, InputError  # noqa: E402
from caveat.metrics import auroc  # noqa: E402
from caveat_lab.attacks import attack_confidence  # noqa: E402
from caveat_lab.bounds import confidence_bounds  # noqa: E402
from caveat_lab.networks.training import CCU, OutlierMix, fit_classifier  # noqa: E402
from caveat_lab.networks.training.ccu import CCUModel, choose_log_out_weight, gate_gap  # noqa: E402
from caveat_lab.networks.training.paradigm import Batch  # noqa: E402
from caveat_lab.networks.training.rows import Rows  # noqa: E402
from caveat_lab.robust.density_ratio import DensityRatio  # noqa: E402
from caveat_lab.robust.mixtures import Mixture  # noqa: E402

ratios = arrays(np.float64, st.integers(1, 12), elements=st.floats(-300, 300))


def ratio(seed=0):
    rng = np.random.default_rng(seed)
    inside = Mixture([0.4, 0.6], rng.uniform(0.3, 0.7, (2, 4)), [0.02, 0.03])
    outside = Mixture([0.5, 0.5], rng.random((2, 4)), [0.1, 0.2])
    return DensityRatio(inside, outside)


@pytest.fixture
def model():
    torch.manual_seed(0)
    net = CCUModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), 3)
    net.set_ratio(ratio(), log_out_weight=0.5)
    return net.eval()


def test_the_probabilities_are_those_of_the_appendix(model):
    # Eq. (12): (p(y|x,i) p(x|i) + lambda p(x|o) / K) / (p(x|i) + lambda p(x|o)), with lambda = e^0.5.
    x = torch.rand(6, 1, 2, 2).double()
    model.double()
    flat, both = x.flatten(1).numpy(), ratio()
    inside = np.exp(both.inside.log_density(flat))[:, None]
    outside = math.exp(0.5) * np.exp(both.outside.log_density(flat))[:, None]
    softmax = model.classifier(x).softmax(dim=1).detach().numpy()
    expected = (softmax * inside + outside / 3) / (inside + outside)
    np.testing.assert_allclose(model(x).exp().detach().numpy(), expected, rtol=1e-9)


def test_the_gate_has_the_gradient_of_autograd(model):
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(model.gate, (x,))


def test_no_corner_passes_the_bound(model):
    rng = np.random.default_rng(1)
    x = rng.random((20, 1, 2, 2))
    bounds = confidence_bounds(model, x, 0.2)
    corners = np.clip(x + rng.choice([-0.2, 0.2], size=(300, *x.shape)), 0, 1)
    with torch.no_grad():
        reached = model.double()(torch.from_numpy(corners).flatten(0, 1)).amax(dim=1).view(300, 20).numpy()
    assert (reached <= bounds.upper).all()
    np.testing.assert_allclose(bounds.exact.lower, -math.log(3))
    # The pair bound is the default and never looser than the box or the ball.
    for how in ("box", "ball"):
        tight, looser = (ratio().bounds(x.reshape(20, -1), 0.2, clip=(0, 1), method=m).upper for m in ("pairs", how))
        assert (tight <= looser + 1e-12).all()


def test_weights_go_into_a_file_and_come_back(model):
    other = CCUModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), 3)
    other.load_state_dict(model.state_dict())
    x = torch.rand(5, 1, 2, 2)
    assert torch.equal(other(x), model(x))


def test_a_model_without_densities_says_so():
    net = CCU().build(nn.Linear(4, 3), 3)
    assert torch.equal(net.gate(torch.rand(2, 4)), torch.zeros(2))
    with pytest.raises(InputError, match="the mixtures are not fitted yet"):
        net.ratio()
    diagonal = Mixture([1.0], [[0.5, 0.5]], [[0.1, 0.2]])
    with pytest.raises(InputError, match="CCU takes spherical mixtures"):
        net.set_ratio(DensityRatio(diagonal, diagonal))


def clusters(n=400):
    """Two classes of small images, and outliers of noise."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = torch.full((n, 1, 4, 4), 0.2) + 0.6 * y[:, None, None, None] * torch.eye(4)
    x = (x + 0.05 * torch.randn(x.shape, generator=generator)).clamp(0, 1)
    return x, y, lambda m, g: torch.rand(m, 1, 4, 4, generator=g)


def test_lambda_gives_the_share_that_was_asked_for():
    x, y, draw = clusters()
    paradigm = CCU(components=4, rows=400, inlier_share=0.9)
    net = paradigm.build(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), 2)
    paradigm.prepare(net, Rows.of((x, y), "data"), draw, torch.Generator().manual_seed(0))
    assert (net.gate(x.double()) >= 0).double().mean().item() == pytest.approx(0.9, abs=1 / 400)


def prepared(paradigm, x, y, draw, seed=0):
    net = paradigm.build(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), 2)
    paradigm.prepare(net, Rows.of((x, y), "data"), draw, torch.Generator().manual_seed(seed))
    return net


def test_lambda_is_at_least_as_good_as_its_neighbors():
    # Wide classes, so that at this radius bounds around noise and log-ratios of the held-back tenth overlap.
    x, y, draw = clusters(4000)
    x = (x + 0.15 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    net = prepared(CCU(components=2, rows=4000, epsilon=0.1), x, y, draw)
    cut, densities = net.log_out_weight.item(), net.ratio()
    held_back = x[torch.randperm(4000, generator=torch.Generator().manual_seed(0))[3600:]].flatten(1)
    noise = np.random.default_rng(5).random((4000, 16))  # other noise than lambda was set by
    both = {
        "inlier": densities.log_ratio(held_back),
        "outlier_upper": densities.bounds(noise, 0.1, side="upper").upper,
    }
    best = gate_gap(cut, **both)
    assert 0.5 < best < 0.99  # otherwise nothing is tested
    # The mean over other noise differs by two standard deviations of a share in 2,000 and in 4,000, at most 0.03.
    for step in (-20, -10, -5, -2, -1, 1, 2, 5, 10, 20):
        assert gate_gap(cut + step, **both) < best + 0.03
    for step in (-10, 10):
        assert gate_gap(cut + step, **both) < best - 0.03


def test_the_densities_do_not_see_the_rows_that_lambda_is_set_by():
    x, y, draw = clusters()
    other = x.clone()
    held_back = torch.randperm(400, generator=torch.Generator().manual_seed(0))[360:]
    other[held_back] = other[held_back].flip(3)
    one, two = (prepared(CCU(components=4, epsilon=0.05), given, y, draw) for given in (x, other))
    assert torch.equal(one.in_means, two.in_means)
    assert torch.equal(one.out_means, two.out_means)
    assert one.log_out_weight != two.log_out_weight


def test_lambda_follows_the_range_of_the_data():
    # Values from -20 to 20: noise between 0 and 1 would all lie in one place, and bounds cut off there.
    x, y, draw = clusters()
    net = prepared(CCU(components=4, epsilon=2.0), 40 * x - 20, y, lambda n, g: 40 * draw(n, g) - 20)
    with torch.no_grad():
        assert (net.gate(40 * x.double() - 20) > 0).double().mean() > 0.95
    noise = np.random.default_rng(1).uniform(-20, 20, (200, 16))
    upper = net.ratio().bounds(noise, 2.0, clip=(-20, 20)).upper - net.log_out_weight.item()
    assert np.mean(upper < 0) > 0.95


def test_a_radius_that_nothing_is_guaranteed_at_is_warned_of():
    x, y, draw = clusters()
    with pytest.warns(CaveatWarning, match="at radius 1 the densities guarantee little"):
        net = prepared(CCU(components=4, epsilon=1.0), x, y, draw)
    with torch.no_grad():  # lambda still tells noise itself
        assert (net.gate(x.double()) > 0).double().mean() > 0.95
        assert (net.gate(torch.rand(200, 1, 4, 4).double()) < 0).double().mean() > 0.95


def test_training_makes_a_model_that_knows_what_it_does_not_know(tmp_path):
    x, y, draw = clusters()
    made = []
    for _ in range(2):  # the second run finds the first one's state, densities included
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        trained = fit_classifier(
            net, (x, y), CCU(components=4, rows=400), outliers=draw, epochs=5, learning_rate=0.1, checkpoint=tmp_path
        )
        made.append(trained)
    model = made[0].model
    assert (model(x).argmax(dim=1) == y).double().mean() > 0.99
    noise = torch.rand(50, 1, 4, 4)
    bounds = confidence_bounds(model, noise, 0.05)
    assert np.exp(bounds.upper).max() < 0.6
    assert made[1].resumed
    assert torch.equal(made[1].model(noise), model(noise))


def test_outliers_that_are_narrower_than_inliers_are_warned_of():
    x, y, _ = clusters()
    paradigm = CCU(components=1, rows=200, inlier_share=0.9)
    net = paradigm.build(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), 2)
    narrow = OutlierMix(torch.full((5, 1, 4, 4), 0.5), ["permuted"])
    with pytest.warns(CaveatWarning, match="the widest Gaussian is inside"):
        paradigm.prepare(net, Rows.of((x, y), "data"), narrow, torch.Generator().manual_seed(0))


def test_wrong_parameters():
    with pytest.raises(InputError, match="components must be a whole number"):
        CCU(components=0)
    with pytest.raises(InputError, match="inlier_share must be above 0 and at most 1"):
        CCU(inlier_share=1.5)
    with pytest.raises(InputError, match="epsilon must be a finite number, at least 0"):
        CCU(epsilon=-0.1)


def test_every_outlier_of_a_batch_counts():
    # Slicing a joined batch at n + 1 would drop one. Two inliers and three outliers, classifier logits (2x, 0), gate 0:
    # p = softmax / 2 + 1/4, so that -log p has a value of its own for each x.
    classifier = nn.Linear(1, 2, bias=False)
    classifier.weight.data.copy_(torch.tensor([[2.0], [0.0]]))
    net = CCUModel(classifier, 2)
    x, out = torch.tensor([[0.1], [0.4]]), torch.tensor([[0.2], [0.5], [0.9]])
    loss, parts = CCU(kappa=0.5).loss(net, Batch(x, torch.tensor([0, 1]), out))

    def p(value):
        first = math.exp(2 * value) / (1 + math.exp(2 * value))
        return first / 2 + 0.25, (1 - first) / 2 + 0.25

    inside = -(math.log(p(0.1)[0]) + math.log(p(0.4)[1])) / 2
    outside = -sum(math.log(p(v)[0]) + math.log(p(v)[1]) for v in (0.2, 0.5, 0.9)) / 6
    assert parts == pytest.approx({"in": inside, "out": outside}, rel=1e-5)
    assert loss.item() == pytest.approx(inside + 0.5 * outside, rel=1e-5)


def test_the_rounding_of_the_gate_is_paid_for():
    # The network expands squares, which loses digits close to a narrow Gaussian.
    sure = nn.Linear(1, 10)
    sure.weight.data.zero_()
    sure.bias.data.copy_(60.0 * torch.eye(10)[0])
    net = CCUModel(sure, 10)
    net.set_ratio(DensityRatio(Mixture([1.0], [[0.9]], [1e-6]), Mixture([1.0], [[0.5]], [0.1])), log_out_weight=5.0)
    x = np.random.default_rng(0).normal(0.9, 1e-3, size=(500, 1))
    bounds = confidence_bounds(net, x, 0.0).exact
    assert (bounds.value <= bounds.upper).all()
    assert (bounds.upper - bounds.value).max() < 1e-7


@pytest.mark.filterwarnings("ignore:for .* copying from a non-meta")  # the device only bears that name
def test_the_mixtures_are_where_the_model_is(elsewhere):
    x = torch.rand(5, 1, 4, 4)
    here = CCUModel(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), 2)
    here.set_ratio(ratio_of_16())
    there = CCUModel(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).to(elsewhere), 2).to(elsewhere)
    there.load_state_dict(here.state_dict())
    assert {value.device.type for value in there.buffers()} == {elsewhere.type}
    moved = x.to(elsewhere)
    torch.testing.assert_close(there(moved).cpu(), here(x))
    for side in there.log_confidence_bounds(moved, 0.1):
        assert side.device.type == elsewhere.type
    there.set_ratio(ratio_of_16())
    assert {value.device.type for value in there.buffers()} == {elsewhere.type}
    assert there.log_out_weight.dtype == torch.float64
    assert there.gate(moved).device.type == elsewhere.type


def ratio_of_16():
    return DensityRatio(Mixture([1.0], [[0.3] * 16], [0.1]), Mixture([1.0], [[0.5] * 16], [0.2]))


def test_a_whole_training_runs_where_the_model_is(elsewhere):
    x, y, draw = clusters()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).to(elsewhere)
    trained = fit_classifier(net, (x, y), CCU(components=4, rows=300, epsilon=0.05), outliers=draw, epochs=3,
                             learning_rate=0.1)  # fmt: skip
    assert {value.device.type for value in trained.model.state_dict().values()} == {elsewhere.type}
    said = trained.outputs((x[:6], y[:6]))
    with torch.no_grad():
        expected = trained.model(x[:6].to(elsewhere)).amax(dim=1).exp().cpu()
    np.testing.assert_allclose(said.confidence, expected, rtol=1e-5)


def test_a_classifier_that_writes_into_its_input_does_not_move_the_gate():
    class Scribbling(nn.Linear):
        def forward(self, x):
            x *= 0
            return super().forward(x)

    net = CCUModel(Scribbling(16, 2), 2)
    net.set_ratio(ratio_of_16())
    x = torch.rand(5, 16)
    still = CCUModel(nn.Linear(16, 2), 2)
    still.set_ratio(ratio_of_16())
    still.classifier.weight.data.zero_()  # a classifier that sees nothing but zeros
    still.classifier.bias.data.copy_(net.classifier.bias.data)
    torch.testing.assert_close(net(x.clone()), still(x))
    torch.testing.assert_close(net.effective_gate(x.clone()), still.effective_gate(x))


def test_the_gap_by_hand():
    # sigma(log 3) = 3/4 and sigma(0) = 1/2, so (3/4 + 1/2) / 2 inside; sigma(-log 3) = 1/4 outside.
    third = math.log(3)
    assert gate_gap(2.0, inlier=[2 + third, 2.0], outlier_upper=[2 - third]) == pytest.approx(0.625 - 0.25)


def test_lambda_by_hand():
    # Far apart, so that each weight is 0 or 1. Cut at 150: 2/4 inside above, 0/2 outside; at 75: 3/4 - 0; at 25: 3/4 -
    # 1/2; at -45: 3/4 - 1; at -95: 1 - 1.
    assert choose_log_out_weight(inlier=[300.0, 200.0, 100.0, -90.0], outlier_upper=[50.0, -100.0]) == 75


def test_lambda_lies_in_the_middle_of_a_gap():
    assert choose_log_out_weight(inlier=[400.0, 100.0], outlier_upper=[-300.0, -500.0]) == -100


@settings(max_examples=50, deadline=None)
@given(inlier=ratios, outlier=ratios, at=st.integers(0, 22))
def test_no_other_middle_is_better(inlier, outlier, at):
    values = np.sort(np.concatenate([inlier, outlier]))
    other = (values[at % (values.size - 1)] + values[at % (values.size - 1) + 1]) / 2
    both = {"inlier": inlier, "outlier_upper": outlier}
    assert gate_gap(choose_log_out_weight(**both), **both) >= gate_gap(other, **both)


def test_the_gap_is_the_area_where_weights_are_nearly_0_or_1():
    rng = np.random.default_rng(0)
    inlier, outlier = rng.normal(300, 100, 500), rng.normal(-100, 100, 500)
    known, strange = (values > 20 for values in (inlier, outlier))
    area = auroc(inlier=-known.astype(float), outlier=-strange.astype(float))
    assert (1 + gate_gap(20.0, inlier=inlier, outlier_upper=outlier)) / 2 == pytest.approx(area, abs=0.01)


def fitted(x, y, draw, folder=None, **how):
    """A few epochs of CCU; the same first weights every time."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    how = {"components": 4, "rows": 300, "epsilon": 0.05, "trained": True} | how
    return fit_classifier(
        net, (x, y), CCU(**how), outliers=draw, epochs=3, learning_rate=0.1, checkpoint=folder, threads=1
    )


def test_trained_mixtures_move_at_their_own_rate_and_fixed_ones_do_not():
    x, y, draw = clusters()
    fixed, still, moved = (
        fitted(x, y, draw, **how).model for how in ({"trained": False}, {"mixture_rate": 0.0}, {"mixture_rate": 0.1})
    )
    for name in ("means", "variances", "weights"):
        before, rate_zero, after = (getattr(m.ratio().inside, name) for m in (fixed, still, moved))
        np.testing.assert_allclose(rate_zero, before, rtol=1e-9)
        assert np.abs(after / before - 1).max() > 0.005, name
    assert {name for name, _ in moved.named_parameters() if not name.startswith("classifier")} == {
        "in_weights", "in_means", "in_variances", "out_weights", "out_means", "out_variances",
    }  # fmt: skip


def test_training_raises_the_likelihood_that_it_maximizes():
    # From densities that do not fit; after expectation-maximization there is little left to gain.
    x, y, draw = clusters()
    paradigm = CCU(trained=True)
    net = paradigm.build(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), 2)
    net.set_ratio(ratio_of_16())
    noise = draw(400, torch.Generator().manual_seed(5))
    ((_, mixtures),) = paradigm.rates(net)
    optimizer = torch.optim.Adam(mixtures, lr=0.01)

    def likelihood():
        with torch.no_grad():
            return [net.log_densities(x)[0].mean().item(), net.log_densities(noise)[1].mean().item()]

    before = likelihood()
    for _ in range(30):
        optimizer.zero_grad()
        paradigm.loss(net, Batch(x, y, noise))[0].backward()
        optimizer.step()
    assert all(new > old + 0.1 for new, old in zip(likelihood(), before, strict=True))


def test_the_loss_of_trained_mixtures_adds_their_likelihood():
    net = CCUModel(nn.Linear(16, 2), 2, trained=True)
    net.set_ratio(ratio_of_16())
    plain = CCUModel(net.classifier, 2)
    plain.set_ratio(ratio_of_16())
    generator = torch.Generator().manual_seed(0)
    x, out = torch.rand(3, 16, generator=generator), torch.rand(4, 16, generator=generator)
    batch = Batch(x, torch.tensor([0, 1, 0]), out)
    with_density, parts = CCU(kappa=0.5, trained=True).loss(net, batch)
    without, _ = CCU(kappa=0.5).loss(plain, batch)
    both = ratio_of_16()
    expected = -both.inside.log_density(x.numpy()).mean() - 0.5 * both.outside.log_density(out.numpy()).mean()
    assert (with_density - without).item() == pytest.approx(expected, rel=1e-5)
    assert set(parts) == {"in", "out", "known", "strange"}


def test_kappa_of_ccu_rises_along_its_ramp():
    assert CCU(kappa=1.0, ramp=(0.2, 0.6)).ramped(0.4) == pytest.approx([0.5])


def test_trained_mixtures_are_bounded_and_come_back_from_a_file(tmp_path):
    x, y, draw = clusters()
    first, second = (fitted(x, y, draw, tmp_path, mixture_rate=0.1) for _ in range(2))
    assert second.resumed
    noise = torch.rand(30, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first.model(noise), second.model(noise))
    bounds = confidence_bounds(first.model, noise, 0.05)
    corners = noise + 0.05 * (2 * torch.randint(2, (200, 30, 1, 4, 4)) - 1)
    with torch.no_grad():
        reached = first.model.double()(corners.double().clamp(0, 1).flatten(0, 1)).amax(dim=1).view(200, 30)
    assert (reached.numpy() <= bounds.upper).all()


def test_trained_mixtures_are_attacked_as_fixed_ones_are():
    # The same densities as parameters and as buffers: parameters in float64 do not change what the classifier takes.
    torch.manual_seed(0)
    trained = CCUModel(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), 2, trained=True)
    fixed = CCUModel(trained.classifier, 2)
    for net in (trained, fixed):
        net.set_ratio(ratio_of_16(), log_out_weight=5.0)
    noise = np.random.default_rng(0).random((6, 1, 4, 4), dtype=np.float32)
    first, second = (
        attack_confidence(net, noise, 0.1, rng=1, optimizers=("apgd",), starts=("point",), steps=10, progress=False)
        for net in (trained, fixed)
    )
    np.testing.assert_allclose(first.log_confidence, second.log_confidence, rtol=1e-6)
    assert (first.log_confidence >= confidence_bounds(fixed, noise, 0.0).exact.value - 1e-9).all()
    assert (first.log_confidence <= confidence_bounds(trained, noise, 0.1).upper).all()


def test_the_ball_certifies_nothing_where_pairs_certify_noise():
    """The cause of a published GAUC of 0 for CCU: the same densities, bounded over the box and over its ball."""
    # 400 pixels near a gray level of 0.2. The ball around a box of radius 0.3 has radius 6; noise is 8.3 from the one
    # center and 5.8 from the other, so that the ball almost reaches the first, and twice the distance of the second.
    rng = np.random.default_rng(0)
    both = DensityRatio(Mixture([1.0], np.full((1, 400), 0.2), [0.01]), Mixture([1.0], np.full((1, 400), 0.5), [0.1]))
    known = both.log_ratio(rng.normal(0.2, 0.1, (200, 400)).clip(0, 1))
    noise = rng.random((200, 400))
    areas = {
        method: auroc(inlier=-known, outlier=-both.bounds(noise, 0.3, method=method).upper)
        for method in ("ball", "pairs")
    }
    assert areas["ball"] < 0.01
    assert areas["pairs"] > 0.99
