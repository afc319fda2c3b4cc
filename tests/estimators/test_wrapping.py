"""The wrapper: sets, p-values and intervals around scikit-learn estimators."""

import math

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
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
        predicted = model.predict_interval(x[320:])
        assert predicted.coverage(y[320:]) > 0.8 - 4 * math.sqrt(0.16 / 120 + 0.16 / 122)
        assert np.isfinite(predicted.widths).all()
    assert np.ptp(wrap(mean, alpha=0.2).calibrate(x[200:320], y[200:320]).predict_interval(x[320:]).widths) < 1e-9


def test_wrap_is_reached_from_the_top(diabetes):
    x, y = diabetes
    assert isinstance(caveat.wrap(LinearRegression().fit(x, y), alpha=0.3), caveat.estimators.ConformalRegressor)


def test_clear_errors(digits, diabetes):
    x, y = digits
    with pytest.raises(NotFittedError, match=r"LogisticRegression is not\. Fit it on training data first"):
        wrap(LogisticRegression())
    with pytest.raises(InputError, match="a fitted estimator must have fit and predict"):
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
    with pytest.raises(InputError, match=r"one column per class \(10\), got one per pair \(45\)\. For SVC set"):
        wrap(pairs).calibrate(x[200:300], y[200:300])
    rows, target = diabetes
    linear = LinearRegression().fit(rows, target)
    with pytest.raises(NotFittedError, match="not calibrated"):
        wrap(linear).predict_interval(rows)
    with pytest.raises(InputError, match="Leave scale out"):
        wrap((linear, linear), scale=linear)
    with pytest.raises(InputError, match="unknown setting 'score'"):
        wrap(linear, score="lac")
    with pytest.raises(InputError, match="unknown setting 'nonempt'. Did you mean 'nonempty'"):
        wrap(fitted, nonempt=True)
    with pytest.raises(InputError, match="quantile regressors must hold two values"):
        wrap((linear, linear, linear))


# -- scikit-learn habits ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flowers():
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    return x[order], np.array(["setosa", "versicolor", "virginica"])[y[order]]


@pytest.mark.parametrize(
    "around",
    [
        lambda svc: svc,
        lambda svc: make_pipeline(StandardScaler(), svc),
        lambda svc: GridSearchCV(make_pipeline(StandardScaler(), svc), {"svc__C": [1.0, 2.0]}, cv=2),
    ],
    ids=["alone", "pipeline", "search"],
)
def test_three_pairwise_columns_are_not_taken_for_three_classes(around, flowers):
    # three classes have three pairs, so that counting columns sees nothing
    x, y = flowers
    fitted = around(SVC(decision_function_shape="ovo")).fit(x[:50], y[:50])
    with pytest.raises(InputError, match=r"one column per class \(3\), got one per pair \(3\).*'ovr'"):
        wrap(fitted).calibrate(x[50:100], y[50:100])


def test_the_remedy_for_pairwise_columns_works_without_fitting_again(flowers):
    x, y = flowers
    fitted = SVC(decision_function_shape="ovo").fit(x[:50], y[:50])
    model = wrap(fitted.set_params(decision_function_shape="ovr")).calibrate(x[50:100], y[50:100])
    assert model.predict_set(x[100:]).sizes.mean() < 1.5


def test_two_classes_and_one_against_rest_have_no_pairs(flowers):
    x, y = flowers
    two = y != "setosa"
    fitted = SVC(decision_function_shape="ovo").fit(x[two][:50], y[two][:50])
    assert wrap(fitted).calibrate(x[two][50:], y[two][50:]).predict_p(x).shape == (150, 2)
    rest = OneVsRestClassifier(SVC(decision_function_shape="ovo")).fit(x[:50], y[:50])
    assert wrap(rest).calibrate(x[50:], y[50:]).predict_p(x).shape == (150, 3)


@pytest.mark.parametrize("wrong", ["tulip", None, 3, float("nan")])
def test_an_unknown_class_in_a_pandas_column_is_one_sentence(wrong, flowers):
    pandas = pytest.importorskip("pandas")
    x, y = flowers
    column = pandas.Series(y, dtype=object)
    model = wrap(LogisticRegression(max_iter=500).fit(x, y))
    model.calibrate(x, pandas.Series(y))
    column[7] = wrong
    with pytest.raises(InputError, match=r"classes the estimator knows, got .* at row 7"):
        model.calibrate(x, column)


def test_classes_of_another_type_are_one_sentence(flowers):
    x, y = flowers
    numbers = wrap(KNeighborsClassifier().fit(x, np.arange(150) % 3))
    with pytest.raises(InputError, match="got 'virginica' at row 0|got 'setosa' at row 0|got 'versicolor' at row 0"):
        numbers.calibrate(x, y)
    numbers.calibrate(x, (np.arange(150) % 3).astype(float))


