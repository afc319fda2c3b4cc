"""KNN: the k-th nearest on the sphere, exactly, from stored features that are never copied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caveat import InputError, Outputs
from caveat.scores import KNN
from caveat.scores import _nearest as nearest
from caveat.scores._statistics import gather
from caveat.scores.knn import RowLengths, RowPredictions

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 60, "width": 90, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 400, "width": 16, "classes": 100},
]


def unit(row):
    length = np.sqrt(np.sum(row**2))
    return row / length if length > 0 else row


def kth_distance(query, bank, k):
    return sorted(np.sqrt(np.sum((unit(query) - unit(row)) ** 2)) for row in bank)[k - 1]


def test_by_hand():
    # On the sphere the bank is at angles 0, 0 and 90 degrees. Distances from 0: 0, 0, sqrt 2; from 180: 2, 2, sqrt 2.
    train = Outputs(features=[[1.0, 0.0], [7.0, 0.0], [0.0, 3.0]])
    queries = Outputs(features=[[5.0, 0.0], [-2.0, 0.0]])
    np.testing.assert_allclose(KNN(k=1).fit(train).score(queries), [0, np.sqrt(2)], atol=1e-15)
    np.testing.assert_allclose(KNN(k=3).fit(train).score(queries), [np.sqrt(2), 2], rtol=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 50])
def test_as_in_the_paper(shape, k, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 25}))
    expected = [kth_distance(row, train.features, k) for row in test.features]
    np.testing.assert_allclose(KNN(k=k).fit(train).score(test), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_class_scores_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 15}))
    found = KNN().fit(train).class_scores(test)
    for i, row in enumerate(test.features):
        for c in range(shape["classes"]):
            bank = train.features[train.predictions == c]
            expected = kth_distance(row, bank, 1) if len(bank) else 2.0  # nothing is further away than 2
            assert found[i, c] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 50])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_raw_distances(shape, k, kind, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 25}))
    train, test = (Outputs(features=part.features.astype(kind)) for part in (train, test))
    bank = train.features.astype(np.float64)
    expected = [np.sort(np.linalg.norm(bank - row, axis=1))[k - 1] for row in test.features.astype(np.float64)]
    np.testing.assert_allclose(KNN(k=k, normalize=False).fit(train).score(test), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_raw_class_scores_and_a_class_never_predicted(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 15}))
    found = KNN(normalize=False).fit(train).class_scores(test)
    seen = np.unique(train.predictions)
    for i, row in enumerate(test.features):
        distances = np.linalg.norm(train.features - row, axis=1)
        expected = {c: distances[train.predictions == c].min() for c in seen}
        for c in range(shape["classes"]):
            assert found[i, c] == pytest.approx(expected.get(c, max(expected.values())), rel=1e-12)


def test_raw_distances_see_the_length_of_a_row_and_far_ones_keep_their_digits():
    train = Outputs(features=np.array([[1e6, 0.0], [1e6 + 1, 0.0], [0.0, 2.0]]))
    queries = Outputs(features=np.array([[1e6 + 3, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(KNN(k=1, normalize=False).fit(train).score(queries), [2.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose(KNN(k=1).fit(train).score(queries), [0.0, 0.0], atol=1e-12)


def test_raw_distances_have_no_index():
    with pytest.raises(InputError, match="ivf"):
        KNN(index="ivf", normalize=False)


@pytest.mark.parametrize("order", ["mixed", "grouped", "nearest last", "nearest first"])
def test_tiles_and_chunks_do_not_show(order, monkeypatch):
    rng = np.random.default_rng(0)
    bank = rng.normal(size=(103, 5))
    queries = rng.normal(size=(17, 5)) + 1
    along = unit(np.ones(5)) @ bank.T / np.linalg.norm(bank, axis=1)
    place = {
        "mixed": np.arange(103),
        "grouped": np.argsort(bank[:, 0] > 0, kind="stable"),
        "nearest last": np.argsort(along),
        "nearest first": np.argsort(-along),
    }
    train = Outputs(features=bank[place[order]])
    monkeypatch.setattr(nearest, "_TILE", 10)
    monkeypatch.setattr(nearest, "_QUERIES", 4)
    for k in (1, 3, 25, 103):  # smaller than a tile, larger, and all rows
        expected = [kth_distance(row, bank, k) for row in queries]
        np.testing.assert_allclose(KNN(k=k).fit(train).score(Outputs(features=queries)), expected, rtol=1e-12)


@given(
    bank=arrays(float, st.tuples(st.integers(1, 30), st.just(3)), elements=st.integers(-2, 2)),
    queries=arrays(float, st.tuples(st.integers(1, 4), st.just(3)), elements=st.integers(-2, 2)),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_ties_and_zero_rows_are_counted_like_any_other(bank, queries, data):
    k = data.draw(st.integers(1, len(bank)))
    expected = [kth_distance(row, bank, k) for row in queries]
    found = KNN(k=k).fit(Outputs(features=bank)).score(Outputs(features=queries))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_agrees_with_scikit_learn(make_outputs):
    from sklearn.neighbors import NearestNeighbors

    train, test = make_outputs(n=3000, width=24, seed=1), make_outputs(n=1500, width=24, seed=2)
    bank, queries = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (train.features, test.features))
    distances, _ = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(bank).kneighbors(queries)
    np.testing.assert_allclose(KNN().fit(train).score(test), distances[:, -1], rtol=1e-7)


def test_agrees_with_faiss(make_outputs):
    faiss = pytest.importorskip("faiss")
    train, test = make_outputs(n=3000, width=24, seed=1), make_outputs(n=1500, width=24, seed=2)
    bank, queries = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (train.features, test.features))
    index = faiss.IndexFlatL2(bank.shape[1])
    index.add(bank.astype(np.float32))
    squared, _ = index.search(queries.astype(np.float32), 50)
    np.testing.assert_allclose(KNN().fit(train).score(test), np.sqrt(squared[:, -1]), rtol=1e-4)  # faiss is float32


def test_zero_rows_are_equally_far_from_everything():
    # A zero row stays zero: distance 1 to every unit row, 0 to another zero row.
    train = Outputs(features=[[0.0, 0.0], [3.0, 4.0]], logits=[[1.0, 0.0], [0.0, 1.0]])
    queries = Outputs(features=[[0.0, 0.0], [6.0, 8.0]])
    np.testing.assert_allclose(KNN(k=1).fit(train).score(queries), [0, 0], atol=1e-15)
    np.testing.assert_allclose(KNN(k=2).fit(train).score(queries), [1, 1], rtol=1e-15)
    assert np.isfinite(KNN(k=1).fit(train).class_scores(queries)).all()


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scale_of_the_features_does_not_matter(scale, train, inlier):
    plain = KNN().fit(train).score(inlier)
    scaled = KNN().fit(Outputs(features=train.features * scale)).score(Outputs(features=inlier.features * scale))
    np.testing.assert_allclose(scaled, plain, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_training_row_is_at_distance_zero_in_any_float_type(dtype, make_outputs):
    said = make_outputs(n=300, dtype=np.float32)
    train = Outputs(features=said.features.astype(dtype), logits=said.logits)
    # sqrt(2 - 2 cos) would be about 3e-4 here
    np.testing.assert_array_equal(KNN(k=1).fit(train).score(train), 0)
    own = KNN(k=1).fit(train).class_scores(train)[np.arange(300), train.predictions]
    np.testing.assert_array_equal(own, 0)


@pytest.mark.parametrize("apart", [1e-2, 1e-3, 1e-4])
def test_neighbors_that_are_close_together_are_told_apart_in_float32(apart):
    # The product of unit rows in float32 is off by 1e-7, and so is the squared distance: all of it at 3e-4.
    rng = np.random.default_rng(0)
    center = rng.normal(size=64)
    bank, queries = ((center + apart * rng.normal(size=(n, 64))).astype(np.float32) for n in (600, 20))
    unit_bank, unit_queries = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (bank.astype(np.float64), queries.astype(np.float64))
    )
    gaps = np.sort(np.linalg.norm(unit_queries[:, None] - unit_bank, axis=2), axis=1)
    train = Outputs(features=bank, logits=np.ones((600, 1)))  # one column: every row is of the positive class
    np.testing.assert_allclose(KNN(k=50).fit(train).score(Outputs(features=queries)), gaps[:, 49], rtol=1e-5)
    found = KNN(k=1).fit(train).class_scores(Outputs(features=queries))
    np.testing.assert_allclose(found[:, 1], gaps[:, 0], rtol=1e-5)


def test_rows_too_short_for_float32_are_not_divided_by():
    features = np.eye(3, dtype=np.float32)
    features[2] *= np.float32(1e-42)
    assert np.isfinite(KNN(k=3).fit(Outputs(features=features)).score(Outputs(features=features))).all()


def test_the_bank_is_the_training_array_itself(tmp_path, make_outputs):
    said = make_outputs(n=300)
    assert np.shares_memory(KNN().fit(said).bank_, said.features)
    said.save(tmp_path / "train")
    stored = Outputs.load(tmp_path / "train")
    score = KNN().fit(stored)
    base = score.bank_
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    np.testing.assert_array_equal(score.score(said[:9]), KNN().fit(said).score(said[:9]))


def test_more_neighbors_than_rows_is_an_error(make_outputs):
    train = make_outputs(n=20)
    with pytest.raises(InputError, match=r"k must be .* at most 20, got 50\."):
        KNN().fit(train)
    assert "at least k = 50 training rows, got 20" in KNN().missing(train=train, outputs=train)
    with pytest.raises(InputError, match="k must be a whole number"):
        KNN(k=0)


def test_class_scores_without_predictions_say_what_to_do(train, inlier):
    score = KNN().fit(Outputs(features=train.features, labels=train.labels))
    assert np.isfinite(score.score(inlier)).all()
    with pytest.raises(InputError, match="class scores of KNN need the predictions of the training outputs"):
        score.class_scores(inlier)


def test_rows_keep_their_order_over_blocks_and_parts(train, monkeypatch):
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 1000)
    wanted = [RowLengths(), RowPredictions()]
    both = gather(train[:7], wanted) + gather(train[7:], wanted)
    for found in (gather(train, wanted), both):
        np.testing.assert_allclose(
            np.concatenate(found[RowLengths()].parts), [np.sqrt(sum(row**2)) for row in train.features]
        )
        np.testing.assert_array_equal(np.concatenate(found[RowPredictions()].parts), np.argmax(train.logits, axis=1))


def test_outputs_without_predictions_have_none():
    found = gather(Outputs(features=np.eye(3)), [RowPredictions()])
    assert found[RowPredictions()].parts == []
