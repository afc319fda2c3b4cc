"""What was answered is read back from a record bit for bit."""

from __future__ import annotations

import json
import math

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st
from tests.serve.conftest import draw

from caveat import Outputs
from caveat.guard import Verdicts
from caveat.serve.audit.content import canonical, encode_verdicts, merged_verdicts

NUMBERS = st.floats(allow_nan=False, allow_infinity=True)
COLUMNS = ("kind", "score", "p_values", "conditional_p_values", "predictions", "doubt")


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_any_numbers_come_back_bit_for_bit(feature_guard, rows):
    guard = feature_guard
    score, doubt = np.array(rows).T.copy()
    verdicts = Verdicts(kind=np.full(len(rows), "outlier", "<U7"), score=score, p_values=np.abs(doubt),
                        conditional_p_values=np.abs(score), threshold=guard.threshold_, doubt=doubt)  # fmt: skip
    body = encode_verdicts(verdicts)
    again = merged_verdicts(guard, [body])
    for name in COLUMNS:
        old, new = getattr(verdicts, name), getattr(again, name)
        assert (old is None and new is None) or old.tobytes() == new.tobytes()
    assert encode_verdicts(again) == body


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_numbers_are_written_as_those_of_a_list(feature_guard, rows):
    table = np.array(rows)  # its columns have strides
    verdicts = Verdicts(kind=np.full(len(rows), "accept", "<U7"), score=table[:, 0], p_values=table[:, 1],
                        conditional_p_values=table[:, 0], threshold=feature_guard.threshold_)  # fmt: skip
    content = json.loads(encode_verdicts(verdicts))
    for name, column in (("score", table[:, 0]), ("p_value", table[:, 1])):
        plain = [value if math.isfinite(value) else str(value) for value in column.tolist()]
        assert f'"{name}":'.encode() + orjson.dumps(plain) in encode_verdicts(verdicts)
        assert content[name] == plain


def test_short_floats_are_written_with_all_their_digits(feature_guard):
    score = np.array([0.1, 1 / 3], dtype=np.float32)
    verdicts = Verdicts(kind=np.full(2, "accept", "<U7"), score=score, p_values=score, conditional_p_values=score,
                        threshold=1.0, predictions=np.array([0, 2], dtype=np.int32))  # fmt: skip
    content = json.loads(encode_verdicts(verdicts))
    assert content["score"] == score.tolist() == [0.10000000149011612, 0.3333333432674408]
    assert content["prediction"] == [0, 2]


def test_merged_records_are_the_rows_one_after_the_other(logit_guard):
    outputs = Outputs(logits=draw(70, seed=5).logits)
    parts = [slice(0, 1), slice(1, 65), slice(65, 70)]
    merged = merged_verdicts(logit_guard, [encode_verdicts(logit_guard(outputs[part])) for part in parts])
    assert merged.rows() == logit_guard(outputs).rows()


def test_canonical_json_has_one_form():
    assert canonical({"b": 0.1, "a": [1, None]}) == canonical({"a": [1, None], "b": 0.1}) == b'{"a":[1,null],"b":0.1}'
