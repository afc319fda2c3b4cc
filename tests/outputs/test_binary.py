"""One column of a binary problem becomes two, the positive class second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import Head, InputError, Outputs
from caveat.conformal import SplitSets
from caveat.scores import MSP


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_one_probability_by_hand(shape):
    outputs = Outputs(probs=np.array([0.25, 1.0, 0.5]).reshape(shape), labels=[True, True, False])
    np.testing.assert_array_equal(outputs.probs, [[0.75, 0.25], [0.0, 1.0], [0.5, 0.5]])
    assert outputs.predictions.tolist() == [0, 1, 0]
    assert outputs.correct.tolist() == [False, True, True]
    assert (outputs.n_classes, outputs.class_names) == (2, ("False", "True"))


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=20))
def test_one_logit_gives_the_logistic_function(z):
    outputs = Outputs(logits=z)
    np.testing.assert_allclose(outputs.probs[:, 1], 1 / (1 + np.exp(-np.array(z))), rtol=1e-12)


def test_one_logit_keeps_its_type():
    assert Outputs(logits=np.array([[1.0], [-2.0]], dtype=np.float16)).logits.dtype == np.float16


def test_passes_and_copies_of_one_column():
    outputs = Outputs(mc_logits=[[[1.0], [2.0]]], ease_probs=[[[0.2], [0.9]]])
    np.testing.assert_array_equal(outputs.mc_logits, [[[0, 1], [0, 2]]])
    np.testing.assert_allclose(outputs.ease_probs, [[[0.8, 0.2], [0.1, 0.9]]])


def test_a_head_with_one_row_gives_the_logits_of_one_column():
    features = np.random.default_rng(0).normal(size=(5, 3))
    weight = [[1.0, -2.0, 0.5]]
    by_head = Outputs(features=features, head=Head(weight, [0.25]))
    by_column = Outputs(logits=features @ np.array(weight).T + 0.25)
    np.testing.assert_allclose(by_head.logits, by_column.logits)
    assert by_head.head.n_classes == 2
    both = Outputs(logits=by_column.logits[:, 1], features=features, head=Head(weight, [0.25]))  # they agree on C
    assert both.n_classes == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"probs": [0.2, 1.5]}, r"probs must lie between 0 and 1 .* got 1\.5 at row 1"),
        ({"probs": [0.2, np.nan]}, "probs has NaN, first at row 1"),
        ({"logits": [np.inf]}, "logits has an infinite value"),
        ({"logits": [0.5, 1.0], "labels": ["a", "a"]}, "1 class names .* 2 columns"),
        ({"logits": [0.5], "labels": [2]}, "between 0 and 1, got 2"),
    ],
)
def test_bad_columns_get_one_sentence(fields, message):
    with pytest.raises(InputError, match=message):
        Outputs(**fields)


def test_sets_and_scores_of_one_column_are_those_of_two():
    rng = np.random.default_rng(0)
    p = rng.random(200)
    labels = rng.random(200) < p
    one, two = Outputs(probs=p, labels=labels), Outputs(probs=np.column_stack([1 - p, p]), labels=labels.astype(int))
    np.testing.assert_array_equal(MSP().score(one), MSP().score(two))
    sets = [SplitSets(alpha=0.2).calibrate(part[:100]).predict(part[100:]) for part in (one, two)]
    np.testing.assert_array_equal(sets[0].member, sets[1].member)
    assert sets[0].names(0) == [("False", "True")[c] for c in sets[0].labels(0)]
