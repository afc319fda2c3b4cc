from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, _checks


def test_nan_is_named_with_its_row():
    with pytest.raises(InputError, match=r"^outlier has NaN, first at row 1\. Drop or impute it before scoring\.$"):
        _checks.as_vector([1.0, np.nan], "outlier")


def test_infinity_is_told_from_nan():
    with pytest.raises(InputError, match="logits has an infinite value, first at row 2"):
        _checks.as_matrix([[0.0, 1.0], [0.0, 1.0], [np.inf, 0.0]], "logits")


def test_the_row_is_right_across_blocks(monkeypatch):
    monkeypatch.setattr("caveat._blocks.BLOCK_BYTES", 64)
    values = np.zeros((100, 2))
    values[77, 1] = np.nan
    with pytest.raises(InputError, match="row 77"):
        _checks.check_finite(values, "features")


def test_infinite_scores_pass_where_they_may_but_nan_never_does():
    assert _checks.as_vector([np.inf, 1.0], "s", allow_infinite=True)[0] == np.inf
    with pytest.raises(InputError, match="s has NaN, first at row 0"):
        _checks.as_vector([np.nan], "s", allow_infinite=True)


@pytest.mark.parametrize("value", [[], [[1.0]], 3.0])
def test_a_vector_is_a_non_empty_vector(value):
    with pytest.raises(InputError, match="inlier must be a non-empty vector, got shape"):
        _checks.as_vector(value, "inlier")


def test_float_types_are_kept_and_integers_widened():
    assert _checks.as_matrix(np.zeros((1, 1), np.float32), "x").dtype == np.float32
    assert _checks.as_matrix(np.zeros((1, 1), np.int8), "x").dtype == np.float64


def test_text_is_not_a_number():
    with pytest.raises(InputError, match="x must hold real numbers, got dtype <U1"):
        _checks.as_vector(["a"], "x")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3], "labels must be between 0 and 2, got 3 at row 1"),
        ([-1, 0], "labels must be between 0 and 2, got -1 at row 0"),
        ([0.5, 1], "whole class numbers, got 0.5 at row 0"),
        (["cat"], "Encode class names"),
        ([], "non-empty vector of class numbers"),
    ],
)
def test_labels_are_class_numbers(labels, message):
    with pytest.raises(InputError, match=message):
        _checks.as_labels(labels, "labels", n_classes=3)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, np.nan, "0.1", None])
def test_levels_lie_strictly_between_0_and_1(value):
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1, got"):
        _checks.as_level(value, "alpha")


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "3"])
def test_counts_are_whole(value):
    with pytest.raises(InputError, match="k must be a whole number, at least 1, got"):
        _checks.as_count(value, "k")


@pytest.mark.parametrize("value", [0, -1, np.inf, np.nan, "1"])
def test_positive_numbers(value):
    with pytest.raises(InputError, match="temperature must be a positive number"):
        _checks.as_positive(value, "temperature")


def test_masks_take_zeros_and_ones_and_nothing_else():
    assert _checks.as_mask([1, 0], "correct").tolist() == [True, False]
    with pytest.raises(InputError, match="correct must hold booleans"):
        _checks.as_mask([1, 2], "correct")


def test_an_unknown_name_gets_the_nearest_suggested():
    with pytest.raises(
        InputError, match=r"unknown score 'mahalanobi'\. Did you mean 'mahalanobis'\? Known: energy, mah"
    ):
        _checks.check_known("mahalanobi", ["mahalanobis", "energy"], "score")
    with pytest.raises(InputError, match=r"unknown score 'zzz'\. Known: energy"):
        _checks.check_known("zzz", ["energy"], "score")


def test_comparable_values_of_any_shape():
    assert _checks.as_comparable([], "t").size == 0
    assert _checks.as_comparable(3, "t").dtype == np.float64
    assert _checks.as_comparable([[np.inf, -np.inf]], "t").shape == (1, 2)
    with pytest.raises(InputError, match="t has NaN, first at row 1"):
        _checks.as_comparable([[0.0, 1.0], [2.0, np.nan]], "t")
    with pytest.raises(InputError, match="t has NaN, first at row 0"):
        _checks.as_comparable(np.nan, "t")


def test_shares_lie_between_zero_and_one():
    assert _checks.as_shares([], "p").size == 0
    assert _checks.as_shares([0, 1], "p").tolist() == [0.0, 1.0]
    for value in (-0.1, 1.1, np.nan, np.inf):
        with pytest.raises(InputError, match="p must lie between 0 and 1, got .* at row 1"):
            _checks.as_shares([0.5, value], "p")
    with pytest.raises(InputError, match=r"p must be a vector, got shape \(\)"):
        _checks.as_shares(0.5, "p")


def test_a_boundary_does_not_decrease():
    assert _checks.as_boundary([0, 0.5, 0.5, 1], "b").tolist() == [0, 0.5, 0.5, 1]
    with pytest.raises(InputError, match=r"b must not decrease, got 0\.2 after 0\.4 at row 1"):
        _checks.as_boundary([0.4, 0.2], "b")


def test_a_number_between_two_ends():
    assert _checks.as_number(np.float32(0.5), "q", least=0, most=1) == 0.5
    assert _checks.as_number(-3, "shift") == -3.0
    for value in (-0.1, np.nan, np.inf, "1", True, None):
        with pytest.raises(InputError, match="kappa must be a finite number, at least 0, got"):
            _checks.as_number(value, "kappa", least=0)
    with pytest.raises(InputError, match=r"q must be a finite number, at least 0 and at most 1, got 80"):
        _checks.as_number(80, "q", least=0, most=1)
    with pytest.raises(InputError, match=r"shift must be a finite number, got inf"):
        _checks.as_number(np.inf, "shift")
