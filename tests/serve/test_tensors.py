"""Requests of the Open Inference Protocol as bytes: arrays or a Problem, whatever comes; answers can be read back."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.serve.test_bodies import peak

from caveat.serve.problems import Problem
from caveat.serve.tensors import DATATYPES, InferenceRequest, Tensor, as_datatype, packed_answer, read_request

MOST = 1 << 20
NAMES = {np.dtype(kind): name for name, kind in DATATYPES.items()}


def body_of(*, binary=True, outputs=None, **arrays):
    """Body of a request and its header."""
    inputs, data = [], b""
    for name, array in arrays.items():
        item = {"name": name, "shape": list(array.shape), "datatype": NAMES[array.dtype]}
        if binary:
            data += array.tobytes()
            item["parameters"] = {"binary_data_size": array.nbytes}
        else:
            item["data"] = array.tolist()
        inputs.append(item)
    text = json.dumps({"inputs": inputs} | ({} if outputs is None else {"outputs": outputs})).encode()
    return text + data, str(len(text)) if binary else None


def read(body, length, names="xy"):
    return read_request(body, length, reads=lambda name: name in names, outputs=["kind", "score"], most=MOST)


ARRAYS = hnp.arrays(
    dtype=st.sampled_from(sorted(NAMES, key=str)),
    shape=hnp.array_shapes(min_dims=1, max_dims=4, max_side=4),
    elements=st.integers(0, 127),
)


@given(ARRAYS, ARRAYS, st.booleans())
def test_arrays_come_back_as_they_were_sent(x, y, binary):
    arrays = read(*body_of(x=x, y=y, binary=binary)).arrays
    for name, array in (("x", x), ("y", y)):
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)
        assert arrays[name].flags.aligned  # also behind JSON of any length


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_json_and_binary_give_the_same_float32(number):
    rows = np.array([[number]], dtype=np.float32)
    assert np.array_equal(*(read(*body_of(x=rows, binary=binary)).arrays["x"] for binary in (True, False)))


def refused_or_read(body, length):
    problem, arrays = None, {}
    try:
        arrays = read(body, length).arrays
    except Problem as refusal:
        problem = refusal
    if problem is not None:
        assert problem.status in (400, 413, 422)
        assert str(problem).endswith(".")
        assert len(str(problem)) < 700
    assert all(array.dtype.kind in "fiu" and array.size for array in arrays.values())


@given(st.binary(max_size=200), st.one_of(st.none(), st.text(max_size=5), st.integers(-5, 300).map(str)))
def test_any_bytes_are_read_or_refused(body, length):
    refused_or_read(body, length)


@settings(max_examples=300)
@given(st.data())
def test_a_changed_request_is_read_or_refused(data):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = [{"name": "kind", "parameters": {"binary_data": True}}]
    body, length = body_of(x=x, y=x.astype(np.int8), binary=data.draw(st.booleans()), outputs=outputs)
    body = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        how = data.draw(st.sampled_from(["set", "cut", "insert", "digit"]))
        if how == "set":
            body[place] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del body[place : place + data.draw(st.integers(1, 9))]
        elif how == "insert":
            body[place:place] = data.draw(st.binary(max_size=8))
        else:
            body[place : place + 1] = data.draw(
                st.sampled_from([b"9" * 30, b"-1", b"null", b"[]", b"{}", b"true", b'"'])
            )
        if not body:
            break
    assert peak(lambda: refused_or_read(bytes(body), length)) < 4 * MOST


@pytest.mark.parametrize(("array", "datatype", "match"), [
    ([1.0], "INT32", "whole numbers"), ([1, 300], "INT8", "fit into INT8, got 300 at row 1"),
    ([-1], "UINT64", "fit into UINT64, got -1 at row 0"), (np.array([2**63], dtype="u8"), "INT64", "fit into INT64"),
])  # fmt: skip
def test_numbers_that_a_type_cannot_hold_are_refused(array, datatype, match):
    with pytest.raises(Problem, match=match):
        as_datatype(np.asarray(array), datatype, "x")


def test_width_is_that_of_rows_that_are_vectors():
    assert [Tensor("x", "FP32", shape).width for shape in ((-1, 3), (-1, -1), (-1,), (-1, 3, 3))] == [
        3,
        None,
        None,
        None,
    ]


def test_an_answer_by_hand():
    request = InferenceRequest("7", {}, {"kind": True, "score": False, "p_value": True})
    columns = {"kind": ("BYTES", ["é", "outlier"]), "score": ("FP64", np.array([1.5, 2.0])),
               "p_value": ("FP64", np.array([0.5, 1.0]))}  # fmt: skip
    body, length = packed_answer({"model_name": "m"}, request, columns)
    assert json.loads(body[:length]) == {
        "model_name": "m",
        "id": "7",
        "outputs": [
            {"name": "kind", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 17}},
            {"name": "score", "datatype": "FP64", "shape": [2], "data": [1.5, 2.0]},
            {"name": "p_value", "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16}},
        ],
    }
    assert body[length:] == b"\2\0\0\0\xc3\xa9\7\0\0\0outlier" + struct.pack("<dd", 0.5, 1.0)
    assert packed_answer({}, InferenceRequest(None, {}, {"score": False}), columns)[1] is None
