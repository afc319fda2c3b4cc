from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import _subspaces


def literal(rows, variance):
    """Mean and principal axes by a singular value decomposition."""
    mean = rows.mean(axis=0)
    _, lengths, axes = np.linalg.svd(rows - mean, full_matrices=False)
    share = np.cumsum(lengths**2) / np.sum(lengths**2)
    return mean, axes[: int(np.argmax(share >= variance - 1e-12)) + 1]


@pytest.mark.parametrize(("n", "width"), [(300, 6), (30, 20), (5, 20)])
def test_axes_are_those_of_a_singular_value_decomposition(n, width):
    rng = np.random.default_rng(n)
    labels = np.repeat([0, 1, 2], [n, 2 * n, n + 1])
    rows = rng.normal(size=(labels.size, width)) @ rng.normal(size=(width, width)) + labels[:, None]
    order = rng.permutation(labels.size)
    train = Outputs(features=rows[order], labels=labels[order])
    found = list(_subspaces.class_subspaces(train, 0.8))
    for c, (mean, axes) in enumerate(found):
        expected_mean, expected = literal(rows[labels == c], 0.8)
        np.testing.assert_allclose(mean, expected_mean, atol=1e-12)
        assert axes.shape == expected.shape
        np.testing.assert_allclose(axes.T @ axes, expected.T @ expected, atol=1e-9)  # the projector; signs are free
        np.testing.assert_allclose(axes @ axes.T, np.eye(len(axes)), atol=1e-9)


def test_blocks_of_a_class_make_no_difference(train, monkeypatch):
    whole = list(_subspaces.class_subspaces(train, 0.9))
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 512)
    for (mean, axes), (other_mean, other) in zip(whole, _subspaces.class_subspaces(train, 0.9), strict=True):
        np.testing.assert_allclose(mean, other_mean, rtol=1e-12)
        np.testing.assert_allclose(axes.T @ axes, other.T @ other, atol=1e-10)


def test_a_class_of_one_sample_has_a_mean_and_no_axis():
    train = Outputs(features=[[1.0, 2.0], [5.0, 5.0], [6.0, 5.0], [5.0, 7.0]], labels=[0, 1, 1, 1])
    mean, axes = next(iter(_subspaces.class_subspaces(train, 0.9)))
    np.testing.assert_array_equal(mean, [1.0, 2.0])
    assert axes.shape == (0, 2)


def test_a_class_without_samples_is_named():
    train = Outputs(features=np.ones((3, 2)), labels=[0, 2, 2])
    with pytest.raises(InputError, match="labels has no sample of class 1, and a class projection needs every class"):
        list(_subspaces.class_subspaces(train, 0.9))


@pytest.mark.parametrize("sizes", [(3, 0, 1, 7, 0), (0, 5, 2), (0, 0), (0,)])
def test_stacked_subspaces_are_those_given(sizes):
    rng = np.random.default_rng(0)
    given = [(rng.normal(size=4), rng.normal(size=(k, 4))) for k in sizes]
    means, axes, starts = _subspaces.stacked(iter(given), np.dtype(np.float32))
    np.testing.assert_array_equal(means, [mean for mean, _ in given])
    np.testing.assert_array_equal(axes, np.concatenate([some for _, some in given]).astype(np.float32))
    np.testing.assert_array_equal(starts, np.cumsum([0, *sizes]))
    assert axes.dtype == np.float32


def test_stacking_takes_little_more_room_than_the_axes():
    # 60 subspaces of 50 axes in 500 columns: 6 MB in float32; a list of them beside their concatenation takes 12.
    one = np.ones((50, 500))
    tracemalloc.start()
    try:
        _, axes, _ = _subspaces.stacked(((np.ones(500), one.copy()) for _ in range(60)), np.dtype(np.float32))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * axes.nbytes


def stacked(train, variance):
    return _subspaces.stacked(_subspaces.class_subspaces(train, variance), np.dtype(np.float64))


@pytest.mark.parametrize("tile", [1, 32 * 2**20])
def test_coordinates_and_nearest_subspace(train, outlier, tile, monkeypatch):
    monkeypatch.setattr("caveat.scores._subspaces._TILE_BYTES", tile)
    means, axes, starts = stacked(train, 0.7)
    rows = outlier.features
    squares = _subspaces.squared_coordinates(rows, axes, starts)
    errors = np.empty_like(squares)
    for i, h in enumerate(rows):
        for c in range(len(means)):
            some = axes[starts[c] : starts[c + 1]]
            assert squares[i, c] == pytest.approx(np.sum((some @ h) ** 2))
            gap = h - means[c]
            errors[i, c] = np.linalg.norm(gap - some.T @ (some @ gap))
    nearest = _subspaces.nearest_subspace(rows, means, axes, starts)
    np.testing.assert_array_equal(nearest, errors.argmin(axis=1))
    assert np.unique(nearest).size > 1
