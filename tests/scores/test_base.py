from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from caveat import Head, InputError, Outputs
from caveat.scores import KNN, MSP, KLMatching, Mahalanobis, make


def test_fit_returns_the_score_itself(train):
    score = Mahalanobis()
    assert score.fit(train) is score


def test_a_score_without_training_data_ignores_fit(train, inlier):
    np.testing.assert_array_equal(MSP().fit(train).score(inlier), MSP().score(inlier))


def test_missing_says_what_is_lacking():
    features, logits = Outputs(features=[[1.0]]), Outputs(logits=[[1.0]])
    assert MSP().missing(train=None, outputs=features) == "needs probs"
    assert Mahalanobis().missing(train=None, outputs=features) == "needs training outputs"
    assert Mahalanobis().missing(train=features, outputs=features) == "needs labels of the training outputs"
    assert KNN(k=1).missing(train=features, outputs=logits) == "needs features"
    assert KNN(k=1).missing(train=features, outputs=features) == ""


def test_fitting_again_forgets_what_was_learned(make_outputs, inlier):
    score = Mahalanobis().fit(make_outputs(seed=7, shift=2.0))
    score.fit(make_outputs(seed=1))
    np.testing.assert_array_equal(score.score(inlier), Mahalanobis().fit(make_outputs(seed=1)).score(inlier))


def test_other_width_than_in_training(train):
    with pytest.raises(InputError, match="features must have 12 columns as in training, got 3"):
        Mahalanobis().fit(train).score(Outputs(features=np.zeros((2, 3))))


def test_memory_does_not_grow_with_n(tmp_path, monkeypatch):
    """A memory-mapped training set far larger than a block is walked, not loaded."""
    import tracemalloc

    n, width = 60_000, 64
    folder = tmp_path / "big"  # without the page of a saved folder, which has the digests of its arrays
    folder.mkdir()
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, (n, width))
    rng = np.random.default_rng(0)
    for start in range(0, n, 10_000):
        features[start : start + 10_000] = rng.normal(size=(10_000, width))
    features.flush()
    np.save(folder / "labels.npy", np.arange(n) % 100)  # each thread holds the rows of one class
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 2**18)
    train = Outputs.load(folder)
    Mahalanobis().fit(train[:1000])  # what is imported on the way is no memory of the rows
    tracemalloc.start()
    Mahalanobis().fit(train)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * n * width * 4


@pytest.mark.parametrize("score", [MSP(), KLMatching(), Mahalanobis(), KNN(k=3)], ids=lambda score: score.name)
def test_many_rows_are_scored_in_threads_to_the_same_result(score, monkeypatch):
    rng = np.random.default_rng(5)
    head = Head(rng.normal(size=(7, 24)))
    features = rng.normal(size=(5000, 24))
    labels = head.logits(features).argmax(axis=1)
    score.fit(Outputs(features=features[:500], labels=labels[:500], head=head))
    outputs = Outputs(features=features, head=head)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 2**18)
    threads = set()

    def formula(block, plain=score._score):
        threads.add(threading.get_ident())
        return plain(block)

    monkeypatch.setattr(score, "_score", formula)
    here = {threading.get_ident()}
    with threadpool_limits(1, user_api="blas"):
        alone = score.score(outputs)
    assert threads == here
    with threadpool_limits(2, user_api="blas"):
        np.testing.assert_allclose(score.score(outputs), alone, rtol=1e-12)
        assert threads > here
        threads.clear()
        score.score(outputs[:50])
    assert threads == here  # a few rows are not worth a thread


@pytest.mark.parametrize("name", ["mahalanobis", "pca_error", "knn", "vim"])
def test_arrays_in_place_of_outputs_are_refused_with_the_remedy(name, train, inlier):
    with pytest.raises(InputError, match=r"train must be caveat\.Outputs, got an array of shape .* Wrap it: Outputs\("):
        make(name).fit(train.features)
    with pytest.raises(InputError, match=r"outputs must be caveat\.Outputs"):
        make(name).fit(train).score(inlier.features)


@pytest.mark.parametrize("name", ["mahalanobis", "relative_mahalanobis", "pca_error", "neco", "residual", "vim"])
def test_features_too_large_to_be_squared_are_an_error_not_nan(name, train, inlier):
    huge = Outputs(features=inlier.features * 1e200, logits=inlier.logits, head=inlier.head)
    with pytest.raises(InputError, match=rf"the score {name} is (NaN|infinite), first at row 0\. Rescale"):
        make(name).fit(train).score(huge)
    wide = Outputs(features=train.features * 1e200, logits=train.logits, labels=train.labels, head=train.head)
    with pytest.raises(InputError, match=r"is (NaN|infinite).* Rescale"):
        make(name).fit(wide)


def test_a_label_of_2_to_the_40_does_not_ask_for_terabytes(train):
    with pytest.raises(InputError, match="Number the classes without gaps"):
        make("mahalanobis").fit(Outputs(features=train.features[:2], labels=[0, 2**40]))
