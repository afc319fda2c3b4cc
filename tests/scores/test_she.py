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


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("shape", SHAPES)
def test_variants_of_the_comparison(metric, shape, make_outputs):
    """One sample at a time, with torch's definitions: minus the cosine similarity, or the Euclidean distance."""
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    right = train.predictions == train.labels
    patterns = {c: train.features[right & (train.labels == c)].mean(axis=0) for c in np.unique(train.labels[right])}
    expected = []
    for h, predicted in zip(test.features, test.predictions, strict=True):
        if metric == "euclidean":
            far = {c: np.sqrt(np.sum((h - pattern) ** 2)) for c, pattern in patterns.items()}
            expected.append(far.get(predicted, max(far.values())))
        else:
            m = patterns.get(predicted, np.zeros_like(h))
            expected.append(-h @ m / (np.linalg.norm(h) * (np.linalg.norm(m) or 1)))
    np.testing.assert_allclose(SHE(metric=metric).fit(train).score(test), expected, rtol=1e-10, atol=1e-15)


def test_variants_by_hand():
    # Pattern of class 0: (3, 0). h = (3, 4): cosine 9 / (3 * 5) = 0.6, distance 4.
    head = Head([[1.0, 0.0], [0.0, 1.0]], [9.0, 0.0])
    train = Outputs(features=[[2.0, 0.0], [4.0, 0.0]], labels=[0, 0], head=head)
    asked = Outputs(features=[[3.0, 4.0]], head=head)
    assert SHE(metric="cosine").fit(train).score(asked) == pytest.approx([-0.6])
    assert SHE(metric="euclidean").fit(train).score(asked) == pytest.approx([4.0])
    with pytest.raises(InputError, match="metric"):
        SHE(metric="manhattan")


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
