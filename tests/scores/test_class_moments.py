"""Class moments without labels, as the label-free scores need them."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Outputs
from caveat.scores._statistics import ClassMoments, gather


def moments(outputs):
    return gather(outputs, [ClassMoments()])[ClassMoments()]


def test_mean_and_total_scatter_are_those_of_all_rows(train):
    centerd = train.features - train.features.mean(axis=0)
    for said in (train, Outputs(features=train.features), Outputs(features=train.features, logits=train.logits)):
        found = moments(said)
        assert found.n == train.n
        np.testing.assert_allclose(found.global_mean, train.features.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found.total_scatter, centerd.T @ centerd, rtol=1e-10)


def test_two_halves_without_labels_add_up_to_the_whole(train):
    bare = Outputs(features=train.features)
    both, whole = moments(bare[:90]) + moments(bare[90:]), moments(bare)
    np.testing.assert_allclose(both.total_scatter, whole.total_scatter, rtol=1e-10)
    np.testing.assert_allclose(both.global_mean, whole.global_mean, rtol=1e-12)


@pytest.mark.parametrize("value", [0.1, 0.7, 1e4 + 0.1])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_column_that_never_varies_has_no_scatter_at_all(value, kind, train):
    # (82 * 0.1 + 80 * 0.1 + 78 * 0.1) / 240 is not 0.1 in floating point, and the rest must not look like a spread.
    rows = np.column_stack([train.features, np.full(train.n, value)]).astype(kind)
    said = Outputs(features=rows, labels=np.repeat([0, 1, 2], [82, 80, train.n - 162]))
    for found in (moments(said), moments(said[::2]) + moments(said[1::2])):
        assert found.global_mean[-1] == rows[0, -1]
        assert not found.total_scatter[-1].any()
