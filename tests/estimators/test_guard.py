"""wrap with a guard: the OOD flag, the verdicts, and the promise that the flag keeps."""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from caveat import CaveatWarning, Guard, InputError, NotFittedError, wrap
from caveat.scores import Mahalanobis

PIPELINE = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    return x[order], np.array([f"d{i}" for i in range(10)])[y[order]]


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(1).uniform(0, 16, size=(100, 64))


@pytest.mark.parametrize("score", ["mahalanobis", "msp", ["mahalanobis", "msp"]], ids=str)
@pytest.mark.parametrize("how", ["cv", "split", "split with train"])
def test_the_flag_keeps_its_promise(score, how, digits, noise):
    x, y = digits
    guard = Guard(score, sets=None, false_alarm=0.1, delta=0.05)
    if how == "cv":
        model = wrap(PIPELINE, cv=3, guard=guard).fit(x[:1000], y[:1000])
    else:
        train = (x[:400], y[:400]) if how == "split with train" else None
        model = wrap(PIPELINE.fit(x[:400], y[:400]), guard=guard).calibrate(x[400:1000], y[400:1000], train=train)
    assert model.guard_.promises[0].holds
    assert model.is_outlier(x[1000:]).mean() < 0.1 + 3 * math.sqrt(0.09 / 797)
    if score == "mahalanobis":
        assert model.is_outlier(noise).all()
    assert not hasattr(guard, "promises_")  # a copy was fitted


@pytest.mark.parametrize(
    ("how", "score", "rows"),
    [("cv", "msp", 500), ("cv", "mahalanobis", 500), ("split", "msp", 600), ("split", "mahalanobis", 300),
     ("split with train", "mahalanobis", 600)],
)  # fmt: skip
def test_no_row_both_trains_and_calibrates_the_flag(how, score, rows, digits):
    x, y = digits
    guard = Guard(score, sets=None)
    if how == "cv":
        model = wrap(PIPELINE, cv=3, guard=guard).fit(x[:1000], y[:1000])
        assert model.guard_estimator_[0].n_samples_seen_ == 500
    else:
        train = (x[:400], y[:400]) if how == "split with train" else None
        model = wrap(PIPELINE.fit(x[:400], y[:400]), guard=guard).calibrate(x[400:1000], y[400:1000], train=train)
    assert model.guard_.promises[0].n == rows


def test_false_alarms_of_many_models_are_what_was_promised():
    # With probability 1 - delta over the data, at most false_alarm of new rows are flagged. An overconfident model
    # would break it, were its own training rows calibration rows.
    rng, trials, broken = np.random.default_rng(3), 60, 0
    x_new, y_new = rng.normal(size=(2000, 8)), rng.integers(2, size=2000)
    x_new[:, 0] += y_new
    for seed in range(trials):
        x, y = rng.normal(size=(200, 8)), rng.integers(2, size=200)
        x[:, 0] += y
        model = wrap(GaussianNB(), cv=3, guard=Guard("msp", sets=None, false_alarm=0.2, delta=0.1)).fit(x, y, seed=seed)
        broken += model.is_outlier(x_new).mean() > 0.2
    assert broken / trials < 0.1 + 4 * math.sqrt(0.09 / trials)
    assert broken / trials > 0  # the bound is exact, not loose


@pytest.mark.parametrize("guard", [True, "mahalanobis", Mahalanobis(), ["mahalanobis"]], ids=str)
def test_a_score_stands_for_a_guard_with_it(guard, digits, noise):
    x, y = digits
    model = wrap(PIPELINE, cv=3, guard=guard).fit(x[:1000], y[:1000])
    expected = wrap(PIPELINE, cv=3, guard=Guard("mahalanobis", sets=None)).fit(x[:1000], y[:1000])
    for rows in (x[1000:], noise):
        np.testing.assert_array_equal(model.verdicts(rows).kind, expected.verdicts(rows).kind)
    assert clone(model).guard is not None


def test_no_guard_by_false(digits):
    x, y = digits
    with pytest.raises(InputError, match="has no guard"):
        wrap(PIPELINE, cv=3, guard=False).fit(x[:300], y[:300]).is_outlier(x)


