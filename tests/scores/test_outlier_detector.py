from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from caveat import CaveatWarning, InputError, MissingExtraError, NotFittedError, Outputs
from caveat.metrics import auroc
from caveat.scores import OutlierDetector, detector, detectors
from caveat.scores.dagmm import DAGMM

ADBENCH = {  # columns of the ADBench table
    "iforest", "ocsvm", "cblof", "cof", "copod", "ecod", "hbos", "knn", "lof", "pca", "sod", "deep_svdd", "dagmm",
}  # fmt: skip
WHOLE_BATCH = {"cof", "copod", "ecod", "sod", "sos"}
QUICK = ("ocsvm", "cof", "copod", "ecod", "knn", "lof", "pca", "sod", "sos")  # no compilation, no training


@pytest.fixture(scope="module")
def sets():
    """Four blobs, and the same ones three times as wide."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 6)) * 4

    def draw(n, spread):
        return Outputs(features=centers[rng.integers(4, size=n)] + spread * rng.normal(size=(n, 6)))

    return draw(200, 1.0), draw(60, 1.0), draw(60, 3.0)


class Constant:
    """Says the same number of every row, whatever it was fitted on."""

    def __init__(self, values):
        self.values = values

    def fit(self, X):
        return self

    def decision_function(self, X):
        return np.resize(np.asarray(self.values, dtype=float), X.shape[0])


def check(name, sets):
    train, inlier, outlier = sets
    score = detector(name).fit(train)
    known, strange = score.score_together(inlier, outlier)
    assert np.isfinite(known).all()
    assert np.isfinite(strange).all()
    if name == "dagmm":  # trained for a moment, it proves nothing here; test_dagmm does
        return
    assert auroc(inlier=known, outlier=strange) > 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)  # of the separate calls
        parts = np.concatenate([score.score(inlier[:30]), score.score(inlier[30:])])
        moved = np.abs(parts - score.score(inlier)).max()
    assert (moved > 1e-6) == score.whole_batch  # what is said about batches is so


@pytest.mark.parametrize("name", QUICK)
def test_pyod_by_name(name, sets):
    pytest.importorskip("pyod")
    check(name, sets)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ADBENCH - set(QUICK)))
def test_the_rest_of_the_adbench_table(name, sets):
    pytest.importorskip("pyod")
    check(name, sets)


def test_the_whole_adbench_table_goes_by_name():
    assert {entry.name for entry in detectors()} == ADBENCH | {"sos"}
    assert {entry.name for entry in detectors() if entry.whole_batch} == WHOLE_BATCH


@pytest.mark.parametrize(
    "estimator",
    [
        IsolationForest(random_state=0),
        OneClassSVM(),
        LocalOutlierFactor(novelty=True),
        EllipticEnvelope(random_state=0),
    ],
)
def test_scikit_learn_is_turned_round(estimator, sets):
    train, inlier, outlier = sets
    score = OutlierDetector(estimator).fit(train)
    np.testing.assert_allclose(score.score(inlier), -score.estimator_.decision_function(inlier.features), rtol=1e-12)
    assert auroc(inlier=score.score(inlier), outlier=score.score(outlier)) > 0.7
    assert not score.whole_batch


def test_a_pyod_object_is_known_for_what_it_is(sets):
    ecod = pytest.importorskip("pyod.models.ecod").ECOD
    train, inlier, _ = sets
    score = OutlierDetector(ecod()).fit(train)
    assert score.whole_batch
    np.testing.assert_array_equal(score.score(inlier), detector("ecod").fit(train).score(inlier))


@pytest.mark.parametrize("name", sorted(WHOLE_BATCH))
def test_a_batch_scored_in_parts_is_a_warning(name, sets):
    if name not in ("cof", "sod"):
        pytest.importorskip("pyod")
    train, inlier, outlier = sets
    score = detector(name).fit(train)
    score.score(inlier)
    score.score(inlier[:])  # the same rows again
    with pytest.warns(CaveatWarning, match=rf"{name} judges a row by the rows .* score_together"):
        score.score(outlier)
    score.fit(train).score(outlier)  # a new beginning
    score.score_together(inlier, outlier)
    score.score_together(inlier[:30], outlier)


def test_detectors_that_judge_each_row_alone_are_scored_in_parts_without_a_word(sets):
    train, inlier, outlier = sets
    score = OutlierDetector(OneClassSVM()).fit(train)
    together = score.score_together(inlier, outlier)
    np.testing.assert_allclose(np.concatenate(together), np.concatenate([score.score(inlier), score.score(outlier)]))


def test_whole_batches_are_given_at_once_even_when_blocks_are_small(sets, monkeypatch):
    pytest.importorskip("pyod")
    train, inlier, _ = sets
    whole = detector("ecod").fit(train).score(inlier)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 512)
    np.testing.assert_array_equal(detector("ecod").fit(train).score(inlier), whole)


def test_the_given_estimator_stays_unfitted(sets):
    estimator = OneClassSVM()
    OutlierDetector(estimator).fit(sets[0])
    assert not hasattr(estimator, "support_vectors_")


def test_parameters_and_seed_reach_the_detector(sets):
    pytest.importorskip("pyod")
    assert detector("knn", n_neighbors=3).fit(sets[0]).estimator_.n_neighbors == 3
    assert detector("iforest").fit(sets[0], rng=5).estimator_.random_state == 5
    for estimator in ("dagmm", DAGMM(epochs=1)):
        params = {"epochs": 1} if estimator == "dagmm" else None
        dagmm = OutlierDetector(estimator, params).fit(sets[0], rng=5)
        weights = DAGMM(epochs=1).fit(sets[0].features, rng=5).weights_
        np.testing.assert_array_equal(dagmm.estimator_.weights_, weights)


def test_infinite_scores_count_as_the_largest_float(sets):
    score = OutlierDetector(Constant([1.0, np.inf]), larger="stranger").fit(sets[0])
    with pytest.warns(CaveatWarning, match="Constant gave 30 infinite scores of 60; they count as the largest float"):
        values = score.score(sets[1])
    assert values.max() == np.finfo(np.float64).max
    with pytest.warns(CaveatWarning, match="1 infinite scores of 1"):  # a row alone gets what it gets among others
        alone = OutlierDetector(Constant([np.inf]), larger="stranger").fit(sets[0]).score(sets[1][0])
    assert alone[0] == values.max()
    assert np.isfinite(values).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pca_of_pyod_on_a_column_without_variance():
    pytest.importorskip("pyod")
    rows = np.column_stack([np.random.default_rng(0).normal(size=(50, 1)), np.zeros((50, 2))])
    with pytest.raises(InputError, match=r"every score of pca is infinite.*Drop constant columns"):
        detector("pca").fit(Outputs(features=rows))


def test_nan_is_named(sets):
    with pytest.raises(InputError, match="score of Constant has NaN, first at row 1"):
        OutlierDetector(Constant([0.0, np.nan]), larger="stranger").fit(sets[0]).score(sets[1])


def test_an_unknown_estimator_must_say_which_way_it_points(sets):
    with pytest.raises(InputError, match="larger must be 'stranger' or 'normal' for Constant"):
        OutlierDetector(Constant([0.0])).fit(sets[0])
    values = OutlierDetector(Constant([1.0, 2.0]), larger="normal").fit(sets[0]).score(sets[1])
    np.testing.assert_array_equal(values[:2], [-1.0, -2.0])


def test_their_errors_become_one_sentence():
    pytest.importorskip("pyod")
    few = Outputs(features=np.eye(4))
    with pytest.raises(InputError, match="knn could not be fitted on 4 rows: "):
        detector("knn", n_neighbors=50).fit(few)
    score = detector("cof").fit(Outputs(features=np.random.default_rng(0).normal(size=(50, 3))))
    with pytest.raises(InputError, match="cof could not score 4 rows: "):
        score.score(Outputs(features=np.eye(4)[:, :3]))


def test_a_bad_parameter_of_ours_is_one_sentence_too(sets):
    with pytest.raises(InputError, match=r"dagmm could not be built: epochs must be .* got 0\.$"):
        detector("dagmm", epochs=0).fit(sets[0])


def test_saving_is_refused_with_the_reason(sets):
    with pytest.raises(InputError, match="a fitted OneClassSVM cannot be saved without pickle"):
        OutlierDetector(OneClassSVM()).fit(sets[0]).save("somewhere")


def test_messages(sets, monkeypatch):
    with pytest.raises(InputError, match=r"unknown detector 'ecodd'. Did you mean 'ecod'\?"):
        detector("ecodd")
    with pytest.raises(InputError, match=r"unknown parameter of detector 'dagmm' 'epoch'. Did you mean 'epochs'"):
        detector("dagmm", epoch=3).fit(sets[0])
    with pytest.raises(InputError, match=r"must have fit and .*, got a LocalOutlierFactor.*novelty"):
        OutlierDetector(LocalOutlierFactor())
    with pytest.raises(InputError, match="params belong to a detector given by name"):
        OutlierDetector(OneClassSVM(), {"nu": 0.1})
    with pytest.raises(NotFittedError, match="has not seen training data"):
        detector("ecod").score(sets[1])
    with pytest.raises(InputError, match="6 columns as in training, got 2"):
        OutlierDetector(OneClassSVM()).fit(sets[0]).score(Outputs(features=[[0.0, 1.0]]))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"detector 'ecod' needs the extra 'outlier'"):
        detector("ecod").fit(sets[0])
