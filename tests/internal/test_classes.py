"""Labels as people write them become class numbers and names, and sets of one model agree on both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError, Outputs
from caveat._internal.classes import agreed_names, as_class_names, in_order, read_classes


def numbers(labels, names=None, n_classes=None, **more):
    columns, found = read_classes({"labels": labels}, names, n_classes, **more)
    return columns["labels"].tolist(), found


def test_text_is_sorted_where_nothing_has_columns_and_names_give_no_order():
    assert numbers(["dog", "cat", "dog"]) == ([1, 0, 1], ("cat", "dog"))
    assert numbers(["dog", "cat"], ["dog", "cat", "bird"]) == ([0, 1], ("dog", "cat", "bird"))
    assert numbers(np.array(["b", "a"], dtype=object), ["b", "a"], 2) == ([0, 1], ("b", "a"))
    assert numbers(np.array([b"b", b"a"])) == ([1, 0], ("a", "b"))


def test_text_beside_columns_needs_the_order_of_the_columns():
    # sorted, every answer of a model whose columns are plane, car, bird would be wrong, and nothing would say so
    with pytest.raises(InputError, match=r"3 class names \(bird, car, plane\).*which of the 3 columns.*--class"):
        numbers(["plane", "car", "bird"], None, 3)


def test_booleans_are_two_classes():
    assert numbers([True, False]) == ([1, 0], ("False", "True"))
    assert numbers([True, False], ["bad", "good"]) == ([1, 0], ("bad", "good"))
    assert numbers(np.array([True, True]), None, 2) == ([1, 1], ("False", "True"))
    with pytest.raises(InputError, match="two classes"):
        numbers([True, False], ["a", "b", "c"])
    with pytest.raises(InputError, match="3 classes"):
        numbers([True, False], None, 3)


def test_labels_from_one_are_shifted_only_where_nothing_else_is_possible():
    assert numbers([3, 1, 2, 1], None, 3) == ([2, 0, 1, 0], ("1", "2", "3"))
    assert numbers(np.array([3, 1], dtype=np.uint8), None, 3) == ([2, 0], ("1", "2", "3"))
    assert numbers([2.0, 1.0], None, 2) == ([1, 0], ("1", "2"))
    assert numbers([3, 1], ["a", "b", "c"]) == ([2, 0], ("a", "b", "c"))
    assert numbers([2, 1, 2], None, 3) == ([2, 1, 2], None)  # 1..C-1: class numbers, or counted from 1
    assert numbers([1, 2, 3]) == ([1, 2, 3], None)  # nobody says how many classes there are
    for wrong in ([3, 0, 1], [3, 3, 3], [1, 4]):  # a 0 too; one class alone, as a mark of outliers; beyond C
        with pytest.raises(InputError, match="between 0 and 2"):
            numbers(wrong, None, 3)


def test_names_that_are_numbers_are_looked_up():
    assert numbers([20, 10], [10, 20, 30]) == ([1, 0], ("10", "20", "30"))
    assert numbers([1, 2], [1, 2, 3]) == ([0, 1], ("1", "2", "3"))  # what an ambiguous set needs
    assert numbers([-1, 1], np.array([-1.0, 1.0])) == ([0, 1], ("-1", "1"))
    assert numbers(["2", "1"], range(1, 3)) == ([1, 0], ("1", "2"))
    assert numbers([0, 1], ["1", "2"]) == ([0, 1], ("1", "2"))  # names as text: numbers are class numbers


@pytest.mark.parametrize(
    ("labels", "names", "n_classes", "message"),
    [
        (["cat", "dog"], None, 3, "2 class names .* 3 columns .* Pass class_names"),
        (["cat", "cow"], ["cat", "dog"], None, "labels must be one of the class names cat, dog, got 'cow' at row 1"),
        ([0, 1], ["cat", "dog"], 3, "one class name for each of 3 classes, got 2"),
        ([0], ["cat", "cat"], None, "each class once, got 'cat' twice"),
        ([0], [None], None, "texts or numbers, got None"),
        ([0], [""], None, "texts or numbers, got ''"),
        ([0], [], None, "at least one entry"),
        (["cat", None], None, None, "got None at row 1"),
        (np.array([1, np.nan, "a"], dtype=object), None, None, "got nan at row 1"),
        ([10, 40], [10, 20], None, "one of the class names 10, 20, got 40 at row 1"),
        ([0.5], ["a", "b"], None, "whole class numbers"),
        ([-1, 0], None, 2, "between 0 and 1, got -1"),
        ([[0, 1]], None, 2, "vector of classes"),
    ],
)
def test_bad_labels_get_one_sentence(labels, names, n_classes, message):
    with pytest.raises(InputError, match=message):
        numbers(labels, names, n_classes)


def test_labels_and_predictions_share_their_names():
    columns, names = read_classes({"labels": ["b", "c"], "predictions": ["a", "b"]}, None, None)
    assert ({key: column.tolist() for key, column in columns.items()}, names) == (
        {"labels": [1, 2], "predictions": [0, 1]}, ("a", "b", "c"),
    )  # fmt: skip
    columns, names = read_classes({"labels": [1, 1], "predictions": [1, 3]}, None, 3)
    assert (columns["labels"].tolist(), columns["predictions"].tolist()) == ([0, 0], [0, 2])
    with pytest.raises(InputError, match="labels and predictions must both be class names or both be class numbers"):
        read_classes({"labels": ["b"], "predictions": [1]}, None, None)


def test_without_checks_numbers_are_never_shifted():
    assert numbers([3, 1], None, 3, check=False) == ([3, 1], None)


@given(st.integers(1, 6).flatmap(lambda k: st.tuples(st.just(k), st.lists(st.integers(0, k - 1), min_size=1))))
def test_every_way_to_write_the_same_labels_gives_the_same_numbers(drawn):
    k, labels = drawn
    names = [f"class {chr(97 + i)}" for i in range(k)]
    assert numbers([names[i] for i in labels], names)[0] == labels
    assert numbers(np.array([names[i] for i in labels], dtype=object), names)[0] == labels
    assert numbers([i + 1 for i in labels], range(1, k + 1))[0] == labels
    assert numbers([10 * i - 7 for i in labels], [10 * i - 7 for i in range(k)])[0] == labels
    assert numbers(labels, names)[0] == labels
    if len(set(labels)) > 1 and max(labels) == k - 1:
        assert numbers([i + 1 for i in labels], None, k) == (labels, tuple(str(i + 1) for i in range(k)))


# -- several sets -----------------------------------------------------------------------------------------------------


def wide(names, labels=None):
    return Outputs(logits=np.eye(len(names)), labels=labels, class_names=names)


def test_sets_of_one_model_take_the_order_of_the_first_with_columns():
    labels_only = Outputs(labels=["b", "a"])
    assert agreed_names({"train": labels_only, "inlier": wide(["c", "b", "a"]), "far": wide(["a", "b", "c"])}) == (
        "c", "b", "a",
    )  # fmt: skip
    assert agreed_names({"train": Outputs(logits=np.eye(2))}) is None
    assert agreed_names({"a": Outputs(labels=["x", "y"]), "b": Outputs(labels=["z"])}) == ("x", "y", "z")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (wide(["a", "b"]), wide(["a", "c"]), "train and inlier must have the same classes, but c is only in inlier"),
        (wide(["a", "b"]), Outputs(labels=["a", "z"]), "z is only in inlier"),
        (Outputs(labels=["a", "z"]), Outputs(labels=[0, 1]), "inlier has class numbers, and train has class names"),
        (wide(["1", "2"]), Outputs(logits=np.eye(2), labels=[0, 1]), "unclear which number is which class"),
    ],
)
def test_classes_that_differ_are_named(first, second, message):
    with pytest.raises(InputError, match=message):
        agreed_names({"train": first, "inlier": second})


def test_class_numbers_next_to_named_columns_count_the_columns():
    assert agreed_names({"train": wide(["cat", "dog"]), "inlier": Outputs(logits=np.eye(2), labels=[0, 1])}) == (
        "cat", "dog",
    )  # fmt: skip


def test_in_order_reorders_or_names_the_difference():
    turned = in_order(wide(["b", "a"], ["b", "a"]), ("a", "b"), name="outputs", of="the guard")
    assert (turned.class_names, turned.labels.tolist(), turned.logits.tolist()) == (
        ("a", "b"), [1, 0], [[0.0, 1.0], [1.0, 0.0]],
    )  # fmt: skip
    with pytest.raises(InputError, match="the guard and outputs .* c is only in outputs"):
        in_order(wide(["c", "a"]), ("a", "b"), name="outputs", of="the guard")
    with pytest.raises(InputError, match="outputs and the guard .* c is only in the guard"):
        in_order(wide(["b", "a"]), ("a", "b", "c"), name="outputs", of="the guard")
    same = wide(["a", "b"])
    assert in_order(same, None, name="", of="") is same


def test_numbers_can_be_names_of_any_kind():
    assert as_class_names(np.array([0.5, 1.0])).names == ("0.5", "1")
    assert as_class_names("cat").names == ("cat",)


def test_labels_in_numpys_string_type_are_names():
    labels = np.array(["dog", "cat"]).astype("T")
    numbers, names = read_classes({"labels": labels}, None, None)
    assert (numbers["labels"].tolist(), names) == ([1, 0], ("cat", "dog"))
