"""Tangent distance of the USPS study: against least squares, its invariances, and the promise of FullKNN."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, shift

from caveat.conformal import Euclidean, FullKNN
from caveat.errors import InputError


@pytest.fixture
def tangent(study):
    return study("usps", "tangent")


def images(n, rng, side=12):
    return gaussian_filter(rng.normal(size=(n, side, side)), sigma=(0, 1.5, 1.5)) * 10


def between(metric, a, b):
    rows = [metric.prepare(x.reshape(len(x), -1)) for x in (a, b)]
    return metric.distances(*rows)


@pytest.mark.parametrize("sides", ["two", "one"])
def test_tangent_distance_is_the_least_squares_distance_of_the_planes(tangent, sides):
    rng = np.random.default_rng(1)
    a, b = images(60, rng), images(5, rng)  # more rows than a tile
    found = between(tangent.TangentDistance(sides), a, b)
    planes_a, planes_b = tangent.tangent_vectors(a).astype(float), tangent.tangent_vectors(b).astype(float)
    for i in (0, 30, 59):
        for j in range(5):
            moves = planes_a[i].T if sides == "one" else np.vstack([planes_a[i], planes_b[j]]).T
            gap = (a[i] - b[j]).ravel()
            rest = gap - moves @ np.linalg.lstsq(moves, gap, rcond=None)[0]
            assert found[i, j] == pytest.approx(np.linalg.norm(rest), rel=2e-3)


def test_tangent_vectors_are_orthonormal_and_a_blank_image_has_none(tangent):
    rng = np.random.default_rng(2)
    found = tangent.tangent_vectors(images(3, rng)).astype(float)
    for basis in found:
        np.testing.assert_allclose(basis @ basis.T, np.eye(7), atol=1e-5)
    assert (tangent.tangent_vectors(np.full((1, 8, 8), -1.0)) == 0).all()


def test_a_small_move_costs_little(tangent):
    rng = np.random.default_rng(3)
    a = images(10, rng)
    moved = np.stack([shift(image, (0.4, -0.3), mode="nearest", order=3) for image in a])
    plain, near = np.diag(between(Euclidean(), a, moved)), np.diag(between(tangent.TangentDistance(), a, moved))
    assert (near < 0.35 * plain).all()
    other = between(tangent.TangentDistance(), a, images(10, rng))
    assert near.max() < other.min()


def test_two_sides_are_symmetric_and_never_farther_than_one(tangent):
    rng = np.random.default_rng(4)
    a, b = images(6, rng), images(7, rng)
    two, one = between(tangent.TangentDistance("two"), a, b), between(tangent.TangentDistance("one"), a, b)
    np.testing.assert_allclose(two, between(tangent.TangentDistance("two"), b, a).T, rtol=1e-4)
    assert (two <= one * (1 + 1e-4)).all()
    assert (one <= between(Euclidean(), a, b) * (1 + 1e-4)).all()


def test_clear_errors(tangent):
    with pytest.raises(InputError, match="50 columns"):
        tangent.TangentDistance().prepare(np.ones((1, 50)))
    with pytest.raises(InputError, match="rows must be images of 4 x 5 pixels, got 21 columns"):
        tangent.TangentDistance(shape=(4, 5)).prepare(np.ones((1, 21)))
    with pytest.raises(InputError, match="unknown number of sides"):
        tangent.TangentDistance(sides="three")


@pytest.mark.parametrize("sides", ["two", "one"])
def test_a_distance_depends_on_its_two_objects_only(tangent, sides):
    space = tangent.TangentDistance(sides)
    x = np.random.default_rng(0).normal(size=(230, 49))
    whole = space.distances(space.prepare(x), space.prepare(x))
    for rows, columns in (
        (slice(0, 1), slice(0, 230)),
        (slice(17, 150), slice(5, 6)),
        (slice(96, 113), slice(40, 229)),
    ):
        part = space.distances(space.prepare(x[rows]), space.prepare(x[columns]))
        assert (part == whole[rows, columns]).all()


@pytest.mark.parametrize("objects", [lambda x: x, np.round, lambda x: np.round(x) / 7 + 3])  # apart, tied, not exact
@pytest.mark.parametrize("sides", ["two", "one"])
def test_each_example_of_a_bag_in_turn_has_no_too_small_p_value(tangent, sides, objects):
    """Leave one out: of N examples no more than r have a p-value of r / N or less, for every r."""
    y = np.repeat([0, 1, 2], [7, 8, 7])
    x = objects(0.7 * np.random.default_rng(5).normal(size=(y.size, 9)) + 0.5 * y[:, None])
    ranks = np.empty((y.size, 9))
    for i in range(y.size):
        rest = np.arange(y.size) != i
        fitted = FullKNN(metric=tangent.TangentDistance(sides)).fit(x[rest], y[rest], most=5)
        ranks[i] = [round(p[0, y[i]] * y.size) for _, _, p in fitted.path(x[[i]], [1, 3, 5])]
    for rank in range(1, y.size + 1):
        assert (np.count_nonzero(ranks <= rank, axis=0) <= rank).all()
