"""Split conformal sets: promises by simulation, equivalence with p-values, groups, PAC, and clear errors."""

import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import beta

from caveat import Outputs
from caveat.conformal import SplitSets, p_values
from caveat.conformal.nonconformity import NONCONFORMITY, RAPS, SAPS
from caveat.conformal.quantile import pac_rank
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.scores import make

NAMES = sorted(NONCONFORMITY)


def draw(n, rng, classes=6, sharp=1.5):
    """A model that is right about its own probabilities."""
    logits = sharp * rng.normal(size=(n, classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return Outputs(logits=logits, labels=np.minimum(labels, classes - 1))


def test_sets_by_hand():
    # 1 - p of the true labels: .1 .2 .3 .4 (four points). alpha .4: k = ceil(5 * .6) = 3, so the threshold is .3.
    calibration = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], labels=[0, 0, 1, 0])
    sets = SplitSets("lac", alpha=0.4).calibrate(calibration)
    assert sets.threshold_ == pytest.approx(0.3)
    assert sets.level_ == 3 / 5
    found = sets.predict(Outputs(probs=[[0.75, 0.25], [0.7, 0.3], [0.5, 0.5]]))
    assert found.to_dense().tolist() == [[True, False], [True, False], [False, False]]
    # p-value of .7: two of four scores (.3, .4) are at least 1 - .7, so (2 + 1) / 5
    assert sets.p_values(Outputs(probs=[[0.7, 0.3]]))[0, 0] == 3 / 5


def test_p_values_compare_with_the_true_labels_of_the_calibration_set():
    rng = np.random.default_rng(1)
    calibration, asked = draw(40, rng), draw(10, rng)
    true = 1 - calibration.probs[np.arange(40), calibration.labels]
    expected = p_values(calibration=true, test=1 - asked.probs)
    np.testing.assert_array_equal(SplitSets().calibrate(calibration).p_values(asked), expected)


def test_one_calibration_point_is_enough_at_one_half():
    sets = SplitSets(alpha=0.5).calibrate(Outputs(probs=[[0.8, 0.2]], labels=[0]))
    assert sets.threshold_ == pytest.approx(0.2)


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize("by", [None, "label", "callable"])
@pytest.mark.parametrize("name", NAMES)
def test_a_label_is_in_the_set_exactly_if_its_p_value_exceeds_alpha(name, by, randomized):
    rng = np.random.default_rng(3)
    calibration, test = draw(700, rng), draw(300, rng)
    groups = (lambda o: o.predictions % 2) if by == "callable" else by
    sets = SplitSets(name, alpha=0.2, by=groups)
    sets.calibrate(calibration, rng=np.random.default_rng(1) if randomized else None)
    seeds = (lambda: np.random.default_rng(2)) if randomized else (lambda: None)
    member = sets.predict(test, rng=seeds()).member
    np.testing.assert_array_equal(member, sets.p_values(test, rng=seeds(), smoothed=False) > 0.2)


@pytest.mark.parametrize("name", NAMES)
def test_coverage_is_the_promised_one_and_sets_are_not_silly(name):
    # Over calibration set and test point together, k / (n + 1) for a continuous score: 48 / 60 for n = 59, alpha = .2.
    rng, trials, n = np.random.default_rng(8), 300, 59
    hits, sizes = [], []
    for _ in range(trials):
        both = draw(n + 60, rng)
        sets = SplitSets(name, alpha=0.2).calibrate(both[:n], rng=rng)
        found = sets.predict(both[n:], rng=rng)
        hits.append(found.covers(both[n:].labels).mean())
        sizes.append(found.sizes.mean())
    spread = np.std(hits) / math.sqrt(trials)
    if name == "topk":  # whole ranks tie, so that it covers more
        assert np.mean(hits) > 0.8 - 4 * spread
    else:
        assert abs(np.mean(hits) - 48 / 60) < 4 * spread
    # The smallest valid sets hold about 2.1 of 6 labels here; a reversed inequality would give 4 or more.
    assert 1.9 < np.mean(sizes) < 3.3


