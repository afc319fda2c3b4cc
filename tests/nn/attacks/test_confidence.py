"""The worst of all attacks: inside the ball, never better than clean, never above the certificate."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from caveat import InputError
from caveat_lab.robust import DensityRatio, Mixture

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.attacks import STARTS, attack_confidence  # noqa: E402
from caveat_lab.bounds import confidence_bounds  # noqa: E402
from caveat_lab.bounds.exact import exact_gate  # noqa: E402
from caveat_lab.networks.training.ccu import CCUModel  # noqa: E402


@pytest.fixture(scope="module")
def trained():
    """A small network on two stripes of the unit square, its data, and points off the data."""
    torch.manual_seed(0)
    x = torch.rand(400, 6)
    y = (x[:, 0] > 0.5).long() + (x[:, 1] > 0.5).long()
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net, x, torch.rand(40, 6)


def attack(net, x, epsilon=0.1, seed=0, **options):
    return attack_confidence(net, x, epsilon, rng=np.random.default_rng(seed), **{"steps": 20, **options})


@pytest.mark.parametrize("direction", ["raise", "lower"])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
def test_attacked_values_lie_between_clean_and_certificate(trained, epsilon, direction):
    net, train, x = trained
    found = attack(net, x, epsilon, direction=direction, candidates=train, restarts=2)
    bounds = confidence_bounds(net, x, epsilon)
    np.testing.assert_array_equal(found.clean, bounds.exact.value)
    if direction == "raise":
        assert (found.log_confidence >= found.clean).all()
        assert (found.log_confidence <= bounds.upper).all()
    else:
        assert (found.log_confidence <= found.clean).all()
        assert (found.log_confidence >= bounds.lower).all()


def test_linear_bounds_are_not_passed_either(trained):
    net, train, x = trained
    found = attack(net, x[:12], 0.1, candidates=train)
    bounds = confidence_bounds(net, x[:12], 0.1, method="crown")
    assert (found.log_confidence <= bounds.upper).all()
    assert (attack(net, x[:12], 0.1, direction="lower").log_confidence >= bounds.lower).all()


def test_no_sample_is_spared_for_its_class(trained):
    # Pitfall 8: public code attacks only points predicted as the outliers' own label and keeps misclassified iterates
    net, _, x = trained
    found = attack(net, x, 0.1, starts=["point"], optimizers=["apgd"])
    predicted = net(x).argmax(dim=1).numpy()
    for label in np.unique(predicted):
        assert (found.log_confidence > found.clean)[predicted == label].mean() > 0.8


def test_points_are_inside_and_score_what_is_said(trained):
    net, train, x = trained
    found = attack(net, x, 0.1, candidates=train)
    original = x.double().numpy()
    assert (np.abs(found.points - original) <= 0.1).all()
    assert ((found.points >= 0) & (found.points <= 1)).all()
    with torch.no_grad():
        said = torch.log_softmax(copy.deepcopy(net).double().eval()(torch.tensor(found.points)), 1).amax(1)
    np.testing.assert_allclose(found.log_confidence, said.numpy(), atol=1e-12)


def test_the_worst_of_all_attacks_is_given(trained):
    net, train, x = trained
    found = attack(net, x, candidates=train)
    assert set(found.per_attack) == {f"{o} from {s}" for o in ("apgd", "monotone")
                                     for s in ("point", "small", "contrast", "toward_id")}  # fmt: skip
    np.testing.assert_array_equal(found.log_confidence, np.max(list(found.per_attack.values()), axis=0))
    lower = attack(net, x, direction="lower", starts=["point", "full"])
    np.testing.assert_array_equal(lower.log_confidence, np.min(list(lower.per_attack.values()), axis=0))


def test_it_finds_what_a_grid_finds():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 3))
    for weight in net.parameters():
        weight.data.mul_(3)
    x = torch.rand(12, 2)
    found = attack(net, x, 0.15, steps=60, restarts=5, starts=["point", "full", "contrast"])
    side = torch.linspace(-0.15, 0.15, 61, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    with torch.no_grad():
        points = (x.double()[:, None] + grid).clamp(0, 1)
        values = torch.log_softmax(copy.deepcopy(net).double()(points), -1).amax(-1).amax(1).numpy()
    assert (found.log_confidence > values - 0.02).all()


def test_a_seed_gives_the_same_attack_and_the_batch_size_does_not_matter(trained):
    net, train, x = trained
    one, two = (attack(net, x, candidates=train, restarts=2) for _ in range(2))
    np.testing.assert_array_equal(one.points, two.points)
    small = attack(net, x, candidates=train, restarts=2, batch_size=7)
    np.testing.assert_allclose(small.log_confidence, one.log_confidence, atol=1e-4)
    assert not np.array_equal(attack(net, x, seed=1, starts=["full"]).points, attack(net, x, starts=["full"]).points)


def test_the_model_is_left_as_it_was(trained):
    net, _, x = trained
    net = copy.deepcopy(net).train()
    before = copy.deepcopy(net.state_dict())
    attack(net, x)
    assert net.training
    assert all(p.requires_grad and p.grad is None for p in net.parameters())
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, before[name])


def sibling_of(net, seed=9, noise=0.1):
    torch.manual_seed(seed)
    sibling = copy.deepcopy(net)
    for weight in sibling.parameters():
        weight.data.add_(noise * torch.randn_like(weight))
    return sibling


def test_monotone_pgd_starts_from_the_points_of_other_models(trained):
    # Appendix A of GOOD: "the final best points of all other models ... as starting points for the same monotone PGD"
    net, _, x = trained
    sibling, how = sibling_of(net), {"starts": ["point"], "optimizers": ["apgd"]}
    alone, helped = attack(net, x, **how), attack(net, x, transfer=[sibling], **how)
    assert set(helped.per_attack) == {"apgd from point", "transfer 0", "monotone from transfer 0"}
    there = attack(sibling, x, **how)
    np.testing.assert_array_equal(helped.per_attack["apgd from point"], alone.per_attack["apgd from point"])
    evaluated, climbed = helped.per_attack["transfer 0"], helped.per_attack["monotone from transfer 0"]
    np.testing.assert_allclose(evaluated, np.maximum(value_at(net, there.points), helped.clean), atol=1e-12)
    assert (climbed >= evaluated - 1e-6).all()  # the climb is in float32
    assert (climbed > evaluated + 1e-3).mean() > 0.3
    assert (helped.log_confidence >= np.maximum(alone.log_confidence, evaluated)).all()
    # points that were found before serve as well as the model that they were found on
    kept = attack(net, x, transfer=[there.points], **how)
    np.testing.assert_array_equal(kept.log_confidence, helped.log_confidence)


def value_at(net, points):
    with torch.no_grad():
        said = copy.deepcopy(net).double().eval()(torch.tensor(points))
    return torch.log_softmax(said, 1).amax(1).numpy()


def masked(threshold, weight):
    """Logits (relu(w . z - threshold), 0): flat below the threshold."""
    net = nn.Sequential(nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 2, bias=False))
    net[0].weight.data.copy_(torch.tensor([weight]))
    net[0].bias.data.fill_(-threshold)
    net[2].weight.data.copy_(torch.tensor([[5.0], [0.0]]))
    return net


def test_a_transferred_point_unmasks_a_flat_network():
    # At x = 0.5 the sum is 1.5, below the threshold 1.6 of the net and above that of its sibling, which does not see
    # the third entry. Its best point (0.7, 0.7, 0.5) has the sum 1.9; from there the net climbs to 2.1.
    x, how = torch.full((1, 3), 0.5), {"starts": ["point"], "optimizers": ["apgd"]}
    net, sibling = masked(1.6, [1.0, 1.0, 1.0]), masked(0.9, [1.0, 1.0, 0.0])
    assert attack(net, x, 0.2, **how).log_confidence == pytest.approx(np.log(0.5))
    found = attack(net, x, 0.2, transfer=[sibling], **how)
    assert found.per_attack["transfer 0"] == pytest.approx(-np.log1p(np.exp(-5 * 0.3)), abs=1e-6)
    assert found.log_confidence == pytest.approx(-np.log1p(np.exp(-5 * 0.5)), abs=1e-6)
    np.testing.assert_allclose(found.points, [[0.7, 0.7, 0.7]], atol=1e-6)


def test_transferred_points_of_another_shape_are_named(trained):
    net, _, x = trained
    with pytest.raises(InputError, match=r"transfer 0 must be .* \(40, 6\), got \(3, 6\)"):
        attack(net, x, transfer=[x[:3]])


def test_both_budgets_are_kept():
    calls = []

    class Net(nn.Linear):
        def forward(self, x):
            calls.append(x.dtype)
            return super().forward(x)

    def passes(**how):
        calls.clear()
        attack(Net(2, 2), torch.full((3, 2), 0.5), starts=["point"], **how)
        return calls.count(torch.float32)  # float64 judges at the end

    # one look at the start, then for each optimizer its start and its steps
    assert passes(steps=7, monotone_steps=11) == 1 + (1 + 7) + (1 + 11)
    assert passes(steps=7) == 1 + (1 + 7) + (1 + 14)
    assert passes(steps=7, monotone_steps=3, optimizers=["monotone"]) == 1 + (1 + 3)


class Scribbling(nn.Module):
    """Halves its input in place; its confidence rises with the first entry."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2, bias=False)
        self.fc.weight.data.copy_(torch.tensor([[4.0, 0.0], [0.0, 0.0]]))

    def forward(self, x):
        x *= 0.5
        return self.fc(x)


