"""NECO: share of the standardized feature in the principal subspace."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import NECO

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def test_by_hand():
    # Mean 0, deviation 1 and 2: standardized rows (1, 1), (-1, -1), twice each: the principal direction is (1, 1).
    # (3, 2) is (3, 1) standardized: 4 / sqrt 2 of sqrt 10. (1, -2) is (1, -1): nothing of it.
    train = Outputs(features=[[1.0, 2.0], [-1.0, -2.0], [1.0, 2.0], [-1.0, -2.0]])
    found = NECO().fit(train).score(Outputs(features=[[3.0, 2.0], [1.0, -2.0]]))
    np.testing.assert_allclose(found, [-4 / np.sqrt(20), 0], atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{"dimension": 3}, {"variance": 0.6}])
def test_agrees_with_scikit_learn(shape, options, make_outputs):
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    scaler = StandardScaler().fit(train.features)
    pca = PCA(n_components=options.get("dimension") or options["variance"], svd_solver="full")
    pca.fit(scaler.transform(train.features))
    rows = scaler.transform(test.features)
    expected = -np.linalg.norm(pca.transform(rows), axis=1) / np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(NECO(**options).fit(train).score(test), expected, rtol=1e-8)
    factor = NECO(**options, times_max_logit=True).fit(train).score(test)
    np.testing.assert_allclose(factor, expected * test.logits.max(axis=1), rtol=1e-8)


def test_constant_columns_and_the_mean_itself(train):
    rows = np.hstack([train.features, np.full((train.n, 1), 3.0)])
    score = NECO().fit(Outputs(features=rows))
    assert np.isfinite(score.score(Outputs(features=rows))).all()
    center = np.append(score.centre_[:-1], 3.0)[None]
    assert score.score(Outputs(features=center))[0] == 0


def test_a_constant_column_changes_nothing_with_labels_either(train, inlier):
    labels = np.repeat([0, 1, 2], [82, 80, train.n - 162])
    plain = NECO().fit(Outputs(features=train.features, labels=labels)).score(inlier)
    rows, asked = (np.column_stack([o.features, np.full(o.n, 0.1)]) for o in (train, inlier))
    found = NECO().fit(Outputs(features=rows, labels=labels)).score(Outputs(features=asked))
    np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_messages(train):
    with pytest.raises(InputError, match=r"dimension must be .* at most 11, got 100"):
        NECO(dimension=100).fit(train)
    bare = Outputs(features=train.features)
    with pytest.raises(InputError, match=r"NECO needs outputs\.logits, which is None"):
        NECO(times_max_logit=True).fit(bare).score(bare)
    assert NECO().fit(bare).score(bare).shape == (train.n,)
