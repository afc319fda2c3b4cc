from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores._statistics import ClassMoments, class_sums, gather, unit_rows
from caveat.scores.ctm import RightAnswers


def literal_scatter(features, labels):
    within = np.zeros((features.shape[1],) * 2)
    for c in np.unique(labels):
        rows = features[labels == c]
        for row in rows - rows.mean(axis=0):
            within += np.outer(row, row)
    return within


def test_moments_equal_the_literal_sums(train):
    moments = gather(train, [ClassMoments()])[ClassMoments()]
    np.testing.assert_allclose(moments.within_scatter, literal_scatter(train.features, train.labels), rtol=1e-10)
    np.testing.assert_allclose(moments.total_scatter, train.n * np.cov(train.features.T, bias=True), rtol=1e-10)
    for c in range(train.n_classes):
        np.testing.assert_allclose(moments.means[c], train.features[train.labels == c].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.global_mean, train.features.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("cut", [1, 7, 100, 239])
def test_two_halves_add_up_to_the_whole(train, cut):
    recipe = ClassMoments()
    both = gather(train[:cut], [recipe]) + gather(train[cut:], [recipe])
    whole = gather(train, [recipe])[recipe]
    np.testing.assert_allclose(both[recipe].within_scatter, whole.within_scatter, rtol=1e-9)
    np.testing.assert_allclose(both[recipe].means, whole.means, rtol=1e-10)
    np.testing.assert_array_equal(both[recipe].counts, whole.counts)


def test_no_cancellation_far_from_the_origin(train):
    # float32 features a million away from zero: the naive sum of squares would lose every digit of a unit variance
    near = train.features.astype(np.float32)
    far = (np.round(near * 8) / 8 + 1e5).astype(np.float32)  # a grid that float32 still holds exactly out there
    moments = gather(Outputs(features=far, labels=train.labels), [ClassMoments()])[ClassMoments()]
    truth = literal_scatter(far.astype(np.float64) - 1e5, train.labels)
    np.testing.assert_allclose(moments.within_scatter, truth, rtol=1e-4, atol=1e-4 * np.trace(truth) / len(truth))


def test_equal_recipes_are_filled_in_one_walk(train, monkeypatch):
    walks = []
    blocks = Outputs.blocks
    monkeypatch.setattr(Outputs, "blocks", lambda self, fields=None: walks.append(1) or blocks(self, fields))
    gathered = gather(train, [ClassMoments(), ClassMoments(), ClassMoments(normalize=True)])
    assert len(walks) == 1
    assert gathered[ClassMoments()] is gathered[ClassMoments()]
    assert gathered[ClassMoments()] is not gathered[ClassMoments(normalize=True)]


def test_a_recipe_can_be_used_again(train):
    recipe = ClassMoments()
    first = gather(train, [recipe])[recipe].counts.sum()
    assert gather(train, [recipe])[recipe].counts.sum() == first == train.n


def test_an_empty_class_is_named():
    outputs = Outputs(features=[[1.0], [2.0]], labels=[0, 2])
    moments = gather(outputs, [ClassMoments()])[ClassMoments()]
    with pytest.raises(InputError, match="no sample of class 1, and Mahalanobis needs every class"):
        moments.demand_every_class("Mahalanobis")


def test_statistics_of_other_shapes_do_not_add(make_outputs):
    with pytest.raises(InputError, match="same shape to be added"):
        gather(make_outputs(width=3), [ClassMoments()]) + gather(make_outputs(width=4), [ClassMoments()])


def test_class_sums_by_hand():
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(class_sums(rows, np.array([2, 0, 2]), 4), [[3, 4], [0, 0], [6, 8], [0, 0]])


def test_zero_rows_stay_zero():
    np.testing.assert_array_equal(unit_rows(np.array([[0.0, 0.0], [3.0, 4.0]])), [[0, 0], [0.6, 0.8]])


def test_rows_in_parts_are_one_class(train):
    moments = ClassMoments.of_rows([train.features[:10], train.features[10:11], train.features[11:]])
    np.testing.assert_allclose(moments.total_scatter, train.n * np.cov(train.features.T, bias=True), rtol=1e-10)
    np.testing.assert_allclose(moments.global_mean, train.features.mean(axis=0), rtol=1e-12)


def test_a_merged_statistic_goes_on_and_leaves_its_parts_alone(train):
    first, second, third = (gather(part, [RightAnswers()])[RightAnswers()] for part in (train[:9], train[9:30], train))
    kept = first.sums.copy()
    both = first + second
    both.update(train[30:])
    np.testing.assert_allclose(both.sums, third.sums, rtol=1e-12)
    np.testing.assert_array_equal(first.sums, kept)