def test_a_model_that_writes_into_its_input_moves_neither_the_ball_nor_the_array():
    x = np.full((2, 2), 0.5)
    found = attack(Scribbling(), x, 0.1, candidates=np.full((1, 2), 0.9))
    assert (x == 0.5).all()
    # logits (2 z_0, 0): z_0 = 0.6 is the worst
    np.testing.assert_allclose(found.points[:, 0], 0.6, atol=1e-7)
    np.testing.assert_allclose(found.clean, -np.log1p(np.exp(-1.0)))
    np.testing.assert_allclose(found.log_confidence, -np.log1p(np.exp(-1.2)), atol=1e-6)


def test_a_seed_stands_for_a_generator(trained):
    net, _, x = trained
    one, two = (attack_confidence(net, x, 0.1, rng=rng, steps=5) for rng in (3, np.random.default_rng(3)))
    np.testing.assert_array_equal(one.points, two.points)
    with pytest.raises(InputError, match="rng must be"):
        attack_confidence(net, x, 0.1, rng="3")


def test_an_attack_of_nothing_is_refused(trained):
    net, _, x = trained
    with pytest.raises(InputError, match="at least one"):
        attack(net, x, optimizers=[])


@pytest.mark.parametrize("direction", ["raise", "lower"])
def test_the_attack_runs_where_the_model_is(trained, direction, elsewhere):
    net, train, x = trained
    how = {"candidates": train[:9], "starts": [*STARTS, "toward_id"], "restarts": 2, "steps": 4, "direction": direction}
    here = attack(net, x[:5], **how, transfer=[sibling_of(net)])
    seen = set()
    moved = copy.deepcopy(net).to(elsewhere)
    moved.register_forward_pre_hook(lambda _, args: seen.add((args[0].device.type, args[0].dtype)))
    there = attack(moved, x[:5].to(elsewhere), **how, transfer=[sibling_of(net).to(elsewhere)])
    np.testing.assert_allclose(there.points, here.points, atol=1e-6)
    np.testing.assert_allclose(there.log_confidence, here.log_confidence, atol=1e-6)
    assert (elsewhere.type, torch.float32) in seen
    assert ("cpu", torch.float32) not in seen


