"""CSV and TSV: both readers agree, and what is wrong is named with row and column."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caveat import InputError, Outputs
from caveat.outputs.text_tables import TextTable

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture(params=["pyarrow", "plain"])
def reader(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    else:
        pytest.importorskip("pyarrow.csv")


def write(tmp_path, text, name="a.csv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
def test_numbers_come_back_bit_for_bit(tmp_path, reader, rows):
    path = write(tmp_path, "features_0,features_1\n" + "".join(f"{a!r},{b!r}\n" for a, b in rows))
    np.testing.assert_array_equal(Outputs.load(path).features, rows)


@pytest.mark.parametrize(("text", "key_words"), [
    ("confidence\n1\nhigh\n", "column 'confidence' must hold numbers, got 'high' at row 1"),
    ("confidence,labels\n1,0\n,0\n", "column 'confidence' has no value at row 1"),
    ("labels,confidence\n0,1\n,1\n", "column 'labels' has no value at row 1"),
    ("confidence,labels\n1,0\n2\n", "2 columns, but row 1 has 1 values"),
    ("confidence,confidence\n1,0\n", "two columns called 'confidence'"),
    ("confidence\n", "no rows to read"),
    ("", "no columns"),
    (b"confidence\n\xff\n", "cannot be read as a text table in UTF-8"),
    ('confidence\n"1\n', "cannot be read as a text table"),
    ("confidence\nnan\n", "confidence has NaN, first at row 0"),
    ("confidence\n1e999\n", "confidence has an infinite value"),
    ("confidence\n" + "1" * 200_000 + "\n", "a.csv"),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, reader, text, key_words):
    with pytest.raises(InputError, match=key_words):
        Outputs.load(write(tmp_path, text))


@pytest.mark.parametrize("text", [
    "confidence,id\r\n1.5,x\r\n2.5,y\r\n", "confidence,id\n1.5,x\n2.5,y", "\ufeffconfidence,id\n1.5,x\n\n2.5,y\n",
    'confidence,id\n1.5,"a, b"\n2.5,"two\nlines"\n', '"confidence","id"\n"1.5",x\n 2.5 ,y\n',
])  # fmt: skip
def test_line_ends_quotes_marks_and_empty_lines(tmp_path, reader, text):
    table = TextTable(write(tmp_path, text))
    assert table.n == 2
    np.testing.assert_array_equal(table.read({"confidence": ("confidence",)})["confidence"], [1.5, 2.5])


@pytest.mark.parametrize(("cells", "labels"), [
    (["0", "2", "1"], [0, 2, 1]), (["1.0", "0.0", "2.0"], [1, 0, 2]), (["b", "a", "c"], [1, 0, 2]),
])  # fmt: skip
def test_labels_are_numbers_where_all_of_them_are(tmp_path, cells, labels):
    path = write(tmp_path, "labels\n" + "\n".join(cells) + "\n")
    np.testing.assert_array_equal(Outputs.load(path).labels, labels)
    table = TextTable(write(tmp_path, "labels\nTrue\nfalse\n"))
    assert table.read({"labels": ("labels",)})["labels"].tolist() == [True, False]


def test_many_rows_in_several_blocks(tmp_path, reader):
    values = np.arange(10_000.0)
    path = write(tmp_path, "confidence\tlabels\n" + "".join(f"{v}\t{int(v) % 3}\n" for v in values), "a.tsv")
    outputs = Outputs.load(path, rows="4000:9999:7")
    np.testing.assert_array_equal(outputs.confidence, values[4000:9999:7])
    np.testing.assert_array_equal(outputs.labels, values[4000:9999:7] % 3)


def test_another_separator_is_named_with_the_remedy(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("logits_0;logits_1;labels\n1;2;0\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"holds ';': columns of a .csv file are separated by ','.*to_csv"):
        Outputs.load(path)


def test_a_column_without_a_name_is_said_to_have_none(tmp_path, recwarn):
    path = tmp_path / "a.csv"
    path.write_text(",logits_0,logits_1\n0,1,2\n", encoding="utf-8")
    assert Outputs.load(path).n == 1
    assert [str(w.message) for w in recwarn] == [f"{path}: ignored unknown keys (a column without a name)."]
