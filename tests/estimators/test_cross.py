"""wrap with cv: cross-conformal sets, CV+ and jackknife+ intervals, and alpha at predict time."""

import math
import pickle

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from caveat import InputError, NotFittedError, wrap
from caveat.conformal import SplitSets


def shuffled(load, seed=0):
    x, y = load(return_X_y=True)
    order = np.random.default_rng(seed).permutation(y.size)
    return x[order], y[order]


@pytest.fixture(scope="module")
def digits():
    x, y = shuffled(load_digits)
    return x, np.array([f"d{i}" for i in range(10)])[y]


@pytest.fixture(scope="module")
def flowers():
    x, y = shuffled(load_iris)
    return x, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def diabetes():
    return shuffled(load_diabetes)


def literal_sets(estimator, x, y, test, splitter, alpha):
    """Cross-conformal lac sets by the definition, from models that are fitted here."""
    classes = np.unique(y)
    counts = np.zeros((len(test), classes.size), dtype=int)
    for kept, held in splitter.split(x, y):
        model = clone(estimator).fit(x[kept], y[kept])
        own = model.predict_proba(x[held])[np.arange(held.size), np.searchsorted(classes, y[held])]
        for i in range(held.size):
            counts += model.predict_proba(test) >= own[i]
    return (counts + 1) / (len(y) + 1) > alpha + 1e-12


# -- against the definition and another library -----------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_sets_are_those_of_the_definition(alpha, digits):
    x, y = digits
    splitter = KFold(3, shuffle=True, random_state=1)
    estimator = LogisticRegression(C=1e-3, max_iter=300)
    model = wrap(estimator, cv=splitter, alpha=alpha).fit(x[:150], y[:150])
    expected = literal_sets(estimator, x[:150], y[:150], x[150:200], splitter, alpha)
    np.testing.assert_array_equal(model.predict_set(x[150:200]).member, expected)


@pytest.mark.parametrize("cv", ["jackknife", 5])
def test_intervals_are_those_of_the_definition(cv, diabetes):
    x, y = diabetes
    n, alpha = 59, 0.1
    model = wrap(Ridge(), cv=cv, alpha=alpha).fit(x[:n], y[:n])
    fold = model.intervals_._fold
    if cv == 5:
        assert np.bincount(fold).tolist() == [12, 12, 12, 12, 11]
    ends = []
    for k in range(fold.max() + 1):
        fitted = Ridge().fit(x[:n][fold != k], y[:n][fold != k])
        reach = np.abs(y[:n] - fitted.predict(x[:n]))[fold == k]
        middle = fitted.predict(x[n:100])[:, None]
        ends.append(np.stack([middle - reach, middle + reach]))
    low, high = np.sort(np.concatenate(ends, axis=2), axis=2)
    expected = np.column_stack([low[:, math.floor(0.1 * 60) - 1], high[:, math.ceil(0.9 * 60) - 1]])
    np.testing.assert_allclose(model.predict_interval(x[n:100]).bounds, expected, rtol=1e-10)


