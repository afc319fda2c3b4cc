from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import Confidence


def test_reads_the_column_and_turns_it():
    np.testing.assert_array_equal(Confidence().score(Outputs(confidence=[0.9, 0.1])), [-0.9, -0.1])


def test_says_where_it_comes_from():
    with pytest.raises(InputError, match=r"needs outputs\.confidence, which is None\. Store the confidence"):
        Confidence().score(Outputs(logits=[[1.0, 0.0]]))
