"""Relative Mahalanobis: directions that no class uses cancel."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import RelativeMahalanobis

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def ridged(covariance, ridge=1e-6):
    return covariance + ridge * np.trace(covariance) / len(covariance) * np.eye(len(covariance))


def test_by_hand():
    # Within: diag(1/3, 2/3), as for Mahalanobis. Mean of all (3, 0); x: 9 + 9 + 36 + 36 + 4 + 16 = 110, diag(55/3, 2/3)
    # (4, 0): 16 * 3 - 1 * 3/55. (9, 2): 4 * 3/2 - (36 * 3/55 + 4 * 3/2): the odd y cancels.
    train = Outputs(features=[[0, 1], [0, -1], [9, 1], [9, -1], [1, 0], [-1, 0]], labels=[0, 0, 1, 1, 0, 0])
    found = RelativeMahalanobis(ridge=1e-12).fit(train).score(Outputs(features=[[4.0, 0.0], [9.0, 2.0]]))
    np.testing.assert_allclose(found, [48 - 3 / 55, -108 / 55], rtol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    means = [train.features[train.labels == c].mean(axis=0) for c in range(train.n_classes)]
    mean = train.features.mean(axis=0)
    within = sum(np.outer(h - means[y], h - means[y]) for h, y in zip(train.features, train.labels, strict=True))
    total = sum(np.outer(h - mean, h - mean) for h in train.features)
    near, far = np.linalg.inv(ridged(within / train.n)), np.linalg.inv(ridged(total / train.n))
    expected = [min((h - m) @ near @ (h - m) for m in means) - (h - mean) @ far @ (h - mean) for h in test.features]
    np.testing.assert_allclose(RelativeMahalanobis().fit(train).score(test), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scale_of_the_features_does_not_matter(scale, train, inlier):
    plain = RelativeMahalanobis().fit(train).score(inlier)
    scaled = RelativeMahalanobis().fit(Outputs(features=train.features * scale, labels=train.labels))
    np.testing.assert_allclose(scaled.score(Outputs(features=inlier.features * scale)), plain, rtol=1e-8, atol=1e-8)


def test_float32_features_with_fewer_rows_than_columns(make_outputs):
    shape = {"n": 50, "width": 60, "classes": 4}
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **shape)
    narrow, narrow_test = (o.features.astype(np.float32) for o in (train, test))
    single = RelativeMahalanobis().fit(Outputs(features=narrow, labels=train.labels))
    double = RelativeMahalanobis().fit(Outputs(features=narrow.astype(np.float64), labels=train.labels))
    expected = double.score(Outputs(features=narrow_test.astype(np.float64)))
    np.testing.assert_allclose(single.score(Outputs(features=narrow_test)), expected, rtol=1e-4)


def test_messages(train):
    with pytest.raises(InputError, match="and RelativeMahalanobis needs every class"):
        RelativeMahalanobis().fit(Outputs(features=train.features, labels=train.labels + 1))
    with pytest.raises(InputError, match="ridge must be a positive number, got 0"):
        RelativeMahalanobis(ridge=0)
