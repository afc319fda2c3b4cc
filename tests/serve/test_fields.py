"""Which arrays a guard needs of a request, and what is refused before it is asked."""

from __future__ import annotations

import numpy as np
import pytest
from tests.serve.conftest import draw

from caveat import Guard, Head, Outputs
from caveat.serve.fields import Fields
from caveat.serve.problems import Problem

HEAD = Head(np.eye(3, 8), np.zeros(3))


def refused(fields, match, **arrays):
    with pytest.raises(Problem, match=match) as problem:
        fields.outputs({name: np.asarray(array) for name, array in arrays.items()})
    assert problem.value.status == 422


def test_widths_are_those_that_the_guard_learned(logit_guard, feature_guard):
    assert Fields(logit_guard).widths == {"logits": 3}
    assert Fields(feature_guard).widths == {"features": 8}
    assert Fields(logit_guard, HEAD).widths == {"features": 8}  # logits follow from them


def test_an_array_without_a_name_is_the_only_field(logit_guard):
    assert Fields(logit_guard).only == "logits"
    rows = draw(300, seed=4)
    both = Guard("mahalanobis").fit(draw(300, seed=5)).calibrate(rows)
    assert Fields(both).widths == {"logits": 3, "features": 8}
    assert Fields(both).only is None


def test_what_the_guard_does_not_read_is_left_out(logit_guard):
    outputs = Fields(logit_guard).outputs({"logits": np.ones((2, 3)), "labels": np.zeros(9), "x": np.zeros(1)})
    assert set(outputs.arrays()) == {"logits"}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_floats_stay_what_they_are(logit_guard, dtype):
    assert Fields(logit_guard).outputs({"logits": np.ones((2, 3), dtype=dtype)}).logits.dtype == dtype


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8"])
def test_whole_numbers_become_float64(logit_guard, dtype):
    outputs = Fields(logit_guard).outputs({"logits": np.array([[1, 2, 3]], dtype=dtype)})
    assert outputs.logits.dtype == np.float64
    assert outputs.logits.tolist() == [[1, 2, 3]]


def test_whole_numbers_that_float64_would_change_are_refused(logit_guard):
    fields = Fields(logit_guard)
    assert fields.outputs({"logits": np.array([[2**53, -(2**53), 0]])}).logits[0, 0] == 2**53
    for number, dtype in ((2**53 + 1, "i8"), (-(2**53) - 1, "i8"), (2**64 - 1, "u8")):
        rows = np.zeros((3, 3), dtype=dtype)
        rows[2, 1] = number
        refused(fields, rf"logits must.*{number} at row 2", logits=rows)


@pytest.mark.parametrize(("value", "match"), [(np.nan, "logits has NaN, first at row 1"),
                                              (np.inf, "logits has an infinite value, first at row 1")])  # fmt: skip
def test_nan_and_infinity_are_named_with_field_and_row(logit_guard, value, match):
    refused(Fields(logit_guard), match, logits=[[1.0, 2.0, 3.0], [1.0, value, 3.0]])


@pytest.mark.parametrize("shape", [(), (3,), (2, 4), (2, 2), (1, 2, 3), (0, 3)])
def test_wrong_shapes_are_refused(logit_guard, shape):
    refused(Fields(logit_guard), "logits must", logits=np.ones(shape))


def test_missing_fields_are_named(logit_guard, feature_guard):
    refused(Fields(logit_guard), "needs logits, got features", features=np.ones((1, 8)))
    refused(Fields(feature_guard), "needs features, got nothing")


def test_rows_must_agree():
    both = Guard("mahalanobis").fit(draw(300, seed=5)).calibrate(draw(300, seed=4))
    refused(Fields(both), "same number of rows", logits=np.ones((2, 3)), features=np.ones((3, 8)))


def test_probabilities_stand_for_logits_only_where_the_guard_reads_probabilities():
    rows = draw(300, seed=4)
    p = np.array([[0.5, 0.25, 0.25]])
    reads_probs = Guard("msp").calibrate(rows)
    assert Fields(reads_probs).outputs({"probs": p}).probs.tolist() == p.tolist()
    refused(Fields(reads_probs), "sum to 1", probs=2 * p)
    refused(Fields(Guard("energy").calibrate(rows)), "needs logits", probs=p)


def test_logits_of_a_head_are_those_of_outputs(logit_guard):
    rows = draw(50, seed=6)
    outputs = Fields(logit_guard, HEAD).outputs({"features": rows.features})
    same = Outputs(features=rows.features, head=HEAD)
    assert np.array_equal(outputs.logits, same.logits)
    assert logit_guard(outputs).rows() == logit_guard(same).rows()


def test_one_logit_of_a_binary_guard_is_understood():
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=400)
    guard = Guard("energy").calibrate(Outputs(logits=z, labels=rng.random(400) < 1 / (1 + np.exp(-z))))
    fields = Fields(guard)
    assert fields.widths == {"logits": 2}
    assert fields.outputs({"logits": np.array([[1.5]])}).logits.tolist() == [[0.0, 1.5]]
    refused(fields, "logits must have 2 columns, got 3", logits=np.zeros((1, 3)))


def test_a_guard_of_a_confidence_alone_asks_for_no_logits():
    rng = np.random.default_rng(0)
    rows = Outputs(predictions=rng.integers(3, size=400), confidence=rng.random(400), labels=rng.integers(3, size=400))
    fields = Fields(Guard("confidence", sets=None, confidence="confidence").calibrate(rows))
    assert fields.widths == {"predictions": None, "confidence": None}
    assert fields.predicts
    outputs = fields.outputs({"predictions": np.array([2, 0]), "confidence": np.array([0.5, 0.75])})
    assert (outputs.predictions.tolist(), outputs.confidence.tolist()) == ([2, 0], [0.5, 0.75])
    refused(fields, "the guard needs predictions, confidence, got confidence", confidence=[0.5])
