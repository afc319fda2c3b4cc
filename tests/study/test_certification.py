import math
from dataclasses import replace

import numpy as np
import pytest

from caveat import InputError
from caveat.errors import CaveatError
from caveat.metrics.auroc_intervals import auroc_interval
from caveat_lab.data import Images
from caveat_lab.experiments.certification import BINS, Certification, Gates, SetCertificate


def logs(*values):
    return np.log(np.array(values))


@pytest.fixture
def small():
    # Inliers 0.9 and 0.6. Outliers: clean 0.2, 0.5; attacked 0.5, 0.7; bounds 0.7, 0.95.
    one = SetCertificate(
        name="noise", clean=logs(0.2, 0.5), attacked=logs(0.5, 0.7), upper=logs(0.7, 0.95), zero_gradients=0.5,
        labels=np.array([1, 0]), classes=("a", "b"),
    )  # fmt: skip
    return Certification("net", 0.3, 4, logs(0.9, 0.6), accuracy=0.5, sets=(one,))


def test_the_three_areas_by_hand(small):
    # Pairs (inlier above outlier) of four: clean all; attacked (0.9 > both, 0.6 > 0.5): 3; bounds (0.9 > 0.7): 1.
    (one,) = small.sets
    assert (small.auc(one), small.aauc(one), small.gauc(one)) == (1.0, 0.75, 0.25)
    assert small.band(one).lower <= 0.25


def test_the_interval_of_the_attacked_area_is_that_of_delong_on_attacked_confidences(small):
    (one,) = small.sets
    found = small.aauc_interval(one)
    expected = auroc_interval(inlier=[-0.9, -0.6], outlier=[-0.5, -0.7])
    assert (found.value, found.method) == (0.75, "DeLong")
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper))
    nothing = replace(small, sets=(replace(one, attacked=None),))
    assert math.isnan(nothing.aauc_interval(nothing.sets[0]).lower)


def test_records_for_a_report(small):
    facts, inside, found = small.records(seed=3)
    assert (facts.accuracy.value, facts.accuracy.n) == (0.5, 2)
    assert inside.shares.sum() == pytest.approx(1)
    assert (found.block.model, found.block.seed, found.block.outlier) == ("net", 3, "noise")
    assert (found.auc, found.aauc, found.gauc, found.gauc_guaranteed.value) == (1.0, 0.75, 0.25, 0.25)
    assert (found.mean_bound, found.zero_gradients, found.n) == (pytest.approx(0.825), 0.5, 2)
    assert found.edges.shape == (BINS + 1,)
    assert (found.edges[0], found.edges[-1]) == (0.25, 1.0)
    assert found.shares.sum() == pytest.approx(1)
    assert found.classes == ("a", "b")
    assert found.class_bound.tolist() == pytest.approx([0.95, 0.7])
    assert small.findings(title="T").delta == small.delta


def test_a_uniform_answer_lies_in_the_first_bin(small):
    _, shares = small.histogram(np.full(3, -math.log(4) - 1e-12))
    assert shares[0] == 1


def test_means_by_class_keep_the_names(small):
    (one,) = small.sets
    assert one.by_class() == {
        "a": (pytest.approx(0.5), pytest.approx(0.95)),
        "b": (pytest.approx(0.2), pytest.approx(0.7)),
    }


@pytest.mark.parametrize(("clean", "attacked", "upper"), [((0.6,), (0.5,), (0.7,)), ((0.4,), (0.8,), (0.7,))])
def test_a_certificate_that_does_not_hold_is_refused(clean, attacked, upper):
    broken = SetCertificate("noise", clean=logs(*clean), attacked=logs(*attacked), upper=logs(*upper))
    with pytest.raises(CaveatError, match="the certificate of net on noise does not hold: .* at row 0"):
        Certification("net", 0.3, 4, logs(0.9), 1.0, (broken,))