@pytest.mark.parametrize("cv", [KFold(5, shuffle=True, random_state=0), LeaveOneOut()], ids=["cv+", "jackknife+"])
@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.33])
def test_intervals_agree_with_mapie(cv, alpha, diabetes):
    mapie = pytest.importorskip("mapie.regression")
    x, y = diabetes
    theirs = mapie.CrossConformalRegressor(Ridge(), confidence_level=1 - alpha, cv=cv, method="plus")
    bounds = theirs.fit_conformalize(x[:120], y[:120]).predict_interval(x[120:])[1][:, :, 0]
    mine = wrap(Ridge(), cv=cv, alpha=alpha).fit(x[:120], y[:120]).predict_interval(x[120:]).bounds
    np.testing.assert_allclose(mine, bounds, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
def test_sets_agree_with_mapie(alpha, digits):
    # MAPIE 1.6 keeps a label if ceil(alpha (n - 1)) rows are as strange, the paper if floor(alpha (n + 1)) are: at
    # n = 200 these are the same number.
    mapie = pytest.importorskip("mapie.classification")
    x, y = digits
    assert math.ceil(alpha * 199 - 1e-9) == math.floor(alpha * 201 + 1e-9)
    cv, estimator = KFold(5, shuffle=True, random_state=0), LogisticRegression(C=1e-4, max_iter=300)
    theirs = mapie.CrossConformalClassifier(estimator, confidence_level=1 - alpha, cv=cv, conformity_score="lac")
    member = theirs.fit_conformalize(x[:200], y[:200]).predict_set(x[200:400], agg_scores="crossval")[1][:, :, 0]
    mine = wrap(estimator, cv=cv, alpha=alpha).fit(x[:200], y[:200]).predict_set(x[200:400])
    np.testing.assert_array_equal(mine.member, member)


# -- coverage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), LinearSVC(C=0.001), make_pipeline(StandardScaler(), LogisticRegression(C=0.01))],
    ids=["probabilities", "margins", "pipeline"],
)
@pytest.mark.parametrize("by", [None, "label"])
def test_classifier_covers(estimator, by, digits):
    x, y = digits
    model = wrap(estimator, cv=4, alpha=0.1, by=by).fit(x[:600], y[:600])
    sets = model.predict_set(x[600:])
    share = sets.coverage(np.searchsorted(model.classes_, y[600:]))
    assert share > 0.9 - 4 * math.sqrt(0.09 / 600 + 0.09 / 1197)
    assert 0.7 < sets.level < 0.8 if by is None else sets.level < 0.8
    np.testing.assert_array_equal(model.predict_p(x[600:]) > 0.1, sets.member)
    assert (model.predict(x[600:]) == y[600:]).mean() > 0.8


@pytest.mark.parametrize("cv", [4, "jackknife"])
def test_regressor_covers(cv, diabetes):
    x, y = diabetes
    low, high = (GradientBoostingRegressor(loss="quantile", alpha=q, n_estimators=10) for q in (0.1, 0.9))
    cases = [(LinearRegression(), {}), (LinearRegression(), {"scale": lambda rows: 1 + np.abs(rows[:, 0])}),
             (LinearRegression(), {"by": lambda rows: rows[:, 1] > 0})]  # fmt: skip
    for estimator, settings in [*cases, *([((low, high), {})] if cv == 4 else [])]:
        intervals = wrap(estimator, cv=cv, alpha=0.2, **settings).fit(x[:150], y[:150]).predict_interval(x[150:])
        assert intervals.coverage(y[150:]) > 0.8 - 4 * math.sqrt(0.16 / 150 + 0.16 / 292)
        assert intervals.widths.mean() < 2 * np.quantile(np.abs(y - y.mean()), 0.8)
        assert intervals.level == pytest.approx(0.6) if cv == "jackknife" else intervals.level < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("cv", [2, 5, "jackknife"])
def test_the_promise_holds_for_unstable_models(cv):
    # one neighbor and few rows: every model is another. 1 - 2 alpha is proven, and 1 - alpha seen.
    rng, alpha, trials, hits = np.random.default_rng(7), 0.2, 150 if cv == "jackknife" else 400, 0
    for _ in range(trials):
        x, y = rng.normal(size=(25, 2)), rng.permutation(np.arange(25) % 2)
        x[:, 0] += y
        model = wrap(KNeighborsClassifier(1), cv=cv, alpha=alpha).fit(x[:24], y[:24])
        hits += model.predict_set(x[24:]).covers(np.searchsorted(model.classes_, y[24:]))[0]
    assert hits / trials > 1 - alpha - 4 * math.sqrt(alpha * (1 - alpha) / trials)
    assert hits / trials > model.predict_set(x).level


