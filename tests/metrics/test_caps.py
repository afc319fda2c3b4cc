"""The cap of a correction: reached, never exceeded."""

from __future__ import annotations

import numpy as np
import pytest

from caveat.conformal import boundary
from caveat.metrics import conformal_auroc
from caveat.metrics._caps import concave_hull, correction_cap


def test_the_cap_is_reached_by_equal_outliers():
    n = 400
    bound = boundary(n, 0.05, "exact")
    found = conformal_auroc(inlier=np.arange(n), outlier=[349.5], delta=0.05, method=bound)
    assert found.value - found.lower == pytest.approx(correction_cap(found.value, bound), abs=1e-5)


@pytest.mark.parametrize("method", ["exact", "simes", "dkwm", "monte_carlo"])
@pytest.mark.parametrize("seed", range(4))
def test_the_cap_is_never_exceeded(method, seed):
    rng, n = np.random.default_rng(seed), 200
    bound = boundary(n, 0.05, method)
    inlier, outlier = rng.normal(size=n), rng.normal(rng.normal(1, 1), rng.gamma(1) + 0.01, size=100)
    found = conformal_auroc(inlier=inlier, outlier=outlier, delta=0.05, method=bound)
    assert found.value - found.lower <= correction_cap(found.value, bound) + 1e-9


def test_the_hull_is_concave_and_above():
    x, y = np.arange(50.0), np.random.default_rng(0).normal(size=50)
    corner = concave_hull(x, y)
    assert (np.interp(x, x[corner], y[corner]) >= y - 1e-12).all()
    assert (np.diff(np.diff(y[corner]) / np.diff(x[corner])) <= 1e-12).all()