def test_a_small_network_end_to_end():
    torch = pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    rng = np.random.default_rng(0)
    known = Images(rng.random((30, 2, 2)), rng.integers(3, size=30))
    told = []
    found = certify(
        net, inlier=known, outliers={"a": rng.random((40, 1, 2, 2)), "b": known}, epsilon=0.1, points=10, steps=5,
        progress=lambda *what: told.append(what),
    )  # fmt: skip
    assert [one.n for one in found.sets] == [10, 10]
    assert found.n_classes == 3
    assert 0 <= found.accuracy <= 1
    assert [what for what, _, _ in told] == ["inliers", "a", "b", "done"]
    for one in found.sets:
        assert found.gauc(one) <= found.aauc(one) <= found.auc(one)
    # The radius 0 certifies the points themselves.
    still = certify(net, inlier=known, outliers={"a": known}, epsilon=0.0, attack=())
    np.testing.assert_allclose(still.sets[0].upper, still.sets[0].clean, atol=1e-4)  # room for rounding in float32
    tight = certify(net, inlier=known, outliers={"a": known}, epsilon=0.0, attack=(), arithmetic="real")
    np.testing.assert_allclose(tight.sets[0].upper, tight.sets[0].clean, atol=1e-9)
    assert still.sets[0].attacked is None
    assert math.isnan(still.aauc(still.sets[0]))
    assert math.isnan(still.records()[-1].zero_gradients)


def test_outliers_whose_rounding_exceeds_the_margin_count_as_fully_confident():
    # x + 2**24 - 2**24 is x in real numbers and a multiple of 2 in float32: nothing of the promise is left there.
    torch = pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify

    net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), torch.nn.Linear(1, 2))
    numbers = ([[1.0]], [2.0**24]), ([[1.0]], [-(2.0**24)]), ([[20.0], [0.0]], [0.0, 0.0])
    for layer, (weight, bias) in zip(net, numbers, strict=True):
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias)
    known, strange = [[0.9], [0.8]], {"a": [[0.1], [0.2]]}
    model, real = (
        certify(net, inlier=known, outliers=strange, epsilon=0.0, attack=(), arithmetic=how)
        for how in ("model", "real")
    )
    assert (model.arithmetic, real.arithmetic) == ("float32", "real")
    assert (model.sets[0].uncertified, real.sets[0].uncertified) == (2, 0)
    assert model.sets[0].upper.tolist() == [0.0, 0.0]
    assert (model.gauc(model.sets[0]), real.gauc(real.sets[0])) == (0.0, 1.0)
    assert (model.records()[-1].arithmetic, model.records()[-1].uncertified) == ("float32", 2)


@pytest.mark.parametrize("arithmetic", ["model", "float64", "real"])
def test_gates_are_bounded_in_each_arithmetic(arithmetic):
    torch = pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify
    from caveat_lab.networks.training.ccu import CCUModel
    from caveat_lab.robust import DensityRatio, Mixture

    torch.manual_seed(0)
    net = CCUModel(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)), 3)
    net.set_ratio(DensityRatio(Mixture([1.0], [[0.3] * 16], [0.1]), Mixture([1.0], [[0.5] * 16], [0.2])))
    rng = np.random.default_rng(0)
    known, strange = rng.random((30, 1, 4, 4)) * 0.6, {"a": rng.random((20, 1, 4, 4))}
    found = certify(net, inlier=known, outliers=strange, epsilon=0.05, steps=5, arithmetic=arithmetic)
    (one,) = found.sets
    assert (one.gates.attacked <= one.gates.upper).all()
    assert found.gauc(one) <= found.aauc(one) <= found.auc(one)


def test_inliers_that_are_very_sure_are_not_tied():
    # Logits (100 x, 0): a lead of 40 and 50, so -log(1 + e^-40) and -log(1 + e^-50); log-softmax gives 0 for both.
    torch = pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify

    net = torch.nn.Linear(1, 2, bias=False)
    net.weight.data.copy_(torch.tensor([[100.0], [0.0]]))
    found = certify(net, inlier=[[0.4], [0.5]], outliers={"a": [[0.45]]}, epsilon=0.0, attack=())
    np.testing.assert_allclose(found.inlier, [-math.exp(-40), -math.exp(-50)], rtol=1e-5, atol=0)
    assert found.auc(found.sets[0]) == 0.5  # above the one and below the other