# -- alpha at predict time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"cv": 3}, {}, {"by": "label"}, {"by": "cluster"}, {"delta": 0.1}, {"score": "aps"}, {"nonempty": True}],
    ids=str,
)
def test_several_alphas_give_nested_sets_and_those_of_each_alpha(settings, digits):
    x, y = digits
    rng = 3 if "score" in settings else None
    alphas = [0.4, 0.1, 0.2]

    def made(alpha):
        if "cv" in settings:
            return wrap(GaussianNB(), alpha=alpha, **settings).fit(x[:600], y[:600])
        fitted = LogisticRegression(C=1e-3, max_iter=300).fit(x[:300], y[:300])
        return wrap(fitted, alpha=alpha, **settings).calibrate(x[300:900], y[300:900], rng)

    model = made(0.3)
    answers = model.predict_set(x[900:], rng, alpha=alphas)
    assert [sets.alpha for sets in answers] == alphas
    assert (answers[1].member >= answers[2].member).all()
    assert (answers[2].member >= answers[0].member).all()
    assert answers[1].sizes.sum() > answers[0].sizes.sum()
    np.testing.assert_array_equal(model.predict_set(x[900:], rng, alpha=0.1).member, answers[1].member)
    assert model.predict_set(x[900:], rng).alpha == 0.3
    if settings.get("by") != "cluster":  # clusters are made for the alpha of calibration
        again = made(0.1).predict_set(x[900:], rng)
        np.testing.assert_array_equal(again.member, answers[1].member)
        assert (again.level, again.delta, again.caveat) == (answers[1].level, answers[1].delta, answers[1].caveat)


def test_several_alphas_share_the_draws_of_a_generator_and_use_it_up(digits):
    x, y = digits
    fitted = LogisticRegression(C=1e-3, max_iter=300).fit(x[:300], y[:300])
    model = wrap(fitted, score="aps").calibrate(x[300:900], y[300:900], 0)
    rng = np.random.default_rng(5)
    large, small = model.predict_set(x[900:], rng, alpha=[0.1, 0.2])
    assert (large.member >= small.member).all()
    first = np.random.default_rng(5)
    np.testing.assert_array_equal(model.predict_set(x[900:], first, alpha=0.2).member, small.member)
    assert rng.random() == first.random()  # the next batch draws anew


def test_several_alphas_give_nested_intervals(diabetes):
    x, y = diabetes
    for model in (wrap(Ridge(), cv=4).fit(x[:200], y[:200]),
                  wrap(Ridge().fit(x[:100], y[:100])).calibrate(x[100:200], y[100:200])):  # fmt: skip
        wide, narrow = model.predict_interval(x[200:], alpha=[0.05, 0.3])
        assert (wide.lower < narrow.lower).all()
        assert (wide.upper > narrow.upper).all()
        assert (wide.alpha, narrow.alpha, model.predict_interval(x[200:]).alpha) == (0.05, 0.3, 0.1)
        np.testing.assert_array_equal(model.predict_interval(x[200:], alpha=0.3).bounds, narrow.bounds)
        with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
            model.predict_interval(x, alpha=[0.1, 1.5])
        with pytest.raises(InputError, match="alpha must be a list with at least one entry"):
            model.predict_interval(x, alpha=[])


# -- classes, folds, containers ---------------------------------------------------------------------------------------


def test_names_of_classes_are_in_the_sets(flowers):
    x, y = flowers
    model = wrap(GaussianNB(), cv=5).fit(x[:100], y[:100])
    lists = model.predict_labels(x[100:], alpha=0.02)
    assert np.mean([name in names for name, names in zip(y[100:], lists, strict=True)]) > 0.9
    assert model.predict_set(x[100:], alpha=0.02).sizes.tolist() == [names.size for names in lists]
    assert set(np.concatenate(lists)) == {"setosa", "versicolor", "virginica"}


@pytest.mark.parametrize("estimator", [GaussianNB(), LinearSVC()], ids=["probabilities", "margins"])
def test_a_class_that_a_fold_does_not_train_on_has_probability_zero(estimator, flowers):
    x, y = flowers
    rare = np.flatnonzero(y == "virginica")[:1]
    kept = np.concatenate([rare, np.flatnonzero(y != "virginica")])
    model = wrap(estimator, cv=5, alpha=0.1).fit(x[kept], y[kept])
    assert sorted(part.classes_.size for part in model.models_) == [2, 3, 3, 3, 3]
    sets = model.predict_set(x)
    assert sets.member.shape == (150, 3)
    # the row whose class its model did not know is as strange as can be, and ranks above every label
    assert model.predict_p(x).min() >= 2 / (kept.size + 1)
    assert model.outputs(x, y).correct.mean() > 0.5


