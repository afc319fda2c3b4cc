"""Mahalanobis: one shared covariance for the score, one per class for class scores."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import Mahalanobis
from caveat.scores import _covariance as own

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def parts(train, ridge=1e-6):
    """Class means, rows by class, and the ridged pooled covariance, as the formula says."""
    rows = [train.features[train.labels == c] for c in range(train.n_classes)]
    means = [r.mean(axis=0) for r in rows]
    pooled = sum(np.outer(h - m, h - m) for r, m in zip(rows, means, strict=True) for h in r) / train.n
    return means, rows, pooled + ridge * np.trace(pooled) / len(pooled) * np.eye(len(pooled))


def test_by_hand():
    # Means (0, 0) and (9, 0). Scatter about them: x 1 + 1, y 1 + 1 + 1 + 1, over N = 6: diag(1/3, 2/3).
    # (9, 2) is (0, 2) off the second mean: 4 / (2/3) = 6. (4, 0) is 4 off the first: 16 / (1/3) = 48.
    train = Outputs(features=[[0, 1], [0, -1], [9, 1], [9, -1], [1, 0], [-1, 0]], labels=[0, 0, 1, 1, 0, 0])
    found = Mahalanobis(ridge=1e-12).fit(train).score(Outputs(features=[[9.0, 2.0], [4.0, 0.0]]))
    np.testing.assert_allclose(found, [6, 48], rtol=1e-9)


def test_class_scores_by_hand():
    # One feature. Class 0: -1, 1 (variance 1); class 1: 8, 12 (variance 4); pooled (2 + 8) / 4 = 2.5; D = 1, n_y = 2:
    # shrunk (2 * 1 + 2.5) / 3 = 1.5 and (2 * 4 + 2.5) / 3 = 3.5. From x = 3: 3 / sqrt 1.5 and 7 / sqrt 3.5.
    train = Outputs(features=[[-1.0], [1.0], [8.0], [12.0]], labels=[0, 0, 1, 1])
    found = Mahalanobis(ridge=1e-12).fit(train).class_scores(Outputs(features=[[3.0]]))
    np.testing.assert_allclose(found, [[3 / np.sqrt(1.5), 7 / np.sqrt(3.5)]], rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    means, _, sigma = parts(train)
    precision = np.linalg.inv(sigma)
    expected = [min((h - m) @ precision @ (h - m) for m in means) for h in test.features]
    np.testing.assert_allclose(Mahalanobis().fit(train).score(test), expected, rtol=1e-7)


def test_a_class_mean_is_not_strange(train):
    means = np.stack(parts(train)[0])
    np.testing.assert_allclose(Mahalanobis().fit(train).score(Outputs(features=means)), 0, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_class_scores_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 12}))
    means, rows, sigma = parts(train)
    width = shape["width"]
    found = Mahalanobis().fit(train).class_scores(test)
    for c, (mean, members) in enumerate(zip(means, rows, strict=True)):
        scatter = sum(np.outer(h - mean, h - mean) for h in members)
        precision = np.linalg.inv((scatter + width * sigma) / (len(members) + width))
        expected = [np.sqrt((h - mean) @ precision @ (h - mean)) for h in test.features]
        np.testing.assert_allclose(found[:, c], expected, rtol=1e-6)


def test_class_scores_with_the_common_covariance(train, inlier):
    means, _, sigma = parts(train)
    precision = np.linalg.inv(sigma)
    expected = [[np.sqrt((h - m) @ precision @ (h - m)) for m in means] for h in inlier.features]
    np.testing.assert_allclose(Mahalanobis(class_rank=0).fit(train).class_scores(inlier), expected, rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_scale_of_the_features_does_not_matter(scale, shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **shape)
    scaled_train = Outputs(features=train.features * scale, labels=train.labels)
    scaled_test = Outputs(features=test.features * scale)
    plain, scaled = Mahalanobis().fit(train), Mahalanobis().fit(scaled_train)
    np.testing.assert_allclose(scaled.score(scaled_test), plain.score(test), rtol=1e-8)
    np.testing.assert_allclose(scaled.class_scores(scaled_test), plain.class_scores(test), rtol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_float32_features_with_fewer_rows_than_columns(normalize, make_outputs):
    # Where the rows leave directions empty, the ridge of 1e-6 decides; the rounding of float32 is 1e-7 of the variance.
    shape = {"n": 50, "width": 60, "classes": 4}
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **shape)
    narrow, narrow_test = (o.features.astype(np.float32) for o in (train, test))
    single = Mahalanobis(normalize).fit(Outputs(features=narrow, labels=train.labels))
    double = Mahalanobis(normalize).fit(Outputs(features=narrow.astype(np.float64), labels=train.labels))
    expected = double.score(Outputs(features=narrow_test.astype(np.float64)))
    np.testing.assert_allclose(single.score(Outputs(features=narrow_test)), expected, rtol=1e-4)


@pytest.mark.parametrize("apart", [100, 1000])
def test_float32_features_of_classes_that_lie_far_apart(apart):
    # Near neural collapse a squared distance of about 32 is what is left of lengths of about apart^2.
    rng = np.random.default_rng(0)
    labels = np.arange(800) % 5
    rows = (apart * rng.normal(size=(5, 32))[labels] / np.sqrt(32) + rng.normal(size=(800, 32))).astype(np.float32)
    single = Mahalanobis().fit(Outputs(features=rows, labels=labels)).score(Outputs(features=rows))
    wide = rows.astype(np.float64)
    double = Mahalanobis().fit(Outputs(features=wide, labels=labels)).score(Outputs(features=wide))
    np.testing.assert_allclose(single, double, rtol=3e-4)


def test_normalized_is_the_plain_score_of_unit_rows(train, inlier):
    def unit(outputs):
        length = np.linalg.norm(outputs.features, axis=1, keepdims=True)
        return Outputs(features=outputs.features / length, labels=outputs.labels)

    plus = Mahalanobis(normalize=True).fit(train)
    plain = Mahalanobis().fit(unit(train))
    np.testing.assert_allclose(plus.score(inlier), plain.score(unit(inlier)), rtol=1e-9)
    np.testing.assert_allclose(plus.class_scores(inlier), plain.class_scores(unit(inlier)), rtol=1e-9)


def planted(n=400, width=40):
    """Two classes with the same pooled spread; the first is long along one direction and thin elsewhere."""
    rng = np.random.default_rng(5)
    direction = rng.normal(size=width)
    direction /= np.linalg.norm(direction)
    rows = rng.normal(size=(2 * n, width))
    rows[:n] = 0.5 * rows[:n] + 6 * rng.normal(size=(n, 1)) * direction
    return Outputs(features=rows, labels=np.repeat([0, 1], n)), direction


def test_few_directions_hold_what_they_claim():
    """Inside the subspace the variances are exact; outside, unbiased with the error of 16 random probes."""
    train, _ = planted()
    full = Mahalanobis(class_rank=40).fit(train)
    low = Mahalanobis(class_rank=6).fit(train)
    for c in range(2):
        exact = full.class_axes_[c] * full.class_variances_[c] @ full.class_axes_[c].T
        axes = low.class_axes_[c]
        np.testing.assert_allclose(axes.T @ axes, np.eye(6), atol=1e-10)
        np.testing.assert_allclose(axes.T @ exact @ axes, np.diag(low.class_variances_[c]), atol=1e-8)
        outside = np.eye(40) - axes @ axes.T
        left = outside @ exact @ outside
        error = 4 * np.sqrt(2 * np.sum(left**2) / 16) / 34  # variance of a Gaussian probe of A: 2 |A|_F^2
        assert abs(low.class_rest_[c] - np.trace(left) / 34) < error


def test_the_direction_in_which_a_class_is_long_is_found():
    train, direction = planted()
    low = Mahalanobis(class_rank=2).fit(train)
    raw = np.linalg.solve(low.whitener_.T, low.class_axes_[0][:, 0])  # back from whitened coordinates
    assert abs(raw @ direction) / np.linalg.norm(raw) > 0.99
    long, across = 6 * direction, 6 * np.roll(direction, 1)
    found = low.class_scores(Outputs(features=[long, across]))
    assert found[0, 0] < found[0, 1]  # one standard deviation in the first class, six in the second
    assert found[1, 0] > found[1, 1]


def test_small_large_and_larger_classes_are_treated_alike(monkeypatch, train, inlier):
    whole = Mahalanobis(class_rank=3).fit(train).class_scores(inlier)
    monkeypatch.setattr(own, "_SMALL", 0)
    np.testing.assert_allclose(Mahalanobis(class_rank=3).fit(train).class_scores(inlier), whole, rtol=1e-8)
    monkeypatch.setattr(own, "_HELD", 0)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 1024)
    np.testing.assert_allclose(Mahalanobis(class_rank=3).fit(train).class_scores(inlier), whole, rtol=1e-8)


def test_half_precision_features(make_outputs):
    said = make_outputs(seed=1, dtype=np.float32)
    half = Outputs(features=said.features.astype(np.float16), labels=said.labels)
    wide = Outputs(features=half.features.astype(np.float64), labels=said.labels)
    for rank in (3, 64):
        narrow = Mahalanobis(class_rank=rank).fit(half).class_scores(half)
        np.testing.assert_allclose(narrow, Mahalanobis(class_rank=rank).fit(wide).class_scores(wide), rtol=2e-3)


def test_messages(train):
    with pytest.raises(InputError, match="labels has no sample of class 1, and Mahalanobis needs every class"):
        Mahalanobis().fit(Outputs(features=train.features, labels=np.where(train.labels == 1, 0, train.labels)))
    with pytest.raises(InputError, match="features must vary within at least one class"):
        Mahalanobis().fit(Outputs(features=np.ones((4, 2)), labels=[0, 0, 1, 1]))
    with pytest.raises(InputError, match="ridge must be a positive number, got 0"):
        Mahalanobis(ridge=0)
    with pytest.raises(InputError, match="class_rank must be a whole number, at least 0, got -1"):
        Mahalanobis(class_rank=-1)