@pytest.mark.parametrize("rule", ["aps", RAPS(penalty=0.01, k_reg=5), SAPS(weight=0.0)], ids=["aps", "raps", "saps"])
def test_a_sure_network_is_not_tied_at_a_mass_of_one(rule):
    # Nearly half of its largest probabilities are 1 in float32, and many in float64. Were their scores 1, too, sets
    # would cover 0.97 to 1, or follow the rounding of a sum.
    rng, trials, n = np.random.default_rng(12), 25, 399
    hits, same = [], []
    for _ in range(trials):
        drawn = draw(2 * n, rng, classes=10, sharp=3.0)
        wide = Outputs(logits=12 * drawn.logits, labels=drawn.labels)
        narrow = Outputs(logits=wide.logits.astype(np.float32), labels=drawn.labels)
        assert 0.3 < np.mean(narrow.probs.max(axis=1) == 1) < 0.6
        found, other = (SplitSets(rule, alpha=0.1).calibrate(both[:n]).predict(both[n:]) for both in (wide, narrow))
        hits.append(found.coverage(wide[n:].labels))
        same.append((found.member == other.member).all(axis=1).mean())
    # 360 / 400 exactly; a calibration set and a test set of n each move one trial by sqrt(2 * .09 / n)
    assert abs(np.mean(hits) - 360 / 400) < 4 * math.sqrt(2 * 0.09 / n / trials)
    assert np.mean(same) > 0.999


def test_sure_and_wrong_is_not_tied_at_a_probability_of_zero():
    # The true label has less than 1e-17 in more than a twentieth of the samples. Were 1 - p all they scored, every set
    # would hold all ten labels.
    rng, trials, n = np.random.default_rng(13), 25, 399
    hits, sizes = [], []
    for _ in range(trials):
        drawn = draw(2 * n, rng, classes=10, sharp=3.0)
        both = Outputs(logits=24 * drawn.logits, labels=drawn.labels)
        assert np.mean(both.probs[np.arange(2 * n), both.labels] < 1e-17) > 0.05
        found = SplitSets("lac", alpha=0.05).calibrate(both[:n]).predict(both[n:])
        hits.append(found.coverage(both[n:].labels))
        sizes.append(found.sizes.mean())
    assert abs(np.mean(hits) - 380 / 400) < 4 * math.sqrt(2 * 0.05 * 0.95 / n / trials)
    assert np.mean(sizes) < 5


def test_thresholds_are_told_on_the_scale_of_the_score():
    # probabilities of the true labels with those above: .9, .8, .7, .4 + .6; alpha .4: the third of them, .9
    calibration = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], labels=[0, 0, 1, 1])
    sets = SplitSets("aps", alpha=0.4).calibrate(calibration)
    assert sets.threshold_ == pytest.approx(0.9)
    assert sets.calibration_ == pytest.approx([0.7, 0.8, 0.9, 1.0])


def test_without_u_on_both_sides_saps_covers():
    # A peer drops u at test only and covers 0.573 at alpha = .3.
    rng = np.random.default_rng(5)
    both = draw(20_000, rng)
    sets = SplitSets(SAPS(weight=0.1), alpha=0.3).calibrate(both[:10_000])
    coverage = sets.predict(both[10_000:]).coverage(both[10_000:].labels)
    assert coverage > 0.7 - 4 * math.sqrt(0.21 / 10_000 * 2)


