"""Distances against scipy and against least squares, and what tangent distance must not see."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, shift
from scipy.spatial.distance import cdist

from caveat.conformal.metric_spaces import Euclidean, TangentDistance, tangent_vectors
from caveat.errors import InputError


def images(n, rng, side=12):
    return gaussian_filter(rng.normal(size=(n, side, side)), sigma=(0, 1.5, 1.5)) * 10


def between(metric, a, b):
    rows = [metric.prepare(x.reshape(len(x), -1)) for x in (a, b)]
    return metric.distances(*rows)


def test_euclidean_is_that_of_scipy_and_zero_for_equal_rows():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 30)) + 100, rng.normal(size=(25, 30)) + 100
    np.testing.assert_allclose(between(Euclidean(), a, b), cdist(a, b), rtol=1e-7)
    assert np.diag(between(Euclidean(), a, a)).max() == 0


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_euclidean_is_that_of_scipy_far_from_the_origin(offset):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 3)) + offset, rng.normal(size=(25, 3)) + offset
    b[0] += 5 * offset  # one far away, so that no common centre would help
    np.testing.assert_allclose(between(Euclidean(), a, b), cdist(a, b), rtol=1e-9)
    assert np.diag(between(Euclidean(), a, a)).max() == 0


@pytest.mark.parametrize("sides", ["two", "one"])
def test_tangent_distance_is_the_least_squares_distance_of_the_planes(sides):
    rng = np.random.default_rng(1)
    a, b = images(60, rng), images(5, rng)  # more rows than a tile
    found = between(TangentDistance(sides), a, b)
    planes_a, planes_b = tangent_vectors(a).astype(float), tangent_vectors(b).astype(float)
    for i in (0, 30, 59):
        for j in range(5):
            moves = planes_a[i].T if sides == "one" else np.vstack([planes_a[i], planes_b[j]]).T
            gap = (a[i] - b[j]).ravel()
            rest = gap - moves @ np.linalg.lstsq(moves, gap, rcond=None)[0]
            assert found[i, j] == pytest.approx(np.linalg.norm(rest), rel=2e-3)


def test_tangent_vectors_are_orthonormal_and_a_blank_image_has_none():
    rng = np.random.default_rng(2)
    found = tangent_vectors(images(3, rng)).astype(float)
    for basis in found:
        np.testing.assert_allclose(basis @ basis.T, np.eye(7), atol=1e-5)
    assert (tangent_vectors(np.full((1, 8, 8), -1.0)) == 0).all()


def test_a_small_move_costs_little():
    rng = np.random.default_rng(3)
    a = images(10, rng)
    moved = np.stack([shift(image, (0.4, -0.3), mode="nearest", order=3) for image in a])
    plain, tangent = np.diag(between(Euclidean(), a, moved)), np.diag(between(TangentDistance(), a, moved))
    assert (tangent < 0.35 * plain).all()
    other = between(TangentDistance(), a, images(10, rng))
    assert tangent.max() < other.min()


def test_two_sides_are_symmetric_and_never_farther_than_one():
    rng = np.random.default_rng(4)
    a, b = images(6, rng), images(7, rng)
    two, one = between(TangentDistance("two"), a, b), between(TangentDistance("one"), a, b)
    np.testing.assert_allclose(two, between(TangentDistance("two"), b, a).T, rtol=1e-4)
    assert (two <= one * (1 + 1e-4)).all()
    assert (one <= between(Euclidean(), a, b) * (1 + 1e-4)).all()


def test_clear_errors():
    with pytest.raises(InputError, match="50 columns are no square image"):
        TangentDistance().prepare(np.ones((1, 50)))
    with pytest.raises(InputError, match="rows must be images of 4 x 5 pixels, got 21 columns"):
        TangentDistance(shape=(4, 5)).prepare(np.ones((1, 21)))
    with pytest.raises(InputError, match="unknown number of sides"):
        TangentDistance(sides="three")