def test_verdicts_have_the_sets_of_the_wrapper(digits, noise):
    x, y = digits
    model = wrap(PIPELINE, cv=3, alpha=0.2, guard=Guard("mahalanobis", sets=None)).fit(x[:1000], y[:1000])
    verdicts = model.verdicts(x[1000:])
    np.testing.assert_array_equal(verdicts.sets.member, model.predict_set(x[1000:]).member)
    np.testing.assert_array_equal(verdicts.outliers, model.is_outlier(x[1000:]))
    np.testing.assert_array_equal(model.classes_[verdicts.predictions], model.predict(x[1000:]))
    empty = verdicts.sets.sizes == 0
    assert empty.any()
    np.testing.assert_array_equal(verdicts.kind == "abstain", empty & ~verdicts.outliers)
    assert (model.verdicts(noise).kind == "outlier").all()


def test_a_guard_with_gates_of_its_own_answers_by_itself(digits):
    x, y = digits
    guard = Guard("mahalanobis", sets="lac", risk=0.1)
    model = wrap(PIPELINE.fit(x[:500], y[:500]), guard=guard).calibrate(
        x[500:1200], y[500:1200], train=(x[:500], y[:500])
    )
    verdicts = model.verdicts(x[1200:])
    expected = model.guard_(model.outputs(x[1200:]))
    np.testing.assert_array_equal(verdicts.kind, expected.kind)
    assert [promise.what for promise in model.guard_.promises] == [
        "false alarms",
        "errors among the accepted",
        "coverage",
    ]
    right = model.predict(x[1200:]) == y[1200:]
    assert 1 - right[verdicts.accepted].mean() < 0.1


def test_the_guard_reads_features_by_a_callable(digits, noise):
    x, y = digits
    model = wrap(PIPELINE, cv=3, guard=Guard("knn", sets=None), features=lambda rows: rows[:, 20:40])
    model.fit(x[:1000], y[:1000])
    assert model.outputs(x[:5]).features.shape == (5, 20)
    before = model.is_outlier(noise)
    spoiled = noise.copy()
    spoiled[:, :20] = 0
    np.testing.assert_array_equal(model.is_outlier(spoiled), before)


@pytest.mark.parametrize("how", ["cv", "split"])
def test_a_regressor_has_a_flag_too(how):
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(2).permutation(442)
    x, y = x[order], y[order]
    guard = Guard("mahalanobis", sets=None, false_alarm=0.1)
    if how == "cv":
        model = wrap(Ridge(), cv=3, guard=guard).fit(x[:300], y[:300])
    else:
        model = wrap(Ridge().fit(x[:100], y[:100]), guard=guard)
        model.calibrate(x[100:300], y[100:300], train=(x[:100], y[:100]))
    assert model.is_outlier(x[300:]).mean() < 0.1 + 3 * math.sqrt(0.09 / 142)
    assert model.is_outlier(-3 * x[300:]).mean() > 0.9
    assert len(model.verdicts(x)) == 442
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.is_outlier(x), model.is_outlier(x))


def test_clear_errors(digits):
    x, y = digits
    with pytest.raises(InputError, match="mahalanobi.*Did you mean 'mahalanobis'"):
        wrap(PIPELINE, cv=3, guard="mahalanobi")
    model = wrap(PIPELINE, cv=3).fit(x[:300], y[:300])
    with pytest.raises(InputError, match="has no guard"):
        model.is_outlier(x)
    with pytest.raises(NotFittedError, match="not calibrated"):
        wrap(PIPELINE, cv=3, guard=Guard("msp")).is_outlier(x)
    with pytest.raises(InputError, match="Energy needs outputs.logits"):  # a pipeline gives probabilities
        wrap(PIPELINE, cv=3, guard=Guard("energy", sets=None)).fit(x[:300], y[:300])
    words = np.array([["a"], ["b"]] * 20)
    with pytest.raises(InputError, match="X must be finite numbers for the guard of a regressor"):
        wrap(make_pipeline(OneHotEncoder(), Ridge()), cv=2, guard=Guard("knn", sets=None)).fit(words, np.arange(40.0))
    with pytest.warns(CaveatWarning, match="Nothing can be promised about false alarms"):
        wrap(GaussianNB(), cv=2, guard=Guard("msp", sets=None)).fit(x[:60], y[:60])