def test_smoothed_p_values_of_the_true_label_are_uniform():
    from scipy.stats import kstest

    rng = np.random.default_rng(11)
    found = []
    for _ in range(400):
        both = draw(31, rng)
        sets = SplitSets("topk", alpha=0.1).calibrate(both[:30])  # ties everywhere: only smoothing makes it exact
        found.append(sets.p_values(both[30:], rng=rng)[0, both.labels[30]])
    assert kstest(found, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("by", ["label", "group"])
def test_coverage_holds_within_every_group(by):
    # Group 1 is much harder than group 0: one threshold would cover them unequally.
    rng = np.random.default_rng(2)
    hits = {0: [], 1: []}
    marginal = {0: [], 1: []}
    for _ in range(150):
        easy, hard = draw(250, rng, classes=3, sharp=4.0), draw(250, rng, classes=3, sharp=0.5)
        logits = np.vstack([easy.logits, hard.logits])
        labels = np.concatenate([easy.labels, hard.labels])
        hardness = np.repeat([0, 1], 250)
        order = rng.permutation(500)
        both = Outputs(logits=logits[order], labels=labels[order])
        key = both.labels.clip(max=1) if by == "label" else hardness[order]
        if by == "label":
            found = SplitSets("lac", alpha=0.2, by="label").calibrate(both[:400]).predict(both[400:])
        else:
            sets = SplitSets("lac", alpha=0.2, by=key[:400]).calibrate(both[:400])
            found = sets.predict(both[400:], groups=key[400:])
        plain = SplitSets("lac", alpha=0.2).calibrate(both[:400]).predict(both[400:])
        for g in (0, 1):
            inside = key[400:] == g
            hits[g].append(found.covers(both[400:].labels)[inside].mean())
            marginal[g].append(plain.covers(both[400:].labels)[inside].mean())
    for g in (0, 1):
        assert abs(np.mean(hits[g]) - 0.8) < 0.01 + 4 * np.std(hits[g]) / math.sqrt(150)
    if by == "group":
        assert abs(np.mean(marginal[0]) - np.mean(marginal[1])) > 0.1


def test_pac_sets_fail_as_rarely_as_they_say():
    # The true miscoverage of a threshold on uniform scores is 1 - threshold.
    from caveat.conformal.quantile import pac_rank

    rng, n, alpha, delta = np.random.default_rng(0), 200, 0.1, 0.1
    k = pac_rank(n, alpha, delta)
    fails = np.mean([1 - np.sort(rng.random(n))[k - 1] > alpha for _ in range(4000)])
    assert fails < delta + 4 * math.sqrt(delta * (1 - delta) / 4000)
    assert np.mean([1 - np.sort(rng.random(n))[k - 2] > alpha for _ in range(4000)]) > delta  # one rank less breaks it
    both = draw(400, rng)
    sets = SplitSets("lac", alpha=alpha, delta=delta).calibrate(both[:200])
    plain = SplitSets("lac", alpha=alpha).calibrate(both[:200])
    assert sets.threshold_ == sets.calibration_[k - 1] > plain.threshold_
    assert "with confidence 0.9" in str(sets.predict(both[200:]))


@pytest.mark.parametrize(("n", "enough"), [(8, False), (9, True), (10, True)])
def test_too_few_samples_give_every_label_and_a_warning(n, enough):
    both = draw(n + 5, np.random.default_rng(0))
    sets = SplitSets(alpha=0.1)
    if enough:
        sets.calibrate(both[:n])
        assert math.isfinite(sets.threshold_)
        return
    with pytest.warns(CaveatWarning, match="n = 8 is too small for alpha = 0.1"):
        sets.calibrate(both[:n])
    found = sets.predict(both[n:])
    assert found.to_dense().all()
    assert "too small" in str(found)


def test_a_label_never_seen_is_always_possible():
    rng = np.random.default_rng(4)
    both = draw(400, rng, classes=4)
    calibration = both[:300][both[:300].labels != 2]
    with pytest.warns(CaveatWarning, match=r"1 of 4 groups \(2\) are too small: n = 0"):
        sets = SplitSets("aps", alpha=0.1, by="label").calibrate(calibration)
    assert sets.predict(both[300:]).to_dense()[:, 2].all()


def test_an_unseen_group_is_an_error_or_the_whole_label_set():
    rng = np.random.default_rng(4)
    both = draw(300, rng)
    groups = np.array(["north", "south"])[rng.integers(2, size=200)]
    sets = SplitSets("aps", alpha=0.1, by=groups).calibrate(both[:200])
    asked = np.array(["north", "east"] * 50)
    with pytest.raises(InputError, match=r"group 'east' at row 1 was not seen in calibration.*unseen='all'"):
        sets.predict(both[200:], groups=asked)
    lenient = SplitSets("aps", alpha=0.1, by=groups, unseen="all").calibrate(both[:200])
    found = lenient.predict(both[200:], groups=asked)
    assert (found.sizes[1::2] == 6).all()
    assert found.sizes[::2].mean() < 5
    assert (lenient.p_values(both[200:], groups=asked)[1::2] == 1).all()
    with pytest.raises(InputError, match="need groups="):
        sets.predict(both[200:])


def test_a_score_with_class_scores_gives_the_probabilities():
    rng = np.random.default_rng(6)
    both = draw(600, rng)
    # softmax(-(-log p)) is p: msp as the source must change nothing
    for name in ("lac", "raps"):
        direct = SplitSets(name, alpha=0.1).calibrate(both[:300]).predict(both[300:])
        through = SplitSets(name, alpha=0.1, source=make("msp")).calibrate(both[:300]).predict(both[300:])
        np.testing.assert_array_equal(direct.sizes, through.sizes)
    as_score = SplitSets(make("energy", temperature=2.0), alpha=0.1).calibrate(both[:300]).predict(both[300:])
    logits = Outputs(logits=both.logits / 2, labels=both.labels)
    plain = SplitSets("lac", alpha=0.1).calibrate(logits[:300]).predict(logits[300:])
    np.testing.assert_array_equal(as_score.member, plain.member)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_duplicate_of_the_calibration_point_at_the_threshold_is_covered(dtype):
    rng = np.random.default_rng(9)
    both = draw(199, rng, classes=50)
    same = Outputs(logits=both.logits.astype(dtype), labels=both.labels)
    for name in NAMES:
        sets = SplitSets(name, alpha=0.1).calibrate(same)
        alone = [sets.predict(same[i : i + 1]).covers(same.labels[i : i + 1])[0] for i in range(199)]
        # exactly the k = 180 smallest scores pass (more where they tie)
        assert np.sum(alone) == 180 if name != "topk" else np.sum(alone) >= 180
        np.testing.assert_array_equal(alone, sets.predict(same).covers(same.labels))


def test_the_layout_of_an_array_does_not_matter():
    rng = np.random.default_rng(10)
    rows = draw(400, rng, classes=300)
    columns = Outputs(logits=np.asfortranarray(rows.logits), labels=rows.labels)
    for name in NAMES:
        sets = SplitSets(name, alpha=0.3).calibrate(rows)
        np.testing.assert_array_equal(sets.p_values(columns), sets.p_values(rows))


def test_sparse_sets_say_the_same():
    rng = np.random.default_rng(1)
    both = draw(500, rng)
    sets = SplitSets("saps", alpha=0.2).calibrate(both[:300])
    dense, sparse = sets.predict(both[300:]), sets.predict(both[300:], sparse=True)
    assert isinstance(sparse.member, csr_array)
    np.testing.assert_array_equal(sparse.to_dense(), dense.member)
    np.testing.assert_array_equal(sparse.sizes, dense.sizes)
    np.testing.assert_array_equal(sparse.covers(both[300:].labels), dense.covers(both[300:].labels))
    np.testing.assert_array_equal(sparse.labels(7), dense.labels(7))
    np.testing.assert_array_equal(sparse.labels(-1), dense.labels(-1))
    assert str(sparse) == str(dense)


def test_the_same_randomization_is_demanded_on_both_sides():
    both = draw(100, np.random.default_rng(0))
    with pytest.raises(InputError, match="aps was calibrated with rng and is now asked without it"):
        SplitSets("aps").calibrate(both, rng=np.random.default_rng(0)).predict(both)
    with pytest.raises(InputError, match="aps was calibrated without rng and is now asked with it"):
        SplitSets("aps").calibrate(both).predict(both, rng=np.random.default_rng(0))
    SplitSets("lac").calibrate(both).predict(both, rng=np.random.default_rng(0))  # lac has no u to disagree on
    # rng smooths the p-values of a score that was calibrated without u: each lies below the deterministic one
    plain = SplitSets("aps").calibrate(both)
    assert (plain.p_values(both, rng=np.random.default_rng(0)) < plain.p_values(both)).all()
    with pytest.raises(InputError, match="calibrated with rng and is now asked without"):
        SplitSets("aps").calibrate(both, rng=np.random.default_rng(0)).p_values(both)


class _Broken:
    def class_scores(self, outputs):
        return np.where(np.arange(outputs.n)[:, None] == 3, np.nan, outputs.logits)


def test_clear_errors():
    both = draw(50, np.random.default_rng(0))
    for alpha, name in itertools.product((0, 1, 1.5, -0.1, float("nan")), ("alpha", "delta")):
        with pytest.raises(InputError, match=f"{name} must be strictly between 0 and 1"):
            SplitSets(**{"alpha": 0.1, name: alpha})
    with pytest.raises(InputError, match=r"unknown nonconformity score 'lax'. Did you mean 'lac'"):
        SplitSets("lax")
    with pytest.raises(InputError, match="unknown value of by"):
        SplitSets(by="class")
    with pytest.raises(InputError, match="a score that is neither a name nor a Nonconformity must have class_scores"):
        SplitSets(3)
    with pytest.raises(InputError, match="as score or as source, not both"):
        SplitSets(make("msp"), source=make("msp"))
    with pytest.raises(NotFittedError, match="Call calibrate"):
        SplitSets().predict(both)
    with pytest.raises(InputError, match="needs outputs.labels"):
        SplitSets().calibrate(Outputs(logits=both.logits))
    with pytest.raises(InputError, match="needs outputs.probs"):
        SplitSets().calibrate(Outputs(features=np.ones((3, 2)), labels=[0, 1, 1]))
    with pytest.raises(InputError, match="must have 6 classes as in calibration, got 2"):
        SplitSets().calibrate(both).predict(Outputs(logits=np.zeros((2, 2))))
    with pytest.raises(InputError, match="needs outputs.probs"):
        SplitSets().calibrate(both).predict(Outputs(features=[[1.0]]))
    with pytest.raises(InputError, match=r"must name one group per row \(50\)"):
        SplitSets(by=np.zeros(3, dtype=int)).calibrate(both)
    with pytest.raises(InputError, match="Bin real values first"):
        SplitSets(by=np.linspace(0, 1, 50)).calibrate(both)
    for by, how in ((None, "without groups"), ("label", "by label"), (lambda o: o.predictions, "by a callable")):
        sets = SplitSets(alpha=0.5, by=by).calibrate(both)
        with pytest.raises(InputError, match=f"calibrated {how} and are now asked with groups="):
            sets.predict(both, groups=np.zeros(50, dtype=int))
    with pytest.raises(InputError, match="class scores have NaN, first at row 3"):
        SplitSets(_Broken()).calibrate(both)
    with pytest.raises(InputError, match="smoothed p-values need rng"):
        SplitSets().calibrate(both).p_values(both, smoothed=True)


def test_settings_of_a_score_are_used():
    rng = np.random.default_rng(0)
    both = draw(2000, rng, classes=30, sharp=1.0)
    loose = SplitSets(RAPS(penalty=0.0), alpha=0.1).calibrate(both[:1000]).predict(both[1000:])
    aps = SplitSets("aps", alpha=0.1).calibrate(both[:1000]).predict(both[1000:])
    strict = SplitSets(RAPS(penalty=1.0, k_reg=3), alpha=0.1).calibrate(both[:1000]).predict(both[1000:])
    np.testing.assert_array_equal(loose.member, aps.member)
    assert strict.sizes.std() < aps.sizes.std() / 2


@pytest.mark.parametrize("joint", [False, True])
def test_the_confidence_is_of_each_group_or_of_all(joint):
    # The nonconformity of the true label is uniform, so that a threshold q of a label errs with probability 1 - q.
    rng, trials, alpha, delta, classes = np.random.default_rng(0), 1200, 0.2, 0.1, 4
    labels = np.repeat(np.arange(classes), 60)
    fails = np.zeros((trials, classes), dtype=bool)
    for t in range(trials):
        own = rng.random(labels.size)
        probs = np.repeat(((1 - own) / (classes - 1))[:, None], classes, axis=1)
        probs[np.arange(labels.size), labels] = own
        sets = SplitSets("lac", alpha=alpha, by="label", delta=delta, joint=joint)
        fails[t] = 1 - sets.calibrate(Outputs(probs=probs, labels=labels)).thresholds_ > alpha
    n, each = 60, delta / classes if joint else delta
    exact = beta(n - pac_rank(n, alpha, each) + 1, pac_rank(n, alpha, each)).sf(alpha)  # of one label, at most each
    assert exact <= each
    together = 1 - (1 - exact) ** classes
    assert abs(fails.mean() - exact) < 4 * np.sqrt(exact / fails.size)
    assert abs(fails.any(axis=1).mean() - together) < 4 * np.sqrt(together / trials)
    assert (together <= delta) == joint
    says = str(sets.predict(Outputs(probs=probs)))
    assert ("for all 4 groups at once." in says) == joint
    assert ("each of 4 groups by itself" in says) == (not joint)


def test_a_joint_promise_needs_delta_and_is_silent_for_one_group():
    with pytest.raises(InputError, match="joint=True shares delta"):
        SplitSets(joint=True)
    outputs = Outputs(probs=np.random.default_rng(0).dirichlet(np.ones(3), size=100), labels=np.arange(100) % 3)
    alone, joint = (SplitSets(delta=0.1, joint=joint).calibrate(outputs) for joint in (False, True))
    assert alone.threshold_ == joint.threshold_
    assert alone.caveat_ == joint.caveat_ == ""


@pytest.mark.parametrize("by", [None, "label", "label_rank", "cluster", "groups"])
@pytest.mark.parametrize("name", NAMES)
def test_without_empty_sets_only_empty_ones_change(name, by):
    rng = np.random.default_rng(14)
    both = draw(1500, rng, sharp=3.0)
    groups = both.predictions % 2
    seed = None if name in ("lac", "margin", "topk") else 3
    found = []
    for nonempty in (False, True):
        sets = SplitSets(name, alpha=0.5, by=groups[:1000] if by == "groups" else by, nonempty=nonempty)
        sets.calibrate(both[:1000], seed)
        found.append(sets.predict(both[1000:], seed, groups=groups[1000:] if by == "groups" else None))
    plain, filled = found
    empty = plain.sizes == 0
    assert (filled.sizes[empty] == 1).all()
    np.testing.assert_array_equal(filled.member[~empty], plain.member[~empty])
    assert filled.member[empty, both[1000:].predictions[empty]].all()
    assert filled.level == plain.level
    assert filled.coverage(both[1000:].labels) >= plain.coverage(both[1000:].labels)
    if name in ("lac", "saps"):
        assert empty.mean() > 0.02  # there is something to fill


def test_a_set_without_a_label_is_filled_from_the_source_too():
    both = draw(600, np.random.default_rng(6), sharp=3.0)
    direct = SplitSets(alpha=0.5, nonempty=True).calibrate(both[:300]).predict(both[300:], sparse=True)
    through = SplitSets(alpha=0.5, source=make("msp"), nonempty=True).calibrate(both[:300]).predict(both[300:])
    np.testing.assert_array_equal(direct.to_dense(), through.member)
    assert direct.sizes.min() == 1
    with pytest.raises(InputError, match="nonempty must be True or False"):
        SplitSets(nonempty=1)


def test_equal_weights_change_nothing():
    both = draw(500, np.random.default_rng(15))
    for name in NAMES:
        plain = SplitSets(name, alpha=0.2).calibrate(both[:300])
        sets = SplitSets(name, alpha=0.2).calibrate(both[:300], weights=np.full(300, 2.5))
        for weights in (np.full(200, 2.5), np.full((200, 6), 2.5)):
            np.testing.assert_array_equal(
                sets.predict(both[300:], weights=weights).member, plain.predict(both[300:]).member
            )
        np.testing.assert_allclose(
            sets.p_values(both[300:], weights=np.full(200, 2.5)), plain.p_values(both[300:]), rtol=1e-12
        )
    assert sets.effective_n_ == pytest.approx(300)
    assert sets.promise_.holds
    assert "effective n of 300.0 of 300 rows" in str(sets.predict(both[300:], weights=np.ones(200)))


@pytest.mark.parametrize("per_label", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_weighted_set_is_where_the_weighted_p_value_exceeds_alpha(name, per_label):
    rng = np.random.default_rng(16)
    both, seed = draw(900, rng), 4
    weights = rng.exponential(size=(300, 6) if per_label else 300)
    sets = SplitSets(name, alpha=0.2).calibrate(both[:600], seed, weights=rng.exponential(size=600))
    member = sets.predict(both[600:], seed, weights=weights).member
    np.testing.assert_array_equal(member, sets.p_values(both[600:], seed, weights=weights, smoothed=False) > 0.2)
    assert 0.1 < member.mean() < 0.9


def test_weights_with_a_small_effective_n_promise_nothing():
    both = draw(100, np.random.default_rng(17))
    weights = np.full(100, 1e-6)
    weights[:5] = 1
    with pytest.warns(CaveatWarning, match=r"Nothing can be promised.*effective n of 5.0 of 100 rows"):
        sets = SplitSets(alpha=0.1).calibrate(both, weights=weights)
    assert not sets.promise_.holds
    found = sets.predict(both, weights=np.ones(100))
    assert found.level == 0
    assert found.member.all()  # each test point holds more than a tenth of the weight
    assert "Nothing can be promised" in str(found)


def test_clear_errors_about_weights():
    both = draw(50, np.random.default_rng(0))
    weighted, plain = SplitSets().calibrate(both, weights=np.ones(50)), SplitSets().calibrate(both)
    with pytest.raises(InputError, match="calibrated with weights and are now asked without"):
        weighted.predict(both)
    with pytest.raises(InputError, match="calibrated without weights and are now asked with"):
        plain.predict(both, weights=np.ones(50))
    with pytest.raises(InputError, match=r"weights must have shape \(50,\) or \(50, 6\), got \(6,\)"):
        weighted.predict(both, weights=np.ones(6))
    with pytest.raises(InputError, match="weights must be 0 or larger"):
        weighted.predict(both, weights=-np.ones(50))
    with pytest.raises(InputError, match="outputs and weights must have the same length"):
        SplitSets().calibrate(both, weights=np.ones(3))
    for settings in ({"by": "label"}, {"delta": 0.1}):
        with pytest.raises(InputError, match="weights need by=None and delta=None"):
            SplitSets(**settings).calibrate(both, weights=np.ones(50))


@pytest.mark.parametrize(
    "settings",
    [{}, {"score": "aps"}, {"by": "label"}, {"by": "label_rank"}, {"by": (0, 1) * 150}, {"delta": 0.1}],
    ids=lambda settings: str(settings)[:30],
)
def test_another_alpha_is_the_same_as_calibrating_with_it(settings):
    both = draw(300, np.random.default_rng(18))
    groups = {"groups": settings["by"]} if isinstance(settings.get("by"), tuple) else {}
    sets = SplitSets(**settings, alpha=0.1).calibrate(both)
    moved, again = sets.at(0.25), SplitSets(**settings, alpha=0.25).calibrate(both)
    here, there = moved.predict(both, **groups), again.predict(both, **groups)
    np.testing.assert_array_equal(here.member, there.member)
    assert (here.alpha, here.level, here.caveat, here.delta) == (0.25, there.level, there.caveat, there.delta)
    np.testing.assert_array_equal(moved.p_values(both, **groups), again.p_values(both, **groups))
    assert sets.alpha == 0.1
    if "label_rank" not in settings.values():  # there, alpha also decides which ranks are left out
        assert (sets.predict(both, **groups).member >= here.member).all()


def test_another_alpha_warns_where_rows_are_too_few_and_needs_a_calibration():
    sets = SplitSets(alpha=0.1).calibrate(draw(20, np.random.default_rng(19)))
    with pytest.warns(CaveatWarning, match="n = 20 is too small for alpha = 0.01"):
        assert math.isinf(sets.at(0.01).threshold_)
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        sets.at(1)
    with pytest.raises(NotFittedError, match="no threshold yet"):
        SplitSets().at(0.2)
    with pytest.raises(InputError, match="sets with weights have one alpha"):
        SplitSets().calibrate(draw(20, np.random.default_rng(19)), weights=np.ones(20)).at(0.3)
