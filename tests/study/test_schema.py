"""Every row of a study has every column, of its type."""

from __future__ import annotations

import math

import numpy as np
import pytest

from caveat import InputError
from caveat.results import Estimate
from caveat.study.schema import COLUMNS, complete, estimate_row, make_row, uniform_rows


def test_a_row_has_all_columns_in_order():
    row = make_row("metric", "auroc", 0.9, outlier="svhn")
    assert list(row) == list(COLUMNS)
    assert (row["kind"], row["metric"], row["value"], row["outlier"]) == ("metric", "auroc", 0.9, "svhn")
    assert row["projection"] == "none"
    assert math.isnan(row["x"])
    assert row["n"] == 0


def test_an_estimate_fills_its_columns():
    row = estimate_row("metric", "auroc", Estimate(0.9, 0.8, 0.95, level=0.95, n=7, method="DeLong", caveat="Small."))
    assert [row[name] for name in ("value", "lower", "upper", "level", "n", "method", "caveat")] == [
        0.9, 0.8, 0.95, 0.95, 7, "DeLong", "Small.",
    ]  # fmt: skip


def test_an_unknown_column_or_kind_or_type_is_an_error():
    with pytest.raises(InputError, match="unknown column of a study's row 'valeu'. Did you mean 'value'"):
        complete({"kind": "metric", "valeu": 1.0})
    with pytest.raises(InputError, match="unknown kind of row 'metrics'. Did you mean 'metric'"):
        make_row("metrics", "auroc", 1.0)
    with pytest.raises(InputError, match="column 'value' of a row must be float, got 'high'"):
        make_row("metric", "auroc", "high")


def test_rows_of_a_task_keep_their_columns_after_the_parameters():
    rows = uniform_rows([{"auc": np.float64(0.5), "n": np.int64(3), "ok": True}], {"set": "a", "n": 9})
    assert rows == [{"set": "a", "auc": 0.5, "n": 3, "ok": True}]
    assert [type(value) for value in rows[0].values()] == [str, float, int, bool]


def test_rows_of_a_task_that_name_a_kind_are_completed():
    (row,) = uniform_rows([{"kind": "certificate", "metric": "gauc", "value": 1}], {"source": "good", "epsilon": 0.1})
    assert list(row) == list(COLUMNS)
    assert (row["source"], row["value"]) == ("good", 1.0)


def test_rows_that_are_no_dicts_or_differ_are_errors():
    with pytest.raises(InputError, match="must give rows as dicts, got tuple"):
        uniform_rows([(1, 2)], {})
    with pytest.raises(InputError, match="must have the same columns, got a and b"):
        uniform_rows([{"a": 1}, {"b": 1}], {})
    with pytest.raises(InputError, match="column 'a' of a row must be text, a number or a truth value, got list"):
        uniform_rows([{"a": [1]}], {})
