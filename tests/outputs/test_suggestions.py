"""Proposals for keys, for a person who looks at a file."""

from __future__ import annotations

import numpy as np

from caveat.outputs.reading import open_file
from caveat.outputs.suggestions import column_groups, suggested_keys


def table(tmp_path, **columns):
    rows = zip(*columns.values(), strict=True)
    text = ",".join(columns) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    return open_file(tmp_path / "a.csv")


def test_numbered_columns_are_one_group(tmp_path):
    file = table(tmp_path, id=["x"], p_0=[0.5], p_1=[0.5], y=[1])
    assert column_groups(file) == {"id": ("id",), "p_*": ("p_0", "p_1"), "y": ("y",)}


def test_values_and_names_say_which_field_is_meant(tmp_path):
    file = table(tmp_path, id=["x", "z"], p_0=[0.5, 0.25], p_1=[0.5, 0.75], feat0=[1, 2], feat1=[3, 4], y=[1, 0])
    assert suggested_keys(file) == {"probs": "p_*", "features": "feat*", "labels": "y"}
    file = table(tmp_path, out0=[5.5, -1], out1=[0.5, 2], target=[1, 0], name_1=["a", "b"], name_2=["c", "d"])
    assert suggested_keys(file) == {"logits": "out*", "labels": "target"}


def test_columns_with_class_names_are_proposed_if_they_are_probabilities(tmp_path):
    file = table(tmp_path, user_id=[4, 5], user_age=[30, 31], p_cat=[0.5, 0.25], p_dog=[0.5, 0.75], y=["cat", "dog"])
    assert suggested_keys(file) == {"probs": "p_*", "labels": "y"}


def test_fields_that_are_there_need_no_proposal(tmp_path):
    file = table(
        tmp_path, logits_0=[5.5, -1], logits_1=[0.5, 2], labels=[0, 1], y=[0, 1], other_0=[1, 2], other_1=[1, 2]
    )
    assert suggested_keys(file) == {}


def test_arrays_and_weights(tmp_path):
    arrays = {
        "z_test": np.eye(3) * 4,
        "targets": np.arange(3),
        "fc.weight": np.ones((2, 2)),
        "images": np.ones((3, 2, 2)),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    assert suggested_keys(open_file(tmp_path / "a.npz")) == {"logits": "z_test", "labels": "targets"}


def test_columns_that_labels_name_are_proposed_as_logits(tmp_path):
    file = table(tmp_path, id=[7, 8, 9], cat=[2.5, -1, 0], dog=[0.5, 2, 1], eel=[0, 0, 3], label=["cat", "dog", "eel"])
    assert suggested_keys(file) == {"logits": "cat,dog,eel"}
    file = table(tmp_path, cat=[0.9, 0.25], dog=[0.1, 0.75], y=["cat", "dog"])
    assert suggested_keys(file) == {"labels": "y", "probs": "cat,dog"}
    assert suggested_keys(table(tmp_path, cat=[0.9, 0.25], dog=[0.1, 0.75], y=["cat", "cow"])) == {"labels": "y"}
