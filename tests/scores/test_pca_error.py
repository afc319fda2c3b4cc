"""PCA reconstruction error, relative to the length of the feature."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import PCAError

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def test_by_hand():
    # All variance lies along x through (3, 1). (3, 5): 4 above the line, length sqrt 34. (9, 1) is on it.
    train = Outputs(features=[[1.0, 1.0], [3.0, 1.0], [5.0, 1.0]])
    found = PCAError().fit(train).score(Outputs(features=[[3.0, 5.0], [9.0, 1.0]]))
    np.testing.assert_allclose(found, [4 / np.sqrt(34), 0], atol=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variance", [0.5, 0.95])
def test_as_in_the_paper(shape, variance, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    mean = train.features.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(train.features.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    k = next(k for k in range(1, len(values) + 1) if values[:k].sum() >= variance * values.sum())
    projector = vectors[:, :k] @ vectors[:, :k].T
    expected = [np.linalg.norm(h - (projector @ (h - mean) + mean)) / np.linalg.norm(h) for h in test.features]
    np.testing.assert_allclose(PCAError(variance=variance).fit(train).score(test), expected, rtol=1e-8)


def test_labels_do_not_matter(train, inlier):
    with_labels = PCAError().fit(train).score(inlier)
    without = PCAError().fit(Outputs(features=train.features)).score(inlier)
    np.testing.assert_allclose(without, with_labels, rtol=1e-9)


def test_one_direction_is_always_left_out_and_a_zero_row_is_finite():
    rng = np.random.default_rng(0)
    said = Outputs(features=rng.normal(size=(500, 2)))  # both directions are needed for 95 %
    values = PCAError().fit(said).score(Outputs(features=[[0.0, 0.0], [1.0, 2.0]]))
    assert np.isfinite(values).all()
    assert values[1] > 0


def test_messages():
    with pytest.raises(InputError, match="variance must be strictly between 0 and 1, got 1"):
        PCAError(variance=1)
    with pytest.raises(InputError, match="features must vary, but every training row is the same"):
        PCAError().fit(Outputs(features=np.ones((4, 3))))