def test_a_column_is_a_vector_and_several_outputs_are_one_sentence(flowers, diabetes):
    x, y = flowers
    model = wrap(KNeighborsClassifier().fit(x, y))
    np.testing.assert_array_equal(
        model.calibrate(x, y[:, None]).predict_p(x), wrap(model.estimator).calibrate(x, y).predict_p(x)
    )
    with pytest.raises(InputError, match=r"y must have one value per row, got shape \(150, 2\)"):
        model.calibrate(x, np.column_stack([y, y]))
    with pytest.raises(InputError, match="classifier with one output, got 2"):
        wrap(KNeighborsClassifier().fit(x, np.column_stack([y, y])))
    rows, target = diabetes
    column = wrap(LinearRegression().fit(rows, target[:, None])).calibrate(rows, target[:, None])
    np.testing.assert_allclose(column.predict(rows), LinearRegression().fit(rows, target).predict(rows))
    two = LinearRegression().fit(rows, np.column_stack([target, target]))
    with pytest.raises(InputError, match="one value per row"):
        wrap(two).calibrate(rows, target)


def test_scikit_learn_knows_what_is_wrapped(flowers, diabetes):
    (x, y), (rows, target) = flowers, diabetes
    classifier = wrap(LogisticRegression(max_iter=500).fit(x, y), alpha=0.2, score="aps")
    regressor = wrap(LinearRegression().fit(rows, target))
    assert is_classifier(classifier)
    assert not is_classifier(regressor)
    assert is_regressor(regressor)
    assert is_regressor(wrap((regressor.estimator, regressor.estimator)))
    assert classifier.score(x, y) == classifier.estimator.score(x, y)
    assert classifier.score(x, y[:, None]) == classifier.estimator.score(x, y)
    np.testing.assert_array_equal(classifier.predict(x), classifier.estimator.predict(x))
    assert regressor.score(rows, target) == pytest.approx(regressor.estimator.score(rows, target))
    with pytest.raises(InputError, match="predicts no single value"):
        wrap((regressor.estimator, regressor.estimator)).predict(rows)


def test_settings_and_clones_follow_scikit_learn(flowers, diabetes):
    (x, y), (rows, target) = flowers, diabetes
    for model, data in (
        (wrap(LogisticRegression(max_iter=500).fit(x, y), alpha=0.2), (x, y)),
        (wrap(LinearRegression().fit(rows, target), alpha=0.2), (rows, target)),
    ):
        params = model.get_params()
        assert params["alpha"] == 0.2
        assert params["estimator"] is model.estimator
        assert "estimator__fit_intercept" in params
        assert "estimator__fit_intercept" not in model.get_params(deep=False)
        twin = clone(model.calibrate(*data))
        assert type(twin) is type(model)
        assert twin.get_params(deep=False) == model.get_params(deep=False)
        assert twin.predict(data[0]).shape == (len(data[0]),)  # the estimator is still fitted
        ask = "predict_set" if hasattr(twin, "predict_set") else "predict_interval"
        with pytest.raises(NotFittedError, match="not calibrated"):
            getattr(twin, ask)(data[0])
        assert model.set_params(alpha=0.3) is model
        with pytest.raises(NotFittedError, match="not calibrated"):  # the threshold was for another alpha
            getattr(model, ask)(data[0])
        with pytest.raises(InputError, match="alpha must be"):  # as in scikit-learn, settings are checked when used
            model.set_params(alpha=7).calibrate(*data)
        model.set_params(alpha=0.3)
        with pytest.raises(InputError, match="unknown setting 'alhpa'. Did you mean 'alpha'"):
            model.set_params(alhpa=0.1)
        with pytest.raises(InputError, match="belongs to the fitted estimator"):
            model.set_params(estimator__fit_intercept=False)
        assert "alpha=0.3" in repr(model)


def test_a_seed_may_stand_for_a_generator(flowers):
    x, y = flowers
    model = wrap(LogisticRegression(max_iter=500).fit(x[:50], y[:50]), score="aps").calibrate(x[50:100], y[50:100], 0)
    expected = model.sets_.p_values(model.outputs(x[100:]), 1)
    np.testing.assert_array_equal(model.predict_p(x[100:], 1), expected)


def test_one_seed_gives_calibration_and_prediction_draws_of_their_own(flowers):
    # With the same generator behind both, u of calibration row i and of test row i would be equal.
    x, y = flowers
    fitted = LogisticRegression(max_iter=500).fit(x[:50], y[:50])
    seeded = wrap(fitted, score="aps").calibrate(x[50:], y[50:], 0)
    generated = wrap(fitted, score="aps").calibrate(x[50:], y[50:], np.random.default_rng(0))
    assert (seeded.sets_.calibration_ != generated.sets_.calibration_).any()
    assert (seeded.predict_p(x, 0) != seeded.predict_p(x, np.random.default_rng(0))).any()
