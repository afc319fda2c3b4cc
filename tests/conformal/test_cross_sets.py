"""Cross-conformal sets: a hand-worked case, a literal reference, nestedness, simulated coverage, messages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import CaveatWarning, InputError, NotFittedError, Outputs
from caveat._internal.rounding import to_digits
from caveat.conformal import APS, CrossSets, SplitSets


def rows(n, classes=3, seed=0, models=4):
    """Labels, probabilities of each model, and the fold of each row."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    logits = rng.normal(size=(models, n, classes)) + 2 * np.eye(classes)[labels]
    probs = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    probs = probs.round(2) + (1 - probs.round(2).sum(axis=2, keepdims=True)) / classes
    return labels, to_digits(probs), rng.permutation(n) % models


def calibrated(n=60, seed=0, test=15, groups=None, **settings):
    labels, probs, fold = rows(n + test, seed=seed)
    own = probs[fold[:n], np.arange(n)]
    sets = CrossSets(**settings).calibrate(Outputs(probs=own, labels=labels[:n]), fold[:n])
    return sets, own, labels[:n], fold[:n], [Outputs(probs=part[n:]) for part in probs]


def literal(own, labels, fold, by_model, score, group=None, test_group=None, by_label=False):
    """P-values by the formula, one comparison at a time."""
    ones = np.ones(1)
    a = [score.of_all(own[i : i + 1], ones)[0, labels[i]] for i in range(labels.size)]
    p = np.empty((by_model[0].n, own.shape[1]))
    for j in range(p.shape[0]):
        by_fold = [score.of_all(part.probs[j : j + 1], ones)[0] for part in by_model]
        for y in range(p.shape[1]):
            peers = [
                i for i in range(labels.size)
                if (not by_label or labels[i] == y) and (group is None or group[i] == test_group[j])
            ]  # fmt: skip
            p[j, y] = (1 + sum(a[i] >= by_fold[fold[i]][y] for i in peers)) / (1 + len(peers))
    return p


def test_two_folds_by_hand():
    held_out = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], labels=[0, 0, 1, 0])
    sets = CrossSets(alpha=0.4).calibrate(held_out, folds=["a", "a", "b", "b"])
    by_model = [Outputs(probs=[[0.85, 0.15]]), Outputs(probs=[[0.5, 0.5]])]
    # Scores .1 .2 | .3 .6. Label 0: .15 meets .2 and .5 meets .6, 2 + 1 of 5. Label 1: only .5 meets .6, 1 + 1 of 5.
    np.testing.assert_allclose(sets.p_values(by_model), [[0.6, 0.4]])
    assert sets.predict(by_model).labels(0).tolist() == [0]  # p > alpha, strictly
    assert sets.at(0.39).predict(by_model).labels(0).tolist() == [0, 1]


@pytest.mark.parametrize("score", ["lac", "aps", "margin", "topk"])
@pytest.mark.parametrize("by", [None, "label", "groups"])
def test_p_values_are_those_of_the_formula(score, by):
    group, test_group = np.array(["x", "y"])[np.arange(60) % 2], np.array(["y", "x", "y"])[np.arange(15) % 3]
    settings = {"by": group} if by == "groups" else {"by": by}
    sets, own, labels, fold, by_model = calibrated(score=score, alpha=0.2, **settings)
    told = {"groups": test_group} if by == "groups" else {}
    expected = literal(own, labels, fold, by_model, SplitSets(score).nonconformity.fine, by_label=by == "label",
                       **({"group": group, "test_group": test_group} if told else {}))  # fmt: skip
    np.testing.assert_allclose(sets.p_values(by_model, **told), expected, rtol=1e-12)
    np.testing.assert_array_equal(sets.predict(by_model, **told).member, expected > 0.2 + 1e-12)


def test_small_blocks_give_the_same(monkeypatch):
    group, test_group = np.arange(60) % 2, np.arange(15) % 2
    usual = [calibrated(by=by)[0].p_values(calibrated()[4], **({"groups": test_group} if by is group else {}))
             for by in (None, "label", group)]  # fmt: skip
    monkeypatch.setattr("caveat.conformal._probabilities._CACHE_BYTES", 100)
    for by, expected in zip((None, "label", group), usual, strict=True):
        sets, *_, by_model = calibrated(by=by)
        told = {"groups": test_group} if by is group else {}
        np.testing.assert_array_equal(sets.p_values(by_model, **told), expected)


@given(seed=st.integers(0, 10**6), small=st.floats(0.02, 0.45), step=st.floats(0.0, 0.5))
def test_a_smaller_alpha_gives_a_larger_set(seed, small, step):
    sets, *_, by_model = calibrated(seed=seed)
    large, narrow = (sets.at(alpha).predict(by_model).member for alpha in (small, small + step))
    assert (large >= narrow).all()


def test_another_alpha_is_the_same_as_calibrating_with_it():
    sets, *_, by_model = calibrated(alpha=0.1)
    again = calibrated(alpha=0.3)[0]
    there = sets.at(0.3)
    np.testing.assert_array_equal(there.predict(by_model).member, again.predict(by_model).member)
    assert (there.level_, there.caveat_, sets.alpha) == (again.level_, again.caveat_, 0.1)


def test_nonempty_adds_the_label_with_the_largest_mean_probability():
    sets, *_, by_model = calibrated(alpha=0.7)
    full, *_ = calibrated(alpha=0.7, nonempty=True)
    before, after = sets.predict(by_model), full.predict(by_model)
    empty = before.sizes == 0
    assert empty.any()
    assert (after.sizes == np.maximum(before.sizes, 1)).all()
    top = np.mean([part.probs for part in by_model], axis=0).argmax(axis=1)
    assert after.member[empty, top[empty]].all()