def test_zero_gradients_are_counted_and_said():
    # dead at every input: all hidden units off, so the gradient is exactly zero
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net[0].bias.data.fill_(-100)
    found = attack(net, torch.rand(10, 3), steps=3)
    assert found.zero_gradient_share == 1
    assert set(found.zero_gradients.values()) == {1.0}
    assert "100 % of the gradients are zero" in found.caveat
    assert found.caveat in str(found)
    live = attack(nn.Linear(3, 2), torch.rand(10, 3), steps=3, candidates=torch.rand(4, 3))
    assert live.zero_gradient_share == 0
    assert live.caveat == ""


@pytest.mark.parametrize("starts", [None, ["full"]])
def test_an_attack_that_leads_to_no_candidates_says_so(trained, starts):
    # Slopes are there, so nothing else would show that the strongest start was left out.
    net, train, x = trained
    found = attack(net, x, steps=3, starts=starts)
    assert found.zero_gradient_share < 0.5
    assert "No attack began at 'toward_id'" in found.caveat
    assert found.caveat in str(found)
    assert attack(net, x, steps=3, candidates=train).caveat == ""


def test_samples_without_a_slope_are_not_climbed_in_vain():
    # half of the samples are dead, and only the others cost passes
    calls = []

    class Net(nn.Module):
        def forward(self, x):
            calls.append(x.shape[0])
            return torch.cat([torch.relu(x[:, :1] - 0.5), torch.zeros_like(x[:, :1])], dim=1)

    x = torch.tensor([[0.1, 0.5], [0.9, 0.5], [0.2, 0.5], [0.8, 0.5]])
    found = attack(Net(), x, 0.05, starts=["point"], optimizers=["apgd"], steps=5)
    assert found.zero_gradient_share == 0.5
    np.testing.assert_allclose(found.points[:, 0], [0.1, 0.95, 0.2, 0.85], atol=1e-7)
    assert calls.count(2) == 6  # the start and five steps, of two samples


