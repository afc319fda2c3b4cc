"""Tables about models: what the brackets are, and which file belongs to which seed."""

from __future__ import annotations

import numpy as np

from caveat.report.study_facts import CellFacts, gather
from caveat.report.study_model_tables import hash_table, model_table
from caveat.study.schema import COLUMNS, make_row


def facts_of(*rows, **options):
    columns = {name: np.asarray([row[name] for row in rows], dtype=object) for name in COLUMNS}
    return gather(columns, title="t", alpha=0.1, delta=0.05, **options)


def accuracy(value, seed=0, source="net", **others):
    given = {"lower": value - 0.1, "upper": value + 0.1, "level": 0.95, "n": 10} | others
    return make_row("metric", "accuracy", value, source=source, seed=seed, **given)


def shown(*rows):
    table = model_table(facts_of(*rows))
    return [(line.cells[1].text, line.cells[1].interval) for line in table.groups[0].lines], table.caption


def test_one_seed_has_its_interval():
    cells, caption = shown(accuracy(0.8))
    assert cells == [("80.0\xa0%", "[70.0\xa0%, 90.0\xa0%]")]
    assert caption.endswith("Brackets: 95\xa0% intervals.")


def test_seeds_have_a_range_even_where_they_agree():
    cells, caption = shown(accuracy(0.8), accuracy(0.8, seed=1), accuracy(0.8, seed=2))
    assert cells == [("80.0\xa0%", "[80.0\xa0%, 80.0\xa0%]")]
    assert caption.endswith("Brackets: range over 3 seeds.")


def test_a_caption_names_both_where_only_one_model_has_several_seeds():
    cells, caption = shown(accuracy(0.8), accuracy(0.7, seed=1), accuracy(0.6, source="other"))
    assert [interval for _, interval in cells] == ["[70.0\xa0%, 80.0\xa0%]", "[50.0\xa0%, 70.0\xa0%]"]
    assert caption.endswith("Brackets: range over 2 seeds; else 95\xa0% intervals.")


def test_numbers_without_intervals_have_no_brackets():
    bare = {"lower": np.nan, "upper": np.nan}
    cells, caption = shown(accuracy(0.8, **bare), accuracy(0.8, seed=1, **bare))
    assert cells == [("80.0\xa0%", "")]
    assert "Brackets" not in caption


def test_a_fingerprint_stands_beside_its_seeds():
    cells = [CellFacts(f"k{i}", "c", "net", 1.0, {}, {"train": value, "head": "h"}, seed)
             for i, (value, seed) in enumerate([("b", 0), ("b", 0), ("a", 1)])]  # fmt: skip
    table = hash_table(facts_of(accuracy(0.8), cells=cells))
    lines = [tuple(cell.text for cell in line.cells) for line in table.groups[0].lines]
    assert lines == [("net", "head", "0, 1", "h"), ("net", "train", "0", "b"), ("net", "train", "1", "a")]
