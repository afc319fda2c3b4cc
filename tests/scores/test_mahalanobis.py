from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import Mahalanobis


def literal(train, outputs, *, normalize=False, ridge=1e-6):
    """The formula as the paper prints it: a loop over samples and classes."""

    def prepared(rows):
        rows = rows.astype(np.float64)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalize else rows

    h, y = prepared(train.features), train.labels
    means = [h[y == c].mean(axis=0) for c in range(train.n_classes)]
    cov = sum(np.outer(row - means[c], row - means[c]) for row, c in zip(h, y, strict=True)) / len(h)
    precision = np.linalg.inv(cov + ridge * np.trace(cov) / len(cov) * np.eye(len(cov)))
    return np.array([min((x - m) @ precision @ (x - m) for m in means) for x in prepared(outputs.features)])


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("n", "width", "classes"), [(240, 12, 4), (60, 90, 3), (100, 5, 2), (400, 8, 100)])
def test_equals_the_literal_formula(make_outputs, n, width, classes, normalize):
    train = make_outputs(n=n, width=width, classes=classes, seed=1)
    asked = make_outputs(n=30, width=width, classes=classes, seed=2)
    score = Mahalanobis(normalize=normalize).fit(train)
    np.testing.assert_allclose(score.score(asked), literal(train, asked, normalize=normalize), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scaling_all_features_changes_nothing(make_outputs, scale):
    train, asked = make_outputs(seed=1), make_outputs(seed=2)
    plain = Mahalanobis().fit(train).score(asked)
    scaled = Mahalanobis().fit(Outputs(features=train.features * scale, labels=train.labels))
    np.testing.assert_allclose(scaled.score(Outputs(features=asked.features * scale)), plain, rtol=1e-8)


def test_a_class_mean_is_not_strange(train):
    score = Mahalanobis().fit(train)
    means = np.stack([train.features[train.labels == c].mean(axis=0) for c in range(train.n_classes)])
    np.testing.assert_allclose(score.score(Outputs(features=means)), 0, atol=1e-8)


def test_an_empty_class_and_constant_features_are_named():
    with pytest.raises(InputError, match="labels has no sample of class 1"):
        Mahalanobis().fit(Outputs(features=[[1.0], [2.0]], labels=[0, 2]))
    with pytest.raises(InputError, match="must vary within at least one class"):
        Mahalanobis().fit(Outputs(features=[[1.0], [2.0]], labels=[0, 1]))


def test_ridge_is_positive():
    with pytest.raises(InputError, match="ridge must be a positive number"):
        Mahalanobis(ridge=0)
