from __future__ import annotations

import numpy as np

from caveat import Outputs
from caveat.conformal.nonconformity import lac


def test_lac_by_hand():
    np.testing.assert_allclose(lac(Outputs(logits=[[np.log(3), 0.0]])), [[0.25, 0.75]])
    np.testing.assert_allclose(lac(Outputs(probs=[[0.9, 0.1]])), [[0.1, 0.9]])