def test_the_result_says_what_is_proven():
    sets, *_, by_model = calibrated(n=100, alpha=0.1)
    predicted = sets.predict(by_model)
    assert predicted.level == sets.level_ == pytest.approx(1 - 2 * (10 + 3) / 104)
    assert "is proven for any model" in str(predicted)


def nearest_mean_coverage(n, folds, alpha, trials, rng, **settings):
    """Share of covered test rows, one per trial, of nearest-mean models of three Gaussian classes."""
    means, hits = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]]), 0
    for _ in range(trials):
        labels = np.concatenate([np.tile(np.arange(3), 2 * folds), rng.integers(3, size=n + 1 - 6 * folds)])
        labels = rng.permutation(labels)
        x, fold = means[labels] + rng.normal(size=(n + 1, 2)), rng.permutation(n) % folds

        def probs_without(k, x=x, labels=labels, fold=fold):
            kept = np.append(fold != k, False)
            centers = np.array([x[kept & (labels == c)].mean(axis=0) if (kept & (labels == c)).any() else [9.0, 9.0]
                                for c in range(3)])  # fmt: skip
            value = np.exp(-((x[:, None] - centers) ** 2).sum(axis=2) / 2) + 1e-300
            return value / value.sum(axis=1, keepdims=True)

        probs = np.array([probs_without(k) for k in range(folds)])
        sets = CrossSets(alpha=alpha, **settings)
        sets.calibrate(Outputs(probs=probs[fold, np.arange(n)], labels=labels[:n]), fold)
        predicted = sets.predict([Outputs(probs=part[n:]) for part in probs])
        hits += predicted.covers(labels[n:])[0]
    return hits / trials, sets.level_


@pytest.mark.parametrize(("n", "folds"), [(39, 2), (39, 5)])
def test_coverage_is_what_is_typical_and_above_what_is_proven(n, folds):
    trials, alpha = 700, 0.2
    share, proven = nearest_mean_coverage(n, folds, alpha, trials, np.random.default_rng(n + folds))
    assert share > 1 - alpha - 4 * np.sqrt(alpha * (1 - alpha) / trials)
    assert share > proven
    assert share < 1 - alpha + 1 / n + 0.08  # not by sets of everything


def test_randomized_scores_are_randomized_on_both_sides():
    labels, probs, fold = rows(60)
    own, by_model = Outputs(probs=probs[fold, np.arange(60)], labels=labels), [Outputs(probs=p) for p in probs]
    sets = CrossSets("aps").calibrate(own, fold, rng=0)
    assert (
        sets.predict(by_model, rng=0).sizes.mean()
        < CrossSets("aps").calibrate(own, fold).predict(by_model).sizes.mean()
    )
    np.testing.assert_array_equal(sets.p_values(by_model, rng=3), sets.p_values(by_model, rng=3))
    with pytest.raises(InputError, match="calibrated with rng and is now asked without"):
        sets.predict(by_model)
    with pytest.raises(InputError, match="calibrated without rng and is now asked with"):
        CrossSets(APS()).calibrate(own, fold).predict(by_model, rng=0)


def test_smoothed_p_values_are_at_most_the_deterministic_ones():
    sets, *_, by_model = calibrated()
    assert (sets.p_values(by_model, rng=1) <= sets.p_values(by_model)).all()


def test_a_group_that_no_row_has():
    sets, *_, by_model = calibrated(by=np.arange(60) % 2)
    with pytest.raises(InputError, match="group 7 at row 0 was not seen"):
        sets.predict(by_model, groups=np.full(15, 7))
    everything = calibrated(by=np.arange(60) % 2, unseen="all")[0]
    assert everything.predict(by_model, groups=np.full(15, 7)).member.all()
    assert (everything.p_values(by_model, groups=np.full(15, 7)) == 1).all()


def test_too_few_rows_give_every_label_with_a_warning():
    with pytest.warns(CaveatWarning, match="n = 6 is too small"):
        sets, *_, by_model = calibrated(n=6)
    predicted = sets.predict(by_model)
    assert predicted.member.all()
    assert predicted.level == 1


def test_clear_errors():
    sets, own, _, fold, by_model = calibrated()
    with pytest.raises(NotFittedError, match="seen no rows"):
        CrossSets().predict(by_model)
    with pytest.raises(NotFittedError, match="seen no rows"):
        CrossSets().at(0.2)
    with pytest.raises(InputError, match=r"one entry per fold \(4\), got 3"):
        sets.predict(by_model[:3])
    with pytest.raises(InputError, match="one entry per fold"):
        sets.predict(by_model[0])
    with pytest.raises(InputError, match="same number of classes, got 2 and 3"):
        sets.predict([Outputs(probs=[[0.5, 0.5]])] * 4)
    with pytest.raises(InputError, match="same length"):
        sets.predict([*by_model[:3], by_model[3][:2]])
    with pytest.raises(InputError, match="groups"):
        sets.predict(by_model, groups=np.zeros(15, dtype=int))
    with pytest.raises(InputError, match="unknown value of by 'cluster'"):
        CrossSets(by="cluster")
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        CrossSets(alpha=1)
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        sets.at(0)
    with pytest.raises(InputError, match="score must be the name"):
        CrossSets(3)
    with pytest.raises(InputError, match="labels"):
        CrossSets().calibrate(Outputs(probs=own), fold)


@pytest.mark.parametrize("rng", [None, 0])
def test_p_values_before_calibration_say_what_to_call(rng):
    outputs = Outputs(logits=np.zeros((2, 3)))
    with pytest.raises(NotFittedError, match="calibrate"):
        CrossSets().p_values([outputs], rng)
