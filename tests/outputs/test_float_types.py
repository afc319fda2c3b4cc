"""Narrower float types: only what is wider changes, and what does not change is shared."""

from __future__ import annotations

import numpy as np

from caveat import Outputs
from caveat.outputs.float_types import in_float_types


def test_wider_arrays_are_narrowed_and_others_shared():
    outputs = Outputs(
        features=np.full((2, 3), 0.1), logits=np.zeros((2, 2), np.float32), labels=[0, 1], layers={"a": np.ones((2, 4))}
    )
    narrow = in_float_types(outputs, {"features": "float32", "logits": "float64", "layer.a": "float16"})
    assert [narrow.features.dtype, narrow.logits.dtype, narrow.layers["a"].dtype] == ["float32", "float32", "float16"]
    np.testing.assert_array_equal(narrow.features, np.full((2, 3), 0.1, np.float32))
    assert np.shares_memory(narrow.logits, outputs.logits)
    assert narrow.labels.tolist() == [0, 1]
    assert in_float_types(outputs, {"features": "float64"}) is outputs