def test_training_rows_of_one_class_are_one_sentence(flowers):
    x, y = flowers
    halves = KFold(2)
    order = np.argsort(y)[:100]  # sorted by class: each half has one
    with pytest.raises(InputError, match="training rows of fold 0 hold one class only.*StratifiedKFold"):
        wrap(GaussianNB(), cv=halves).fit(x[order], y[order])
    wrap(GaussianNB(), cv=StratifiedKFold(2)).fit(x[order], y[order])


def test_folds_come_from_the_seed(digits):
    x, y = digits
    one, same, other = (wrap(GaussianNB(), cv=3).fit(x[:200], y[:200], seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.predict_p(x[200:]), same.predict_p(x[200:]))
    assert (one.predict_p(x[200:]) != other.predict_p(x[200:])).any()


def test_two_workers_fit_the_same_models(digits):
    x, y = digits
    with parallel_config("threading"):  # processes take seconds to start
        one, two = (wrap(GaussianNB(), cv=3, n_jobs=jobs).fit(x[:200], y[:200]) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict_p(x[200:]), two.predict_p(x[200:]))


def test_groups_and_random_scores_reach_the_sets(digits):
    x, y = digits
    model = wrap(GaussianNB(), cv=3, score="aps", by=lambda rows: rows.sum(axis=1) > 300, unseen="all", nonempty=True)
    model.fit(x[:400], y[:400], rng=0)
    sets = model.predict_set(x[400:], 1)
    assert (sets.sizes > 0).all()
    assert sets.coverage(np.searchsorted(model.classes_, y[400:])) > 0.85
    np.testing.assert_array_equal(model.predict_p(x[400:], 1), model.predict_p(x[400:], 1))


def test_settings_of_split_sets_reach_the_split_sets(digits):
    x, y = digits
    fitted = LogisticRegression(C=1e-4, max_iter=300).fit(x[:300], y[:300])
    joint = {"by": "label", "delta": 0.2, "joint": True}
    for settings in ({"by": "cluster"}, {"by": "label_rank"}, {"nonempty": True}, joint):
        model = wrap(fitted, alpha=0.4, **settings).calibrate(x[300:1100], y[300:1100], seed=4)
        direct = SplitSets(alpha=0.4, **settings).calibrate(model.outputs(x[300:1100], y[300:1100]), clustering=4)
        np.testing.assert_array_equal(model.predict_set(x).member, direct.predict(model.outputs(x)).member)


def test_frames_columns_and_pipelines(flowers):
    pandas = pytest.importorskip("pandas")
    x, y = flowers
    frame = pandas.DataFrame({"a": x[:, 2], "b": x[:, 3], "kind": np.where(x[:, 0] > 5.8, "long", "short")},
                             index=np.arange(150) * 7)  # fmt: skip
    from sklearn.compose import make_column_transformer

    estimator = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"), LogisticRegression(max_iter=500)
    )
    model = wrap(estimator, cv=4).fit(frame[:100], pandas.Series(y, index=frame.index)[:100])
    assert list(model.feature_names_in_) == ["a", "b", "kind"]
    assert model.predict_set(frame[100:]).coverage(np.searchsorted(model.classes_, y[100:])) > 0.75
    assert model.outputs(frame[:3]).features.shape == (3, 4)  # what the last step reads
    with pytest.warns(Warning, match="column-vector"):
        column = wrap(estimator, cv=4).fit(frame[:100], y[:100, None])
    np.testing.assert_array_equal(column.predict_p(frame), model.predict_p(frame))


def test_searches_and_outer_pipelines(flowers, diabetes):
    x, y = flowers
    grid = {"estimator__C": [0.01, 1.0], "alpha": [0.2]}
    search = GridSearchCV(wrap(LogisticRegression(max_iter=500), cv=3), grid, cv=2).fit(x, y)
    assert search.best_estimator_.alpha == 0.2
    assert search.best_params_["estimator__C"] == 1.0
    assert search.best_estimator_.predict_set(x).member.shape == (150, 3)
    inside = wrap(GridSearchCV(LogisticRegression(max_iter=500), {"C": [0.01, 1.0]}, cv=2), cv=3).fit(x, y)
    assert inside.score(x, y) > 0.9
    pipeline = make_pipeline(StandardScaler(), wrap(GaussianNB(), cv=3)).fit(x, y)
    assert pipeline.score(x, y) > 0.9
    assert pipeline[-1].predict_set(pipeline[:-1].transform(x)).n == 150
    assert cross_val_score(wrap(Ridge(), cv=3), *diabetes, cv=3).mean() > 0.2


