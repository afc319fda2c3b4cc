from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from caveat import InputError
from caveat._internal import checks


def test_nan_is_named_with_its_row():
    with pytest.raises(InputError, match=r"^outlier has NaN, first at row 1\. Drop or impute it before scoring\.$"):
        checks.as_vector([1.0, np.nan], "outlier")


def test_infinity_is_told_from_nan():
    with pytest.raises(InputError, match="logits has an infinite value, first at row 2"):
        checks.as_matrix([[0.0, 1.0], [0.0, 1.0], [np.inf, 0.0]], "logits")


def test_the_row_is_right_across_blocks(monkeypatch):
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 64)
    values = np.zeros((100, 2))
    values[77, 1] = np.nan
    with pytest.raises(InputError, match="row 77"):
        checks.check_finite(values, "features")


def test_infinite_scores_pass_where_they_may_but_nan_never_does():
    assert checks.as_vector([np.inf, 1.0], "s", allow_infinite=True)[0] == np.inf
    with pytest.raises(InputError, match="s has NaN, first at row 0"):
        checks.as_vector([np.nan], "s", allow_infinite=True)


@pytest.mark.parametrize("value", [[], [[1.0]], 3.0])
def test_a_vector_is_a_non_empty_vector(value):
    with pytest.raises(InputError, match="inlier must be a non-empty vector, got shape"):
        checks.as_vector(value, "inlier")


def test_float_types_are_kept_and_integers_widened():
    assert checks.as_matrix(np.zeros((1, 1), np.float32), "x").dtype == np.float32
    assert checks.as_matrix(np.zeros((1, 1), np.int8), "x").dtype == np.float64


def test_text_is_not_a_number():
    with pytest.raises(InputError, match="x must hold real numbers, got dtype <U1"):
        checks.as_vector(["a"], "x")


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
        checks.as_labels(labels, "labels", n_classes=3)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, np.nan, "0.1", None])
def test_levels_lie_strictly_between_0_and_1(value):
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1, got"):
        checks.as_level(value, "alpha")


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "3"])
def test_counts_are_whole(value):
    with pytest.raises(InputError, match="k must be a whole number, at least 1, got"):
        checks.as_count(value, "k")


@pytest.mark.parametrize("value", [0, -1, np.inf, np.nan, "1"])
def test_positive_numbers(value):
    with pytest.raises(InputError, match="temperature must be a positive number"):
        checks.as_positive(value, "temperature")


def test_masks_take_zeros_and_ones_and_nothing_else():
    assert checks.as_mask([1, 0], "correct").tolist() == [True, False]
    with pytest.raises(InputError, match="correct must hold booleans"):
        checks.as_mask([1, 2], "correct")


def test_an_unknown_name_gets_the_nearest_suggested():
    with pytest.raises(
        InputError, match=r"unknown score 'mahalanobi'\. Did you mean 'mahalanobis'\? Known: energy, mah"
    ):
        checks.check_known("mahalanobi", ["mahalanobis", "energy"], "score")
    with pytest.raises(InputError, match=r"unknown score 'zzz'\. Known: energy"):
        checks.check_known("zzz", ["energy"], "score")


def test_comparable_values_of_any_shape():
    assert checks.as_comparable([], "t").size == 0
    assert checks.as_comparable(3, "t").dtype == np.float64
    assert checks.as_comparable([[np.inf, -np.inf]], "t").shape == (1, 2)
    with pytest.raises(InputError, match="t has NaN, first at row 1"):
        checks.as_comparable([[0.0, 1.0], [2.0, np.nan]], "t")
    with pytest.raises(InputError, match="t has NaN, first at row 0"):
        checks.as_comparable(np.nan, "t")


def test_shares_lie_between_zero_and_one():
    assert checks.as_shares([], "p").size == 0
    assert checks.as_shares([0, 1], "p").tolist() == [0.0, 1.0]
    for value in (-0.1, 1.1, np.nan, np.inf):
        with pytest.raises(InputError, match="p (must lie between 0 and 1, got|has NaN, first) .*at row 1"):
            checks.as_shares([0.5, value], "p")
    with pytest.raises(InputError, match=r"p must be a vector, got shape \(\)"):
        checks.as_shares(0.5, "p")


def test_a_boundary_does_not_decrease():
    assert checks.as_boundary([0, 0.5, 0.5, 1], "b").tolist() == [0, 0.5, 0.5, 1]
    with pytest.raises(InputError, match=r"b must not decrease, got 0\.2 at row 1"):
        checks.as_boundary([0.4, 0.2], "b")