def test_equal_logits_tie():
    # A flat network answers every input in [0, 1] with its bias: all scores tie, so one half.
    torch = pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU(), torch.nn.Linear(1, 10))
    net[0].weight.data.fill_(-1.0)
    net[0].bias.data.fill_(0.0)
    for _ in range(20):
        net[2].bias.data.copy_(torch.randn(10))
        found = certify(net, inlier=[[0.3], [0.9]], outliers={"a": [[0.5]]}, epsilon=0.1, attack=())
        assert found.auc(found.sets[0]) == 0.5


def test_linear_bounds_are_never_looser():
    torch = pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 12), torch.nn.ReLU(),
                              torch.nn.Linear(12, 3))  # fmt: skip
    rng = np.random.default_rng(0)
    known, strange = rng.random((40, 6)), {"a": rng.random((30, 6))}
    quick, slow = (certify(net, inlier=known, outliers=strange, epsilon=0.05, attack=(), refine=n) for n in (0, 30))
    assert (slow.sets[0].upper <= quick.sets[0].upper).all()
    assert (slow.sets[0].upper < quick.sets[0].upper - 1e-6).any()
    assert slow.gauc(slow.sets[0]) >= quick.gauc(quick.sets[0])


def test_inputs_that_cannot_be_certified():
    pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify

    with pytest.raises(InputError, match="outliers must be .*at least one"):
        certify(None, inlier=np.zeros((2, 2)), outliers={}, epsilon=0.1)
    with pytest.raises(InputError, match="epsilon must be a finite number, at least 0"):
        certify(None, inlier=np.zeros((2, 2)), outliers={"a": np.zeros((2, 2))}, epsilon=-1)
    with pytest.raises(InputError, match=r"inlier must be a non-empty batch of inputs \(n, ...\), got shape \(2,\)"):
        certify(None, inlier=np.zeros(2), outliers={"a": np.zeros((2, 2))}, epsilon=0.1)


def test_areas_come_from_the_gates_where_confidences_are_rounded_to_the_same():
    # All confidences are 1/4, gates of inliers -50 and -200. Attacked -210 and -190: three of four pairs in order.
    flat = logs(0.25, 0.25)
    gates = Gates(
        clean=np.array([-300.0, -250.0]), attacked=np.array([-210.0, -190.0]), upper=np.array([-180.0, -40.0])
    )
    one = SetCertificate("noise", clean=flat, attacked=flat, upper=flat, gates=gates)
    found = Certification("net", 0.3, 4, flat, 1.0, (one,), inlier_gate=np.array([-50.0, -200.0]))
    assert (found.auc(one), found.aauc(one), found.gauc(one)) == (1.0, 0.75, 0.25)
    assert found.band(one).value == 0.25
    assert found.records()[-1].gauc == 0.25
    wrong = replace(one, gates=replace(gates, upper=gates.attacked - 1))
    with pytest.raises(CaveatError, match="does not hold"):
        Certification("net", 0.3, 4, flat, 1.0, (wrong,), inlier_gate=np.array([-50.0, -200.0]))


def test_a_gated_classifier_is_ranked_by_its_effective_gate():
    torch = pytest.importorskip("torch")
    from caveat_lab.experiments.certification import certify
    from caveat_lab.networks.training.ccu import CCUModel
    from caveat_lab.robust import DensityRatio, Mixture

    torch.manual_seed(0)
    net = CCUModel(torch.nn.Linear(4, 3), 3)
    net.set_ratio(DensityRatio(Mixture([1.0], [[0.2] * 4], [1e-3]), Mixture([1.0], [[0.5] * 4], [0.2])))
    rng = np.random.default_rng(0)
    near, far = rng.uniform(0.5, 0.6, (20, 4)), rng.uniform(0.8, 1.0, (20, 4))  # all of them far from 0.2
    found = certify(net, inlier=near, outliers={"far": far}, epsilon=0.05, steps=10)
    (one,) = found.sets
    assert np.ptp(found.inlier) < 1e-12  # the confidence itself has only ties
    assert (found.gauc(one), found.auc(one)) == (1.0, 1.0)
    assert (one.gates.clean < one.gates.attacked).all()
    assert (one.gates.attacked <= one.gates.upper).all()


