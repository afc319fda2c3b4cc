"""Tables of pandas, pyarrow and polars as outputs, chosen by name, list or pattern."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.outputs.frames import chosen_columns

pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")

COLUMNS = {
    "prob_dog": [0.9, 0.2, 0.4], "prob_cat": [0.1, 0.8, 0.6], "f1": [1.0, 2.0, 3.0], "f2": [0, 1, 0],
    "label": ["dog", "cat", "dog"], "answer": ["dog", "cat", "cat"], "p": [0.9, 0.8, 0.6], "row": [7, 8, 9],
}  # fmt: skip


class PolarsLike:
    """What a table of polars offers: a list of names, and columns with to_numpy."""

    def __init__(self, table):
        self._table, self.columns = table, list(table)

    def __getitem__(self, name):
        return pandas.Series(self._table[name])


TABLES = {"dict": dict, "pandas": pandas.DataFrame, "pyarrow": pyarrow.table, "polars": PolarsLike}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_every_kind_of_table_gives_the_same(make):
    outputs = Outputs.from_frame(make(COLUMNS), probs="prob_*", labels="label", features=["f2", "f1"])
    np.testing.assert_array_equal(outputs.probs, np.column_stack([COLUMNS["prob_dog"], COLUMNS["prob_cat"]]))
    np.testing.assert_array_equal(outputs.features, np.column_stack([COLUMNS["f2"], COLUMNS["f1"]]))
    assert outputs.class_names == ("dog", "cat")  # the order of the columns, not of the alphabet
    assert outputs.correct.tolist() == [True, True, False]
    answers = Outputs.from_frame(make(COLUMNS), predictions="answer", confidence="p", labels="label")
    assert answers.correct.tolist() == [True, True, False]
    assert answers.confidence.tolist() == COLUMNS["p"]


def test_numbers_in_names_are_counted_not_spelled():
    names = [f"z{i}" for i in reversed(range(12))]
    assert chosen_columns("z*", "logits", [*names, "other"]) == tuple(f"z{i}" for i in range(12))
    assert chosen_columns("p_*", "logits", ["p_b", "p_a"]) == ("p_b", "p_a")
    with pytest.raises(InputError, match="z10.*no number 2"):
        chosen_columns("z*", "logits", ["z10", "z0", "z1"])


def test_one_column_is_a_binary_problem_or_a_column_of_lists():
    frame = pandas.DataFrame({"p": [0.2, 0.9], "y": [False, True], "z": [[1.0, 0.0], [0.0, 2.0]]})
    assert Outputs.from_frame(frame, probs="p", labels="y").correct.tolist() == [True, True]
    np.testing.assert_array_equal(Outputs.from_frame(frame, logits="z").logits, [[1, 0], [0, 2]])
    lists = pyarrow.table({"z": pyarrow.array([[1.0, 0.0], [0.0, 2.0]])})
    np.testing.assert_array_equal(Outputs.from_frame(lists, logits="z").logits, [[1, 0], [0, 2]])


def test_given_names_win_over_those_of_the_columns():
    frame = {"p_0": [0.9], "p_1": [0.1], "y": ["no"]}
    assert Outputs.from_frame(frame, probs="p_*", labels="y", class_names=["no", "yes"]).correct.tolist() == [True]
    with pytest.raises(InputError, match="are 1 class names"):
        Outputs.from_frame(frame, probs="p_*", labels="y")


@pytest.mark.parametrize(
    ("frame", "columns", "message"),
    [
        (COLUMNS, {"logits": "logit_*"}, r"logits='logit_\*' matches no column. The table has prob_dog"),
        (COLUMNS, {"labels": "lable"}, "unknown column for labels 'lable'. Did you mean 'label'"),
        (COLUMNS, {"logit": "f1"}, "unknown field of a table 'logit'"),
        (COLUMNS, {"features": ["f1", "label"]}, "features must be columns of numbers, got .* in 'label'"),
        (COLUMNS, {"labels": 3}, "labels must be the name of a column, got 3"),
        ([[1.0]], {"labels": "y"}, "frame must be a table of pandas, polars or pyarrow"),
        (pandas.DataFrame([[1, 2]], columns=["y", "y"]), {"labels": "y"}, "more than one column 'y'"),
        ({"z": np.array([[1.0], [1.0, 2.0]], dtype=object)}, {"logits": "z"}, "lists of one length"),
        (pandas.DataFrame({"y": [1.0, None], "p": [0.1, 0.2]}), {"probs": "p", "labels": "y"}, "labels has NaN"),
        (pandas.DataFrame({"y": ["a", None], "p": [0.1, 0.2]}), {"probs": "p", "labels": "y"}, "at row 1"),
    ],
)
def test_bad_tables_get_one_sentence(frame, columns, message):
    with pytest.raises(InputError, match=message):
        Outputs.from_frame(frame, **columns)