def test_saturated_confidence_is_still_attacked():
    # Pitfall: float32 softmax is exactly 1 here and has no slope; the log-confidence has one
    net = nn.Linear(2, 2, bias=False)
    net.weight.data = torch.tensor([[100.0, 0.0], [0.0, 0.0]])
    x = torch.tensor([[0.5, 0.5]])
    assert torch.softmax(net(x), 1).max() == 1
    found = attack(net, x, 0.1, direction="lower", starts=["point"])
    assert found.zero_gradient_share == 0
    assert found.points[0, 0] == pytest.approx(0.4)


def test_another_objective_can_be_attacked():
    # a detector g = z0 - z1: its largest value in the ball is at the corner
    net = nn.Linear(2, 1, bias=False)
    net.weight.data = torch.tensor([[1.0, -1.0]])
    found = attack(net, torch.tensor([[0.5, 0.5]]), 0.25, objective=lambda out: out[:, 0], starts=["point"])
    assert found.log_confidence.tolist() == [pytest.approx(0.5)]


@pytest.mark.parametrize(("options", "what"), [
    ({"direction": "up"}, "unknown direction 'up'"), ({"starts": ["pont"]}, "Did you mean 'point'"),
    ({"optimizers": ["pgd"]}, "Did you mean 'apgd'"), ({"objective": "confidence"}, "unknown objective"),
    ({"epsilon": -1}, "epsilon must be"), ({"restarts": 0}, "restarts must be"), ({"steps": 0}, "steps must be"),
])  # fmt: skip
def test_wrong_arguments_are_named(options, what):
    with pytest.raises(InputError, match=what):
        attack(nn.Linear(2, 2), torch.rand(3, 2), **options)


def test_a_model_that_gives_nan_is_refused():
    net = nn.Linear(2, 2)
    net.weight.data[0, 0] = np.nan
    with pytest.raises(InputError, match="gives NaN"):
        attack(net, torch.rand(3, 2))


def test_inputs_outside_the_range_are_named():
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        attack(nn.Linear(2, 2), torch.full((1, 2), 2.0))


@pytest.mark.parametrize("direction", ["raise", "lower"])
def test_a_gate_that_rounds_the_confidence_away_does_not_mask_the_attack(direction):
    # log b is hundreds below 0, so the confidence is 1/10 to the last bit and flat. It still rises towards the inside:
    # -|x - 0.2|^2 / 0.002 + |x - 0.5|^2 / 0.4 is largest in the corner nearest to 0.2, and smallest in the other.
    classifier = nn.Linear(4, 10)
    classifier.weight.data.zero_()
    classifier.bias.data.copy_(9.0 * torch.eye(10)[0])
    net = CCUModel(classifier, 10)
    inside, outside = Mixture([1.0], [[0.2] * 4], [1e-3]), Mixture([1.0], [[0.5] * 4], [0.2])
    net.set_ratio(DensityRatio(inside, outside))
    x = torch.tensor([[0.8, 0.7, 0.8, 0.9]])
    found = attack(net, x, 0.05, direction=direction)
    assert found.zero_gradient_share == 0
    step = -0.05 if direction == "raise" else 0.05
    np.testing.assert_allclose(found.points, x.numpy() + step, atol=1e-6)
    np.testing.assert_allclose(found.gate, exact_gate(net, found.points), rtol=1e-12)
    if direction == "raise":
        assert exact_gate(net, x) < found.gate <= exact_gate(net, x, 0.05)
    np.testing.assert_allclose(found.log_confidence, np.log(0.1), atol=1e-12)
    np.testing.assert_array_equal(found.clean, confidence_bounds(net, x, 0.05).value)
    assert all(values == found.clean for values in found.per_attack.values())


def test_other_objectives_and_other_models_are_climbed_as_they_are(trained):
    net, _, x = trained
    assert attack(net, x[:3]).gate is None


def test_candidates_of_another_shape_are_named(trained):
    net, _, x = trained
    with pytest.raises(InputError, match=r"candidates must be inputs of the shape of x \(6,\), got \(5,\)"):
        attack(net, x[:2], candidates=torch.rand(3, 5))
