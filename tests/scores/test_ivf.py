"""KNN with an inverted file: exact when all cells are searched, the same in any batch, and every promise kept."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Guard, InputError, Outputs
from caveat.conformal import p_values, threshold_for
from caveat.scores import KNN, load

pytest.importorskip("faiss", reason="extra knn")
from caveat.scores._ivf import InvertedFile, centroids_and_cells


def clustered(n, *, seed, width=16, groups=40, spread=0.3):
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(99).normal(size=(groups, width))
    rows = means[rng.integers(groups, size=n)] + spread * rng.normal(size=(n, width))
    return Outputs(features=rows.astype(np.float32))


def test_by_hand():
    # Two cells, around 0 and 90 degrees. A query at 40 degrees is in the first, whose rows are at 0 and 20 degrees.
    # With one probe its second neighbor is the row at 0; in truth it is the one at 70 (30 degrees away, 0 is 40 away).
    angles = np.radians([0, 20, 70, 90])
    bank = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    centroids, cells = bank[[0, 3]].astype(np.float32), np.array([0, 0, 1, 1], dtype=np.int32)
    index = InvertedFile(bank, centroids, cells)
    query = np.array([[np.cos(np.radians(40)), np.sin(np.radians(40))]])
    assert index.nearest(query, 2, 1).tolist() == [[1, 0]]
    assert index.nearest(query, 2, 2).tolist() == [[1, 2]]


def test_cells_with_too_few_rows_widen_the_search():
    bank = np.eye(3)
    index = InvertedFile(bank, bank.astype(np.float32), np.arange(3, dtype=np.int32))  # a row per cell
    found = index.nearest(bank[:1], 3, 1)
    assert found[0, 0] == 0
    assert sorted(found[0].tolist()) == [0, 1, 2]


def test_searching_all_cells_is_exact():
    train, test = clustered(3000, seed=1), clustered(200, seed=2)
    exact = KNN(k=10).fit(train).score(test)
    every = KNN(k=10, index="ivf", clusters=20, nprobe=20).fit(train)
    assert every.recall_ == 1.0
    np.testing.assert_allclose(every.score(test), exact, rtol=1e-6)


def test_fewer_probes_find_fewer_neighbors_and_never_nearer_ones():
    train, test = clustered(4000, seed=1, spread=1.0), clustered(200, seed=2, spread=1.0)
    exact = KNN(k=10).fit(train).score(test)
    scores = {nprobe: KNN(k=10, index="ivf", clusters=60, nprobe=nprobe).fit(train) for nprobe in (1, 4, 60)}
    recalls = [score.recall_ for score in scores.values()]
    assert recalls == sorted(recalls)
    assert recalls[0] < 0.9
    for score in scores.values():
        assert (score.score(test) >= exact - 1e-6).all()


def test_a_row_has_the_same_score_in_any_batch():
    train, test = clustered(2000, seed=1, spread=1.0), clustered(100, seed=2, spread=1.0)
    score = KNN(k=5, index="ivf", nprobe=2).fit(train)
    together = score.score(test)
    assert np.array_equal(together, np.concatenate([score.score(test[i : i + 1]) for i in range(test.n)]))


def test_saved_and_loaded_bit_for_bit(tmp_path):
    train, test = clustered(1500, seed=1), clustered(50, seed=2)
    score = KNN(k=5, index="ivf", nprobe=3).fit(train)
    score.save(tmp_path / "knn")
    again = load(tmp_path / "knn")
    assert (again.nprobe, again.recall_, again.index_bytes_) == (3, score.recall_, score.index_bytes_)
    assert again.index_bytes_ == 1500 * (4 * 16 + 8) + score.centroids_.nbytes
    assert np.array_equal(again.score(test), score.score(test))


def test_fitting_again_builds_a_new_index():
    score = KNN(k=1, index="ivf", nprobe=1)
    first, second = clustered(500, seed=1), clustered(500, seed=2)
    score.fit(first).score(second)
    assert score.fit(second).score(second).max() < 1e-3  # each row is its own neighbor


def test_centroids_depend_on_the_rows_alone():
    bank = clustered(1000, seed=3).features
    one, two = (centroids_and_cells(bank, 10, seed=0) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_messages():
    with pytest.raises(InputError, match="index"):
        KNN(index="hnsw")
    with pytest.raises(InputError, match="clusters"):
        KNN(k=1, index="ivf", clusters=9).fit(clustered(5, seed=1))


def test_promises_hold_for_poor_neighbors_too():
    """Calibration and test rows are searched in the same way, so a poor recall costs power and breaks no promise."""
    score = KNN(k=10, index="ivf", clusters=50, nprobe=1).fit(clustered(2000, seed=1, spread=1.0))
    assert score.recall_ < 0.9
    rows = score.score(clustered(40_000, seed=2, spread=1.0))
    rng, draws, n, alpha = np.random.default_rng(3), 2000, 99, 0.1
    flagged = broken = 0
    for _ in range(draws):
        drawn = rng.choice(rows, size=n + 1, replace=False)
        flagged += p_values(calibration=drawn[:n], test=drawn[n:])[0] <= alpha
        broken += (rows >= threshold_for(drawn[:n], alpha, 0.1)).mean() > alpha
    assert abs(flagged / draws - alpha) < 4 * np.sqrt(alpha * (1 - alpha) / draws)
    assert broken / draws < 0.1 + 4 * np.sqrt(0.1 * 0.9 / draws)


def test_an_onnx_file_does_not_search_in_cells(tmp_path):
    pytest.importorskip("onnx", reason="extra torch")
    guard = Guard(KNN(k=5, index="ivf"), sets=None).fit(clustered(500, seed=1)).calibrate(clustered(200, seed=2))
    with pytest.raises(InputError, match="exact"):
        guard.export_onnx(tmp_path / "guard.onnx")


def test_the_fitted_score_says_how_well_it_approximates():
    score = KNN(k=5, index="ivf", clusters=10, nprobe=2)
    assert score.note == ""
    note = score.fit(clustered(500, seed=1)).note
    assert f"{100 * score.recall_:.1f} %" in note
    assert "2 of 10 cells" in note
    assert KNN(k=5).fit(clustered(500, seed=1)).note == ""
