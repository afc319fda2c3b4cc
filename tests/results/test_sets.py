"""Printed form and summaries of prediction sets and intervals."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from caveat.errors import InputError
from caveat.results import Intervals, PredictionSets
from caveat.results.sets import stack_rows

MEMBER = np.array([[True, True, False], [False, False, False], [True, False, False], [False, True, True]])


@pytest.mark.parametrize("member", [MEMBER, csr_array(MEMBER)], ids=["dense", "sparse"])
def test_sets_by_hand(member):
    sets = PredictionSets(member, alpha=0.1, level=0.91)
    assert sets.sizes.tolist() == [2, 0, 1, 2]
    assert sets.covers([1, 0, 0, 0]).tolist() == [True, False, True, False]
    assert sets.coverage([1, 0, 0, 0]) == 0.5
    # class 0: rows 1, 2, 3 of which row 2 is covered; class 1: row 0; class 2: no sample
    assert sets.class_coverage([1, 0, 0, 0]) == pytest.approx([1 / 3, 1.0, np.nan], nan_ok=True)
    assert sets.labels(3).tolist() == [1, 2]
    assert str(sets) == ("4 prediction sets over 3 classes: mean size 1.25, 1 single, 1 empty; coverage promised 0.910")
    np.testing.assert_array_equal(sets.to_csr().toarray(), MEMBER)
    with pytest.raises(InputError, match=r"same length, got 4 and 1"):
        sets.covers([1])
    with pytest.raises(InputError, match="labels must be between 0 and 2"):
        sets.covers([3, 0, 0, 0])


def test_stacking_blocks():
    for sparse in (False, True):
        whole = stack_rows([MEMBER[:1], MEMBER[1:3], MEMBER[3:]], sparse=sparse)
        np.testing.assert_array_equal(whole.toarray() if sparse else whole, MEMBER)


def test_intervals_by_hand():
    intervals = Intervals(np.array([0.0, 3.0, -np.inf]), np.array([2.0, 1.0, np.inf]), alpha=0.2, level=0.8, delta=0.05)
    assert intervals.widths.tolist() == [2.0, 0.0, np.inf]
    assert intervals.covers([2.0, 2.0, 1e9]).tolist() == [True, False, True]
    assert intervals.bounds.shape == (3, 2)
    assert "1 infinite, 1 empty; coverage promised 0.800 with confidence 0.95" in str(intervals)
    with pytest.raises(InputError, match=r"intervals and y must have the same length, got 3 and 2"):
        intervals.covers([0.0, 1.0])


def test_sets_show_the_names_of_their_classes():
    member = np.array([[True, False, True], [False, False, False]])
    for content in (member, csr_array(member)):
        sets = PredictionSets(content, alpha=0.1, level=0.9, class_names=("cat", "dog", "bee"))
        assert (sets.names(0), sets.names(1)) == (["cat", "bee"], [])
        assert sets.covers(["bee", "dog"]).tolist() == sets.covers([2, 1]).tolist() == [True, False]
        with pytest.raises(InputError, match="one of the class names cat, dog, bee, got 'cow'"):
            sets.covers(["cow", "dog"])
    assert PredictionSets(member, alpha=0.1, level=0.9).names(0) == ["0", "2"]
