"""Coverage under attack: by hand, and with an attacker who knows everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import CaveatWarning, InputError
from caveat.conformal import quantile
from caveat_lab.robust import certified_sets


def test_by_hand_on_both_sides():
    # n = 4, alpha 0.2: k = ceil(5 * 0.8) = 4, the largest score
    sets = certified_sets(alpha=0.2, calibration=[0.1, 0.4, 0.3, 0.2], test_lower=[[0.4, 0.41], [0.0, 1.0]])
    assert sets.member.tolist() == [[True, False], [True, False]]
    assert sets.level == pytest.approx(0.8)
    sets = certified_sets(alpha=0.2, calibration_upper=[0.5, 0.6, 0.7, 0.8], test=[[0.8, 0.81]])
    assert sets.member.tolist() == [[True, False]]


def test_matrices_with_labels_are_the_scores_of_the_true_labels():
    rng = np.random.default_rng(0)
    matrix, labels, lower = rng.random((40, 3)), rng.integers(3, size=40), rng.random((9, 3))
    of_labels = matrix[np.arange(40), labels]
    one = certified_sets(alpha=0.1, calibration=matrix, labels=labels, test_lower=lower)
    two = certified_sets(alpha=0.1, calibration=of_labels, test_lower=lower)
    np.testing.assert_array_equal(one.member, two.member)
    np.testing.assert_array_equal(one.member, lower <= quantile(of_labels, 0.1))


@given(seed=st.integers(0, 10**6), width=st.floats(0, 1))
def test_wider_bounds_give_larger_sets(seed, width):
    rng = np.random.default_rng(seed)
    known, scores = rng.random(30), rng.random((8, 4))
    plain = certified_sets(alpha=0.1, calibration=known, test_lower=scores).member
    assert (certified_sets(alpha=0.1, calibration=known, test_lower=scores - width).member >= plain).all()
    assert (certified_sets(alpha=0.1, calibration_upper=known + width, test=scores).member >= plain).all()


@pytest.mark.parametrize("side", ["test", "calibration"])
def test_coverage_holds_against_an_attacker_who_knows_the_truth(side):
    # Two classes at -1 and 1 on a line, a(x, y) = |x - center_y|, moves of up to 0.6. Over a ball of radius r the score
    # lies between a - r and a + r exactly. The attacker moves every point away from its true center.
    rng, alpha, radius, n, trials, held, plain = np.random.default_rng(0), 0.1, 0.6, 99, 1500, 0, 0
    centers = np.array([-1.0, 1.0])
    for _ in range(trials):
        y = rng.integers(2, size=n + 1)
        x = centers[y] + rng.normal(0, 0.5, n + 1)
        away = np.where(x[-1] > centers[y[-1]], radius, -radius)
        seen, truth = x[-1] + away, y[-1]
        known, asked = np.abs(x[:-1] - centers[y[:-1]]), np.abs(seen - centers)
        if side == "test":
            sets = certified_sets(alpha=alpha, calibration=known, test_lower=[np.maximum(asked - radius, 0)])
        else:
            sets = certified_sets(alpha=alpha, calibration_upper=known + radius, test=[asked])
        held += bool(sets.member[0, truth])
        plain += bool(asked[truth] <= quantile(known, alpha))
    exact = np.ceil((n + 1) * (1 - alpha)) / (n + 1)
    tolerance = 4 * np.sqrt(exact * (1 - exact) / trials)
    assert held / trials > exact - tolerance
    assert plain / trials < exact - tolerance  # without the certificate the promise breaks
    assert held / trials < exact + tolerance  # here the bounds are exact and the attacker is perfect: nothing to spare


def test_coverage_survives_a_real_attack_on_a_network():
    torch = pytest.importorskip("torch")
    from torch import nn

    from caveat_lab.attacks import attack_confidence
    from caveat_lab.bounds import label_bounds

    torch.manual_seed(0)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    centers = torch.rand(3, 8, generator=generator)

    def draw(n):
        y = torch.randint(3, (n,), generator=generator)
        return (centers[y] + 0.17 * torch.randn(n, 8, generator=generator)).clamp(0, 1), y

    x, y = draw(600)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    (known, known_y), (clean, truth), epsilon, alpha = draw(400), draw(400), 0.05, 0.1
    attacked = np.empty((400, 8))
    for label in range(3):  # the attacker lowers the probability of the true label
        rows = (truth == label).numpy()
        found = attack_confidence(
            net, clean[truth == label], epsilon, rng=np.random.default_rng(0), direction="lower", steps=20,
            objective=lambda out, k=label: torch.log_softmax(out, 1)[:, k], starts=["point"], optimizers=["apgd"],
        )  # fmt: skip
        attacked[rows] = found.points
    before, after = label_bounds(net, known, epsilon), label_bounds(net, attacked, epsilon)
    on_test = certified_sets(alpha=alpha, calibration=before.value, labels=known_y, test_lower=after.lower)
    on_calibration = certified_sets(alpha=alpha, calibration_upper=before.upper, labels=known_y, test=after.value)
    plain = certified_sets(alpha=alpha, calibration=before.value, labels=known_y, test_lower=after.value)
    slack = 4 * np.sqrt(alpha * (1 - alpha) * (1 / 400 + 1 / 400))
    assert on_test.coverage(truth) > 1 - alpha - slack
    assert on_calibration.coverage(truth) > 1 - alpha - slack
    assert plain.coverage(truth) < min(on_test.coverage(truth), on_calibration.coverage(truth)) - 0.03
    assert on_test.sizes.mean() < 3  # and the sets still say something


def test_too_few_points_give_every_label_and_say_so():
    with pytest.warns(CaveatWarning, match="n = 3 is too small"):
        sets = certified_sets(alpha=0.1, calibration=[0.1, 0.2, 0.3], test_lower=[[5.0, 9.0]])
    assert sets.member.all()
    assert "n = 3 is too small" in sets.caveat


def test_pac_sets_are_larger():
    rng = np.random.default_rng(0)
    known, lower = rng.random(200), rng.random((50, 3))
    plain = certified_sets(alpha=0.1, calibration=known, test_lower=lower)
    pac = certified_sets(alpha=0.1, calibration=known, test_lower=lower, delta=0.05)
    assert pac.member.sum() >= plain.member.sum()
    assert pac.delta == 0.05


@pytest.mark.parametrize(("given", "what"), [
    ({"calibration": [0.1]}, "exactly one side"),
    ({"calibration": [0.1], "test": [[0.1]]}, "exactly one side"),
    ({"calibration": [0.1], "test_lower": [[0.1]], "test": [[0.1]]}, "exactly one side"),
    ({"calibration": [[0.1, 0.2]], "test_lower": [[0.1, 0.2]]}, "labels must say"),
    ({"calibration": [[0.1, 0.2]], "labels": [0], "test_lower": [[0.1]]}, "same number of columns"),
    ({"calibration": [[0.1, 0.2]], "labels": [0, 1], "test_lower": [[0.1, 0.2]]}, "same length"),
    ({"calibration": [0.1], "test_lower": [0.1]}, "non-empty matrix"),
    ({"calibration": [np.nan], "test_lower": [[0.1]]}, "calibration has NaN"),
])  # fmt: skip
def test_wrong_arguments_are_named(given, what):
    with pytest.raises(InputError, match=what):
        certified_sets(alpha=0.5, **given)
