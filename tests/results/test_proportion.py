from __future__ import annotations

import pytest
from scipy.stats import binomtest

from caveat import InputError
from caveat.metrics import proportion_interval


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 17), (500, 1000), (1, 1)])
@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_agrees_with_scipy(hits, n, delta):
    found = proportion_interval(hits, n, delta=delta)
    expected = binomtest(hits, n).proportion_ci(1 - delta, method="exact")
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high))
    assert found.value == hits / n


@pytest.mark.parametrize(("hits", "n"), [(-1, 5), (6, 5), (0, 0), (1.5, 5)])
def test_bad_counts(hits, n):
    with pytest.raises(InputError):
        proportion_interval(hits, n)
