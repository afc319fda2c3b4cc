"""Neighbors in shards: the k smallest of all shards are the k nearest of the whole bank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import Outputs
from caveat.errors import InputError
from caveat.scale import knn_scores
from caveat.scale.neighbors import Neighbors
from caveat.scores import KNN


def rows(n, *, seed, width=6, dtype=np.float64):
    return Outputs(features=np.random.default_rng(seed).normal(size=(n, width)).astype(dtype))


@given(
    n=st.integers(1, 60), rows_per_task=st.integers(1, 70), k=st.integers(1, 60), doubles=st.booleans(),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_shards_of_any_size_give_the_distance_to_the_kth_row(n, rows_per_task, k, doubles, seed):
    bank, some, k = rows(n, seed=seed).features, rows(7, seed=seed + 100).features, min(k, n)
    if doubles:
        bank, some = np.repeat(bank, 2, axis=0), np.vstack([some, bank[:3]])
    unit = [array / np.linalg.norm(array, axis=1, keepdims=True) for array in (some, bank)]
    literal = np.sort(np.linalg.norm(unit[0][:, None] - unit[1], axis=2), axis=1)[:, k - 1]
    scores = knn_scores(Outputs(features=bank), Outputs(features=some), k=k, rows_per_task=rows_per_task)
    np.testing.assert_allclose(scores, literal, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_it_is_the_score_knn(dtype):
    bank, some = rows(3000, seed=1, dtype=dtype), rows(200, seed=2, dtype=dtype)
    some = Outputs(features=np.vstack([some.features, bank.features[:20], np.zeros((1, 6), dtype)]))
    expected = KNN(k=5).fit(bank).score(some)
    np.testing.assert_allclose(knn_scores(bank, some, k=5, rows_per_task=700), expected, rtol=1e-6, atol=1e-12)


def test_any_number_of_workers_gives_the_same_bits(cluster, tmp_path):
    client, workers = cluster
    workers.fill(client)
    bank, some = rows(4000, seed=3, dtype=np.float32), rows(300, seed=4, dtype=np.float32)
    bank.save(tmp_path / "bank")
    some.save(tmp_path / "some")
    here = knn_scores(bank, some, k=10, rows_per_task=500)
    there = knn_scores(tmp_path / "bank", tmp_path / "some", k=10, rows_per_task=500, client=client)
    np.testing.assert_array_equal(here, there)


def test_queries_in_several_ranges_go_into_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr("caveat.scale.neighbors._QUERY_BYTES", 6 * 8 * 40)  # 40 rows at a time
    bank, some = rows(500, seed=5), rows(130, seed=6)
    told = []
    kept = knn_scores(bank, some, k=3, out=tmp_path / "knn.npy", progress=lambda *what: told.append(what))
    assert isinstance(kept, np.memmap)
    np.testing.assert_allclose(kept, KNN(k=3).fit(bank).score(some))
    assert told[-1] == ("searching for rows 4 of 4", 1, 1)


def test_equal_distances_are_ordered_by_row():
    one, two = (Neighbors(np.array([[0.5, 0.5]]), np.array([numbers]), k=2) for numbers in ([4, 9], [1, 6]))
    assert (one + two).rows.tolist() == (two + one).rows.tolist() == [[1, 4]]


def test_wrong_calls_get_one_sentence():
    bank = rows(10, seed=7)
    with pytest.raises(InputError, match="k must be .*10"):
        knn_scores(bank, bank, k=11)
    with pytest.raises(InputError, match="features.*source"):
        knn_scores(bank, Outputs(logits=np.zeros((2, 3))))
    with pytest.raises(InputError, match="number of features"):
        knn_scores(bank, rows(3, seed=8, width=5), k=1)
