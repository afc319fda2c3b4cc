"""SHE: the stored pattern of the predicted class."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat.scores import SHE
from caveat.scores._statistics import gather
from caveat.scores.ctm import RightAnswers

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def test_by_hand():
    # Of class 0, (2, 0) and (4, 0) are right, (0, 9) is taken for class 1: pattern (3, 0). Class 1: (0, 1).
    head = Head([[1.0, 0.0], [0.0, 1.0]])
    train = Outputs(features=[[2.0, 0.0], [4.0, 0.0], [0.0, 9.0], [0.0, 1.0]], labels=[0, 0, 0, 1], head=head)
    found = SHE().fit(train).score(Outputs(features=[[5.0, 1.0], [1.0, 2.0]], head=head))
    np.testing.assert_array_equal(found, [-15, -2])


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    expected = []
    for h, predicted in zip(test.features, test.predictions, strict=True):
        right = [
            g for g, y, p in zip(train.features, train.labels, train.predictions, strict=True) if y == p == predicted
        ]
        expected.append(-np.dot(h, np.mean(right, axis=0)) if right else 0.0)
    np.testing.assert_allclose(SHE().fit(train).score(test), expected, rtol=1e-10)


def test_a_class_without_a_right_answer_scores_zero():
    train = Outputs(features=[[1.0], [2.0]], logits=[[1.0, 0.0], [1.0, 0.0]], labels=[0, 1])
    found = SHE().fit(train).score(Outputs(features=[[5.0], [5.0]], logits=[[1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(found, [-5, 0])


def test_no_right_answer_at_all():
    train = Outputs(features=[[1.0], [2.0]], logits=[[0.0, 1.0], [1.0, 0.0]], labels=[0, 1])
    np.testing.assert_array_equal(SHE().fit(train).score(train), [0, 0])


def test_two_halves_add_up_to_the_whole(train):
    whole = gather(train, [RightAnswers()])[RightAnswers()]
    both = gather(train[:100], [RightAnswers()])[RightAnswers()] + gather(train[100:], [RightAnswers()])[RightAnswers()]
    np.testing.assert_array_equal(both.counts, whole.counts)
    np.testing.assert_allclose(both.sums, whole.sums, rtol=1e-13)


def test_other_classes_than_in_training_are_an_error(make_outputs):
    with pytest.raises(InputError, match="outputs must have 4 classes as in training, got 5"):
        SHE().fit(make_outputs()).score(make_outputs(classes=5))