def test_a_number_between_two_ends():
    assert checks.as_number(np.float32(0.5), "q", least=0, most=1) == 0.5
    assert checks.as_number(-3, "shift") == -3.0
    for value in (-0.1, np.nan, np.inf, "1", True, None):
        with pytest.raises(InputError, match="kappa must be a finite number, at least 0, got"):
            checks.as_number(value, "kappa", least=0)
    with pytest.raises(InputError, match=r"q must be a finite number, at least 0 and at most 1, got 80"):
        checks.as_number(80, "q", least=0, most=1)
    with pytest.raises(InputError, match=r"shift must be a finite number, got inf"):
        checks.as_number(np.inf, "shift")


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_plain_array_and_no_other_kind_is_kept():
    product = checks.as_matrix(np.matrix([[1.0, 2.0]]), "x") * np.array([[3.0, 4.0]])
    assert product.tolist() == [[3.0, 8.0]]  # by element, where np.matrix would refuse


@pytest.mark.parametrize("check", [checks.as_matrix, checks.as_vector, checks.as_labels, checks.as_mask])
def test_a_masked_value_is_missing_and_not_passed_over(check):
    values = np.ma.masked_invalid([[0.0, 1.0], [np.nan, 1.0]])
    values = values if check is checks.as_matrix else values[:, 0]
    with pytest.raises(InputError, match="x has masked values, first at row 1"):
        check(values, "x")


@pytest.mark.parametrize("check", [checks.as_matrix, checks.as_vector, checks.as_labels, checks.as_mask])
def test_rows_of_several_lengths_get_one_sentence(check):
    with pytest.raises(InputError, match="x must be an array of numbers, got a list that numpy cannot read"):
        check([[1.0, 2.0], [3.0]], "x")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 2**63 + 5], np.uint64), r"got 9223372036854775813 at row 1"),
        ([0.0, 1e300], r"got 1e\+300 at row 1"),
    ],
)
def test_a_huge_label_is_shown_as_it_came(labels, message):
    with pytest.raises(InputError, match=f"labels must be between 0 and 2, {message}"):
        checks.as_labels(labels, "labels", n_classes=3)
    with pytest.raises(InputError, match=rf"labels must be between 0 and 1048575, {message}.* Number the classes"):
        checks.as_labels(labels, "labels")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 3], "row 3 is outside outputs with n = 3"),
        (np.array([-4, 0]), "row -4 is outside outputs with n = 3"),
        (np.array([True, False]), r"a mask and outputs must have the same length, got 2 and 3"),
        (np.array([[0, 1]]), r"must be chosen by a slice, .* got a ndarray \(int64, shape \(1, 2\)\)"),
        ([0.0, 1.0], r"got a list \(float64, shape \(2,\)\)"),
        ((slice(None), 0), "got a tuple"),
        ((0, 1), "got a tuple"),
        (None, "got a NoneType"),
        ("first", "got a str"),
        (True, "got a bool"),
    ],
)
def test_rows_that_do_not_exist_or_choose_nothing_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        checks.as_rows(rows, 3, "outputs")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "u8", "f2", "f4"])
def test_narrow_labels_of_many_classes_pass(kind):
    for classes in (100_000, None):
        assert checks.as_labels(np.array([1, 100], kind), "labels", n_classes=classes).tolist() == [1, 100]


def test_a_generator_passes_and_a_seed_makes_one():
    rng = np.random.default_rng(3)
    assert checks.as_rng(rng) is rng
    assert checks.as_rng(np.int64(3)).random() == np.random.default_rng(3).random()


@pytest.mark.parametrize("value", [None, -1, True, 0.5, "0", np.random.RandomState(0)])
def test_anything_else_is_no_generator(value):
    with pytest.raises(InputError, match="rng must be a numpy.random.Generator or a whole number"):
        checks.as_rng(value)


@pytest.mark.parametrize("value", [True, "0.1", None, [0.1], np.nan, 10**400])
def test_a_level_is_one_number(value):
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        checks.as_level(value, "alpha")


def test_foreign_float_types_become_native():
    assert checks.as_vector(np.array([1.0, 2.0], dtype=">f4"), "x").tolist() == [1.0, 2.0]
    assert checks.as_real_array(np.array([1.0], dtype=np.longdouble), "x").dtype == np.float64
    assert checks.as_real_array(np.array([1.0], dtype=">f4"), "x").dtype == np.float32


def test_lengths_that_differ_are_named():
    assert checks.same_length(score=[1], correct=[2]) == 1
    with pytest.raises(InputError, match="a, b and c must have the same length, got 1, 2 and 1"):
        checks.same_length(a=[1], b=[1, 2], c=[1])


def test_a_class_number_that_is_a_key_of_a_table_is_refused():
    with pytest.raises(InputError, match=r"between 0 and 1048575, got 1099511627776 at row 1.* Number the classes"):
        checks.as_labels([0, 2**40], "labels")
    assert checks.as_labels([0, 2**20 - 1], "labels").tolist() == [0, 2**20 - 1]


