"""The wrapper: sets, p-values and intervals around scikit-learn estimators."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import caveat
from caveat.errors import InputError, NotFittedError
from caveat.estimators import wrap


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    names = np.array([f"d{i}" for i in range(10)])
    return x[order], names[y[order]]


@pytest.fixture(scope="module")
def diabetes():
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(1).permutation(y.size)
    return x[order], y[order]


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, C=0.01)),
        KNeighborsClassifier(5),
        LinearSVC(C=0.001),
    ],
    ids=["pipeline", "knn", "svc"],
)
def test_classifier_covers(estimator, digits):
    x, y = digits
    model = wrap(estimator.fit(x[:500], y[:500]), alpha=0.1).calibrate(x[500:1100], y[500:1100])
    sets = model.predict_set(x[1100:])
    truth = np.searchsorted(model.classes_, y[1100:])
    assert sets.coverage(truth) > 0.9 - 4 * math.sqrt(0.09 / 600 + 0.09 / 700)
    assert sets.sizes.mean() < 3
    np.testing.assert_array_equal(model.predict_p(x[1100:]) > 0.1, sets.member)
    assert set(model.predict_labels(x[1100:1101])[0]) <= set(model.classes_)


def test_binary_margins_become_two_columns(digits):
    x, y = digits
    two = np.isin(y, ["d3", "d8"])
    x, y = x[two], y[two]
    model = wrap(LinearSVC(C=0.001).fit(x[:150], y[:150]), alpha=0.1).calibrate(x[150:250], y[150:250])
    assert model.predict_p(x[250:]).shape[1] == 2
    assert (model.predict_p(x[250:]).argmax(axis=1) == (y[250:] == "d8")).mean() > 0.9


def test_settings_reach_the_sets(digits):
    x, y = digits
    fitted = LogisticRegression(max_iter=2000, C=0.001).fit(x[:500], y[:500])
    rng = np.random.default_rng
    aps = wrap(fitted, score="aps", alpha=0.2, by=lambda rows: rows.sum(axis=1) > 300)
    aps.calibrate(x[500:1100], y[500:1100], rng(0))
    assert aps.sets_.grouped_.names.tolist() == [False, True]
    assert aps.predict_set(x[1100:], rng(1)).alpha == 0.2
    assert wrap(fitted, delta=0.05).calibrate(x[500:1100], y[500:1100]).predict_set(x[1100:]).delta == 0.05
    by_label = wrap(fitted, by="label").calibrate(x[500:], y[500:])
    assert by_label.sets_.thresholds_.shape == (10,)


def test_regressor_covers(diabetes):
    x, y = diabetes
    low, high = (
        GradientBoostingRegressor(loss="quantile", alpha=q, n_estimators=50).fit(x[:200], y[:200]) for q in (0.1, 0.9)
    )
    mean = LinearRegression().fit(x[:200], y[:200])
    hard = LinearRegression().fit(x[:200], np.abs(y[:200] - mean.predict(x[:200])))
    for estimator, settings in (
        (mean, {}),
        (mean, {"scale": lambda rows: 1 + np.abs(rows[:, 0])}),
        (mean, {"scale": hard}),
        (mean, {"by": lambda rows: rows[:, 1] > 0}),
        ((low, high), {}),
    ):
        model = wrap(estimator, alpha=0.2, **settings).calibrate(x[200:320], y[200:320])
        found = model.predict_interval(x[320:])
        assert found.coverage(y[320:]) > 0.8 - 4 * math.sqrt(0.16 / 120 + 0.16 / 122)
        assert np.isfinite(found.widths).all()
    assert np.ptp(wrap(mean, alpha=0.2).calibrate(x[200:320], y[200:320]).predict_interval(x[320:]).widths) < 1e-9


def test_wrap_is_reached_from_the_top(diabetes):
    x, y = diabetes
    assert isinstance(caveat.wrap(LinearRegression().fit(x, y), alpha=0.3), caveat.estimators.ConformalRegressor)


def test_clear_errors(digits, diabetes):
    x, y = digits
    with pytest.raises(NotFittedError, match=r"LogisticRegression is not\. Fit it on training data first"):
        wrap(LogisticRegression())
    with pytest.raises(InputError, match="wrap takes a fitted scikit-learn estimator, got list"):
        wrap([1, 2])
    with pytest.raises(InputError, match="wrap takes a classifier or a regressor, got KMeans"):
        wrap(KMeans(2, n_init=1).fit(x[:50]))
    fitted = KNeighborsClassifier(3).fit(x[:200], y[:200])
    with pytest.raises(InputError, match="y must hold classes the estimator knows, got 'zero' at row 1"):
        wrap(fitted).calibrate(x[:2], ["d1", "zero"])
    with pytest.raises(NotFittedError, match="not calibrated"):
        wrap(fitted).predict_set(x)
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        wrap(fitted, alpha=2)
    pairs = SVC(decision_function_shape="ovo").fit(x[:200], y[:200])
    with pytest.raises(InputError, match=r"one column per class \(10\), got 45\. For SVC choose"):
        wrap(pairs).calibrate(x[200:300], y[200:300])
    rows, target = diabetes
    linear = LinearRegression().fit(rows, target)
    with pytest.raises(NotFittedError, match="not calibrated"):
        wrap(linear).predict_interval(rows)
    with pytest.raises(InputError, match="Leave scale out"):
        wrap((linear, linear), scale=linear)
    with pytest.raises(InputError, match="pair of quantile regressors, got 3"):
        wrap((linear, linear, linear))
