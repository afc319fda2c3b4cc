from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat_lab import data
from caveat_lab.data.tables import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_whole_and_match_the_list(name):
    table = data.table(name)
    known = data.KNOWN[name]
    assert len(table) == known.sizes["all"]
    assert known.shape == f"{table.rows.shape[1]} columns"
    assert len(table.columns) == table.rows.shape[1]
    assert set(np.unique(table.labels)) == set(range(len(table.classes)))


def test_an_unknown_table_gets_a_hint():
    with pytest.raises(InputError, match="unknown table 'wines'. Did you mean 'wine'"):
        data.table("wines")
