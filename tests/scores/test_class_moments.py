"""Class moments without labels, as the label-free scores ask for them."""

from __future__ import annotations

import numpy as np

from caveat import Outputs
from caveat.scores._statistics import ClassMoments, gather


def moments(outputs):
    return gather(outputs, [ClassMoments()])[ClassMoments()]


def test_mean_and_total_scatter_are_those_of_all_rows(train):
    centred = train.features - train.features.mean(axis=0)
    for said in (train, Outputs(features=train.features), Outputs(features=train.features, logits=train.logits)):
        found = moments(said)
        assert found.n == train.n
        np.testing.assert_allclose(found.global_mean, train.features.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found.total_scatter, centred.T @ centred, rtol=1e-10)


def test_two_halves_without_labels_add_up_to_the_whole(train):
    bare = Outputs(features=train.features)
    both, whole = moments(bare[:90]) + moments(bare[90:]), moments(bare)
    np.testing.assert_allclose(both.total_scatter, whole.total_scatter, rtol=1e-10)
    np.testing.assert_allclose(both.global_mean, whole.global_mean, rtol=1e-12)
