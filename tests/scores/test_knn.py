from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import KNN


def literal(train, outputs, k):
    bank = [row / np.linalg.norm(row) if np.linalg.norm(row) else row for row in train.features.astype(np.float64)]
    found = []
    for row in outputs.features.astype(np.float64):
        query = row / np.linalg.norm(row) if np.linalg.norm(row) else row
        found.append(sorted(np.linalg.norm(query - other) for other in bank)[k - 1])
    return np.array(found)


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize(("n", "width"), [(240, 12), (60, 90)])
def test_equals_the_literal_formula(make_outputs, n, width, k):
    train, asked = make_outputs(n=n, width=width, seed=1), make_outputs(n=30, width=width, seed=2)
    np.testing.assert_allclose(KNN(k=k).fit(train).score(asked), literal(train, asked, k), rtol=1e-9)


def test_small_tiles_change_nothing(make_outputs, monkeypatch):
    train, asked = make_outputs(n=500, seed=1), make_outputs(n=40, seed=2)
    whole = KNN(k=10).fit(train).score(asked)
    monkeypatch.setattr("caveat.scores.knn._TILE_BYTES", 4 * 40 * 7)  # seven bank rows a tile
    np.testing.assert_allclose(KNN(k=10).fit(train).score(asked), whole, rtol=1e-12)


def test_a_training_row_is_at_distance_zero_from_itself(make_outputs):
    train = make_outputs(seed=1, dtype=np.float32)
    np.testing.assert_array_equal(KNN(k=1).fit(train).score(train), 0)


def test_zero_vectors_have_a_distance():
    # a zero row stays zero: distance 1 to any unit vector, 0 to another zero row
    train = Outputs(features=[[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(KNN(k=1).fit(train).score(Outputs(features=[[0.0, 0.0], [-1.0, 0.0]])), [0, 1])
    np.testing.assert_allclose(KNN(k=2).fit(train).score(Outputs(features=[[0.0, 0.0], [-1.0, 0.0]])), [1, 2])


def test_length_does_not_matter(make_outputs):
    train, asked = make_outputs(seed=1), make_outputs(seed=2)
    long = Outputs(features=asked.features * 100)
    np.testing.assert_allclose(KNN().fit(train).score(long), KNN().fit(train).score(asked), rtol=1e-9)


def test_a_memory_mapped_bank_stays_on_disk(tmp_path, train, inlier):
    train.save(tmp_path / "train")
    score = KNN().fit(Outputs.load(tmp_path / "train"))
    base = score.bank_
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    np.testing.assert_array_equal(score.score(inlier), KNN().fit(train).score(inlier))


def test_k_beyond_the_bank_is_an_error():
    with pytest.raises(InputError, match=r"k must be at most the number of training rows \(1\), got 2"):
        KNN(k=2).fit(Outputs(features=[[1.0]]))
    assert "needs at least k = 50 training rows, got 1" in KNN().missing(
        train=Outputs(features=[[1.0]]), outputs=Outputs(features=[[1.0]])
    )
    with pytest.raises(InputError, match="k must be a whole number"):
        KNN(k=0)