def test_attacked_rows_by_hand():
    # Inliers 0.9 and 0.6; outliers 0.2, 0.5, 0.7 with bounds 0.7, 0.95, 0.8. Only the last two were attacked: 0.5
    # stays, 0.7 reaches 0.75. AAUC of these two: 0.9 above both, 0.6 above 0.5: 3 of 4.
    one = SetCertificate("noise", clean=logs(0.2, 0.5, 0.7), upper=logs(0.7, 0.95, 0.8), attacked=logs(0.5, 0.75),
                         attacked_rows=np.array([1, 2]), zero_gradients=0.5)  # fmt: skip
    found = Certification("net", 0.3, 4, logs(0.9, 0.6), 1.0, (one,))
    assert (one.n, one.n_attacked) == (3, 2)
    assert found.auc(one) == pytest.approx(5 / 6)  # all but 0.6 against 0.7
    assert found.gauc(one) == pytest.approx(2 / 6)  # 0.9 against 0.7 and 0.8
    assert found.aauc(one) == 0.75
    same = found.sandwich(one)  # on the attacked two alone: clean 3 of 4, bounds 1 of 4
    assert (same.guaranteed, same.adversarial, same.clean, same.n_outlier) == (0.25, 0.75, 0.75, 2)
    *_, record = found.records()
    assert (record.n, record.n_attacked, record.gauc) == (3, 2, pytest.approx(2 / 6))
    with pytest.raises(CaveatError, match="does not hold"):  # 0.85 is above its bound 0.8
        replace(found, sets=(replace(one, attacked=logs(0.5, 0.85)),))


@pytest.fixture
def toy():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3))
    rng = np.random.default_rng(0)
    return net, rng.random((30, 6)), rng.random((50, 6))


def test_attacks_and_bounds_have_their_own_number_of_points(toy):
    from caveat_lab.experiments.certification import certify

    net, known, strange = toy
    how = {"inlier": known, "outliers": {"a": strange}, "epsilon": 0.1, "steps": 5}
    (one,) = certify(net, points=40, attack_points=9, **how).sets
    assert (one.n, one.n_attacked) == (40, 9)
    assert one.attacked_rows.tolist() == np.linspace(0, 39, 9).round().tolist()
    assert (one.clean[one.attacked_rows] <= one.attacked).all()
    assert (one.attacked <= one.upper[one.attacked_rows]).all()
    (full,) = certify(net, points=40, **how).sets
    assert full.attacked_rows is None
    np.testing.assert_array_equal(full.upper, one.upper)
    with pytest.raises(InputError, match="attack_points must be"):
        certify(net, attack_points=0, **how)


def test_everything_about_the_attack_can_be_set(toy, monkeypatch):
    from caveat_lab import attacks
    from caveat_lab.experiments.certification import certify

    net, known, strange = toy
    asked = []
    real = attacks.attack_confidence
    monkeypatch.setattr(attacks, "attack_confidence", lambda *given, **how: asked.append(how) or real(*given, **how))
    how = {
        "optimizers": ("apgd",), "starts": ("small", "contrast"), "steps": 4, "monotone_steps": 3, "restarts": 2,
        "tries": 7, "transfer": [net],
    }  # fmt: skip
    renamed = {"attack" if key == "optimizers" else key: value for key, value in how.items()}
    certify(net, inlier=known, outliers={"a": strange}, epsilon=0.1, points=5, **renamed)
    assert {key: asked[0][key] for key in how} == how


def test_the_attack_on_a_set_does_not_depend_on_the_other_sets(toy):
    from caveat_lab.experiments.certification import certify

    net, known, strange = toy
    how = {"inlier": known, "epsilon": 0.1, "steps": 2, "starts": ["full"], "attack": ["apgd"]}
    alone = certify(net, outliers={"b": strange}, **how).sets[0]
    after = certify(net, outliers={"a": known, "b": strange}, **how).sets[1]
    np.testing.assert_array_equal(alone.attacked, after.attacked)


def test_labels_of_another_length_are_named(toy):
    from caveat_lab.experiments.certification import certify

    net, known, strange = toy
    with pytest.raises(InputError, match="inlier and labels must have the same length"):
        certify(net, inlier=known, labels=[0, 1], outliers={"a": strange}, epsilon=0.1, attack=())
