from __future__ import annotations

import sys

import numpy as np
import pytest

from caveat import InputError, MissingExtraError
from caveat.stats.tables import keep_rows, read_blocks, read_columns, split_columns

LONG = {
    "dataset": ["a", "a", "b", "b", "c"],
    "seed": [1, 1, 1, 1, 1],
    "score": ["msp", "knn", "knn", "msp", "msp"],
    "augrc": [0.1, 0.2, 0.4, 0.3, 0.5],
}
NAMED = {"block": ["dataset", "seed"], "method": "score", "value": "augrc"}


def rows():
    return [dict(zip(LONG, values, strict=True)) for values in zip(*LONG.values(), strict=True)]


def sources(tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(LONG)
    frame.to_csv(tmp_path / "long.csv", index=False)
    frame.to_csv(tmp_path / "long.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "long.parquet")
    yield from (LONG, rows(), frame, pyarrow.Table.from_pandas(frame), str(tmp_path / "long.csv"))
    yield from (tmp_path / "long.tsv", tmp_path / "long.parquet")


def test_every_source_gives_the_same_blocks(tmp_path):
    for table in sources(tmp_path):
        blocks = read_blocks(table, **NAMED)
        assert blocks.methods == ("knn", "msp")
        assert sorted(map(tuple, blocks.values)) == [(0.2, 0.1), (0.4, 0.3)]
        assert blocks.dropped == 1
        assert blocks.missing == ("knn",)


def test_wide_tables_and_arrays():
    wide = {"dataset": ["a", "b"], "msp": [1, 2], "knn": [3, 4]}
    blocks = read_blocks(wide, block="dataset")
    assert blocks.methods == ("msp", "knn")
    assert blocks.values.tolist() == [[1, 3], [2, 4]]
    assert read_blocks(wide, block="dataset", methods=["knn"]).values.tolist() == [[3], [4]]
    blocks = read_blocks([[1, 2], [3, np.nan]])
    assert blocks.methods == ("method 0", "method 1")
    assert (blocks.dropped, blocks.missing) == (1, ("method 1",))


def test_missing_cells_of_a_csv_drop_the_block(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n,3\nnan,3\n4,5\n", encoding="utf-8")
    blocks = read_blocks(tmp_path / "t.csv")
    assert blocks.values.tolist() == [[1, 2], [4, 5]]
    assert blocks.dropped == 2


def test_rows_can_be_kept_and_split():
    columns = read_columns(LONG)
    assert keep_rows(columns, {"dataset": "a", "score": "knn"})["augrc"].tolist() == [0.2]
    assert {name: part["augrc"].tolist() for name, part in split_columns(columns, "dataset").items()} == {
        "a": [0.1, 0.2], "b": [0.4, 0.3], "c": [0.5],
    }  # fmt: skip
    with pytest.raises(InputError, match="no row has score = msq; it has knn, msp"):
        keep_rows(columns, {"score": "msq"})
    with pytest.raises(InputError, match="no row has dataset = c and score = knn"):
        keep_rows(columns, {"dataset": "c", "score": "knn"})


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (LONG, {"block": "dataset", "method": "score"}, "needs both method and value"),
        (LONG, {"method": "score", "value": "augrc"}, "a long table needs block"),
        (LONG, {**NAMED, "value": "augr"}, "unknown column 'augr'. Did you mean 'augrc'"),
        (LONG, {**NAMED, "value": "score"}, "column 'score' must hold numbers"),
        (LONG, {}, "column 'dataset' is not numeric. In a wide table"),
        (LONG, {**NAMED, "block": "seed"}, "got 2 of score = knn at seed = 1. Add the column that tells them apart"),
        ({**LONG, "score": ["msp", None, "knn", "msp", "msp"]}, NAMED, "column 'score' has a missing value at row 1"),
        ({"a": [1, 2], "b": [1]}, {}, "a and b must have the same length"),
        ([], {}, "non-empty"),
        ([1.0, 2.0], {}, r"\(blocks x methods\) array, got shape \(2,\)"),
        ([[1.0, 2.0]], {"methods": ["a"]}, "2 different names"),
        ([[1.0, 2.0], [1.0]], {}, "table must have one value per method in every block"),
        ({"a": [1, 2], "b": [2, 1]}, {"methods": ["a", "a"]}, "methods must be different names"),
        ([{"a": 1}, {"b": 2}], {}, "same columns in every row"),
        ({}, {}, "columns of table must be a list with at least one"),
        ({"a": [], "b": []}, {}, "at least one row"),
    ],
)  # fmt: skip
def test_bad_tables_get_one_sentence(table, options, message):
    with pytest.raises(InputError, match=message):
        read_blocks(table, **options)


def test_bad_files_get_one_sentence(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_columns(tmp_path / "none.csv")
    (tmp_path / "short.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(InputError, match="a header and at least one row"):
        read_columns(tmp_path / "short.csv")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n", encoding="utf-8")
    with pytest.raises(InputError, match="has 2 columns, but line 3 has 1"):
        read_columns(tmp_path / "ragged.csv")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="two columns called 'a'"):
        read_columns(tmp_path / "twice.csv")


def test_bad_parquet_files_get_one_sentence(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="does not exist"):
        read_columns(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_text("not parquet", encoding="utf-8")
    with pytest.raises(InputError, match="is not a Parquet file"):
        read_columns(tmp_path / "bad.parquet")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading Parquet needs the extra 'stats'"):
        read_columns(tmp_path / "x.parquet")