def test_a_pickled_model_says_the_same(flowers, diabetes):
    x, y = flowers
    model = wrap(RandomForestClassifier(5, random_state=0), cv=3).fit(x, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_p(x), model.predict_p(x))
    rows, target = diabetes
    regressor = wrap(Ridge(), cv=3).fit(rows, target)
    again = pickle.loads(pickle.dumps(regressor)).predict_interval(rows)
    np.testing.assert_array_equal(again.bounds, regressor.predict_interval(rows).bounds)


def test_a_clone_is_not_fitted_and_the_estimator_given_stays_unfitted(flowers):
    x, y = flowers
    given = LogisticRegression(max_iter=500)
    model = wrap(given, cv=3).fit(x, y)
    assert not hasattr(given, "classes_")
    twin = clone(model)
    with pytest.raises(NotFittedError, match=r"not fitted\. Call fit"):
        twin.predict(x)
    with pytest.raises(NotFittedError, match=r"not calibrated\. Call fit"):
        twin.predict_set(x)
    model.set_params(estimator__C=0.5, score="aps")
    assert given.C == 0.5
    assert model.nonconformity == "aps"
    with pytest.raises(NotFittedError):  # what was learned was for other settings
        model.predict_set(x)


def test_outputs_hold_what_the_model_said(flowers, diabetes):
    x, y = flowers
    model = wrap(GaussianNB(), cv=3).fit(x, y)
    outputs = model.outputs(x[:9], y[:9])
    np.testing.assert_array_equal(outputs.probs, GaussianNB().fit(x, y).predict_proba(x[:9]))
    np.testing.assert_array_equal(model.classes_[outputs.labels], y[:9])
    np.testing.assert_array_equal(outputs.features, x[:9])
    assert model.outputs(x).labels is None
    margins = wrap(LinearSVC().fit(x, y), features=lambda rows: rows[:, :2]).outputs(x)
    assert margins.has("logits")
    assert margins.features.shape == (150, 2)
    rows, target = diabetes
    assert wrap(Ridge().fit(rows, target)).outputs(rows).features.shape == rows.shape


def test_clear_errors(flowers, diabetes):
    x, y = flowers
    fitted = GaussianNB().fit(x, y)
    with pytest.raises(InputError, match="fit needs cv"):
        wrap(fitted).fit(x, y)
    with pytest.raises(InputError, match=r"With cv, fit\(X, y\) trains and calibrates"):
        wrap(GaussianNB(), cv=3).calibrate(x, y)
    for cv in (1, 2.5, True, [3]):
        with pytest.raises(InputError, match="cv must be a whole number, at least 2"):
            wrap(GaussianNB(), cv=cv)
    with pytest.raises(InputError, match="unknown value of cv 'prefit'. Known: jackknife"):
        wrap(GaussianNB(), cv="prefit")
    with pytest.raises(InputError, match="cv = 5 folds need at least 5 rows, got n_samples = 4"):
        wrap(GaussianNB(), cv=5).fit(x[:4], ["a", "b", "a", "b"])
    with pytest.raises(InputError, match="hold out every row once"):
        wrap(GaussianNB(), cv=ShuffleSplit(3, random_state=0)).fit(x, y)
    for settings in ({"delta": 0.1}, {"by": "cluster"}, {"by": "label_rank"}):
        with pytest.raises(InputError, match="needs rows that are held out"):
            wrap(GaussianNB(), cv=3, **settings)
    with pytest.raises(InputError, match="by must be None, a name or a callable"):
        wrap(fitted, by=np.zeros(150))
    with pytest.raises(InputError, match="features must be None or a callable"):
        wrap(fitted, features=x)
    rows, target = diabetes
    with pytest.raises(InputError, match="needs rows that are held out"):
        wrap(Ridge(), cv=3, delta=0.1)
    with pytest.raises(InputError, match="by must be None or a callable"):
        wrap(Ridge().fit(rows, target), by="label")
