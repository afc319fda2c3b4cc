"""Which columns are which field: own names, keys, natural order, gaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat.outputs.keys import as_slice, class_columns, columns_of_fields


def fields(names, keys=None, **options):
    return columns_of_fields(names, keys, **({"table": True} | options))


@given(
    count=st.integers(1, 130),
    first=st.sampled_from([0, 1]),
    mark=st.sampled_from(["_", ".", ""]),
    seed=st.integers(0, 99),
)
def test_numbered_columns_come_in_the_order_of_their_numbers(count, first, mark, seed):
    names = [f"logits{mark}{i}" for i in range(first, first + count)]
    shuffled = np.random.default_rng(seed).permutation(names).tolist()
    assert fields(shuffled) == {"logits": tuple(names)}
    assert fields([f"p{name}" for name in shuffled], {"logits": "plogits*"}) == {
        "logits": tuple(f"p{name}" for name in names)
    }


def test_own_names_of_a_table():
    names = ["id", "label", "confidence", "features.0", "features.1", "layer.block1_0", "layer.block1_1", "embeddings"]
    assert fields(names) == {
        "labels": ("label",), "confidence": ("confidence",), "features": ("features.0", "features.1"),
        "layer.block1": ("layer.block1_0", "layer.block1_1"), "embeddings": ("embeddings",),
    }  # fmt: skip
    assert fields(["layer.0_0", "layer.0_1"], lists=["layer.0_1", "layer.0_0"]) == {
        "layer.0_0": ("layer.0_0",), "layer.0_1": ("layer.0_1",),
    }  # fmt: skip
    assert fields(["mc_logits", "head_weight", "x"]) == {}  # a row has no room for them


@pytest.mark.parametrize(("names", "keys", "key_words"), [
    (["logits_0", "logits_2"], None, "without gaps, got 'logits_2' but no number 1"),
    (["logits_2", "logits_3"], None, "from 0 or 1"),
    (["logits_1", "logits_01", "logits_2"], None, "got 1 twice"),
    (["p_1", "p_3"], {"probs": "p_*"}, "no number 2"),
    (["p_1", "p_2", "p_max"], {"probs": "p_*"}, "'p_max' among them"),
    (["label", "labels"], None, "two columns for labels, 'label' and 'labels'"),
    (["logits", "logits_0"], None, "a column 'logits' and numbered ones"),
    (["a", "b"], {"logits": "a,c"}, "no column 'c'. It has a, b"),
    (["a", "b"], {"logits": "a,a"}, "names a column twice"),
    (["a", "b"], {"logits": "z_*"}, r"no column 'z_\*'"),
])  # fmt: skip
def test_what_cannot_be_meant_is_named(names, keys, key_words):
    with pytest.raises(InputError, match=key_words):
        fields(names, keys)


def test_keys_of_tables():
    names = ["cat", "dog", "a,b", "y", "f1", "f2", "logits_0"]
    assert fields(names, {"probs": "dog, cat", "labels": "y", "logits": ""}) == {
        "probs": ("dog", "cat"), "labels": ("y",),
    }  # fmt: skip
    assert fields(names, {"confidence": "a,b", "features": "f*"}) == {
        "confidence": ("a,b",), "features": ("f1", "f2"), "logits": ("logits_0",),
    }  # fmt: skip


def test_columns_with_class_names_keep_the_order_of_the_file():
    assert fields(["p_dog", "p_cat", "y"], {"probs": "p_*"})["probs"] == ("p_dog", "p_cat")
    assert class_columns("p_*", ("p_dog", "p_cat")) == ("dog", "cat")
    assert class_columns("dog,cat", ("dog", "cat")) == ("dog", "cat")


def test_a_file_of_arrays_with_several_sets_gives_the_named_fields_alone():
    whole = ["logits", "labels", "confidence", "logits_test", "y_test"]
    named = {"logits": "logits_test", "labels": "y_test"}
    assert fields(whole, named, table=False) == {"logits": ("logits_test",), "labels": ("y_test",)}
    assert fields(["logits", "features", "y"], {"labels": "y"}, table=False) == {
        "labels": ("y",), "logits": ("logits",), "features": ("features",),
    }  # fmt: skip
    assert fields(["logits", "labels"], {"labels": ""}, table=False) == {"logits": ("logits",)}
    with pytest.raises(InputError, match="has no array 'y'. It has logits"):
        fields(["logits"], {"labels": "y"}, table=False)


def test_an_optional_field_may_be_missing():
    assert fields(["logits_0"], {"labels": "y"}, optional=["labels"]) == {"logits": ("logits_0",)}
    with pytest.raises(InputError, match="no column 'y'"):
        fields(["logits_0"], {"labels": "y"})


@given(
    start=st.none() | st.integers(-30, 30), stop=st.none() | st.integers(-30, 30), step=st.none() | st.integers(1, 9)
)
def test_slices_are_those_of_python(start, stop, step):
    text = f"{'' if start is None else start}:{'' if stop is None else stop}" + ("" if step is None else f":{step}")
    assert range(20)[as_slice(text, "rows")] == range(20)[start:stop:step]


@pytest.mark.parametrize("text", ["5", "", "a:b", "::0", "::-1", "1:2:3:4", "-:", "::00", "9" * 5000 + ":"])
def test_other_texts_are_no_slices(text):
    with pytest.raises(InputError, match="rows must be a slice"):
        as_slice(text, "rows")