@pytest.mark.parametrize("value", [1e-301, 1e-320, 0.0, 1.0, np.nan])
def test_a_level_leaves_room_for_its_parts(value):
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        checks.as_level(value, "alpha")


def test_a_result_that_overflowed_is_an_error():
    assert checks.check_result([1.0, 2.0], "the score").tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="the score is NaN, first at row 2. Rescale"):
        checks.check_result(np.array([[1.0, 1.0], [2.0, 2.0], [1.0, np.nan]]), "the score")
    with pytest.raises(InputError, match=r"mmd is infinite\. Rescale"):
        checks.check_result(np.inf, "mmd")


def test_kinds_lists_and_pairs():
    assert checks.as_kind({"a": 1}, dict, "table") == {"a": 1}
    with pytest.raises(InputError, match="table must be of type dict, got a ndarray"):
        checks.as_kind(np.zeros(3), dict, "table")
    assert checks.as_list(iter([1, 2]), "ks") == [1, 2]
    for value in ([], None, 3, np.array(1.0)):
        with pytest.raises(InputError, match="ks must be a list with at least one entry"):
            checks.as_list(value, "ks")
    assert checks.as_pair([1, 2], "clip") == (1, 2)
    with pytest.raises(InputError, match=r"clip must hold two values, got \(1, 2, 3\)"):
        checks.as_pair((1, 2, 3), "clip")
    for value in (1, None, "True"):
        with pytest.raises(InputError, match="sure must be True or False"):
            checks.as_flag(value, "sure")


@pytest.mark.parametrize("value", [["msp"], np.array(["msp", "knn"]), None, 3, {"msp"}])
def test_a_name_is_text(value):
    with pytest.raises(InputError, match="unknown score .* Known: knn, msp"):
        checks.check_known(value, ["msp", "knn"], "score")


def test_a_level_is_read_as_the_fraction_that_was_meant():
    for percent in range(1, 100):
        assert checks.exact_level(1 - percent / 100, "alpha") == Fraction(100 - percent, 100)
    assert checks.exact_level(1 - 6 / 7, "alpha") == Fraction(1, 7)
    for kind in (np.float16, np.float32, np.longdouble):
        assert checks.exact_level(kind(0.7), "alpha") == Fraction(7, 10)
    for level in (0.1 + 1e-9, 3.4e-12, 1e-300, 1 - 1e-13, 0.123456789012345):
        assert abs(checks.exact_level(level, "alpha") - Fraction(level)) <= 1e-12 * min(1, 1e6 * level)
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        checks.exact_level(1.0, "alpha")


def test_values_that_break_a_condition_are_shown_with_their_row():
    checks.check_each(np.empty(0), np.empty(0, dtype=bool), "x", "be large")
    for array, message in [
        (np.array(-1.0), r"x must be large, got -1\.$"),
        (np.array([[5.0, 5.0], [5.0, np.nan]]), "got nan at row 1"),
        (np.array([7, -3]), "got -3 at row 1"),
    ]:
        with pytest.raises(InputError, match=message):
            checks.check_each(array, np.asarray(array > 0), "x", "be large")


def test_inputs_lie_inside_clip():
    checks.check_inside(np.array([[-9.0]]), None, "x")
    checks.check_inside(np.array([[0.0, 1.0]]), (0, 1), "x")
    with pytest.raises(InputError, match=r"x must lie between 0 and 1, got 1\.5 at row 1\. Scale the inputs"):
        checks.check_inside(np.array([[0.0], [1.5]]), (0, 1), "x")
    with pytest.raises(InputError, match=r"clip must be \(smallest, largest\)"):
        checks.check_inside(np.array([[0.5]]), (1, 0), "x")
    with pytest.raises(InputError, match="clip must hold two values"):
        checks.check_inside(np.array([[0.5]]), (0, 1, 2), "x")  # type: ignore[arg-type]


def test_what_must_be_the_same():
    assert checks.check_same("shape", a=(2, 3), b=(2, 3)) == (2, 3)
    assert checks.check_same("width", a=3) == 3
    with pytest.raises(InputError, match=r"a, b and c must have the same shape, got \(1,\), \(1,\) and \(2,\)"):
        checks.check_same("shape", a=(1,), b=(1,), c=(2,))


def test_what_lacks_a_method_is_named():
    with pytest.raises(InputError, match=r"model must have fit and predict, got a dict_keys\. Give one\."):
        checks.as_able({}.keys(), ("fit", "predict"), "model", hint="Give one.")


def test_an_empty_default_is_not_listed_as_known():
    with pytest.raises(InputError, match="Known: far, mid, near\\."):
        checks.check_known("middle", ("", "near", "mid", "far"), "regime")
