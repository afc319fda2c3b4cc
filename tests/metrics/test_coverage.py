"""Coverage by class and in the worst slab."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import metrics
from caveat.errors import InputError
from caveat.metrics.coverage import _lowest_mean


def test_covgap_by_hand():
    # class 0 covered 2 of 2, class 1 covered 0 of 1, class 2 has no sample: (|1 - .9| + |0 - .9|) / 2
    assert metrics.covgap(covered=[1, 1, 0], labels=[0, 0, 1], alpha=0.1) == pytest.approx(0.5)
    assert metrics.covgap(covered=[1, 1, 0], labels=[0, 0, 5], alpha=0.1) == pytest.approx(0.5)


def test_coverage_has_its_interval():
    found = metrics.coverage([True, False, True, True])
    assert found.value == 0.75
    assert found.lower < 0.75 < found.upper


@given(values=st.lists(st.booleans(), min_size=1, max_size=40), least=st.integers(1, 40))
def test_the_lowest_run_is_found(values, least):
    values, least = np.array(values), min(least, len(values))
    every = [values[a:b].mean() for a in range(values.size) for b in range(a + least, values.size + 1)]
    start, stop, share = _lowest_mean(values, least)
    assert share == pytest.approx(min(every))
    assert values[start:stop].mean() == pytest.approx(share)
    assert stop - start >= least


def test_a_planted_slab_is_found_and_perfect_sets_are_not_blamed():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6000, 3))
    bad = np.abs(x @ np.array([0.6, 0.8, 0.0]) - 1) < 0.3
    covered = rng.random(6000) < np.where(bad, 0.4, 0.97)
    found = metrics.worst_slab_coverage(covered=covered, features=x, rng=rng, directions=300)
    assert found < 0.7
    fair = rng.random(6000) < 0.9
    again = metrics.worst_slab_coverage(covered=fair, features=x, rng=rng, directions=300)
    # measured on held-out samples: about 450 of them, so a standard error of 0.014
    assert abs(again - 0.9) < 0.06


def test_labels_in_place_of_coverage_are_refused():
    with pytest.raises(InputError, match="covered must hold booleans"):
        metrics.worst_slab_coverage(covered=[3, 1, 2], features=np.ones((3, 1)), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match=r"covered and features must have the same length, got 3 and 2"):
        metrics.worst_slab_coverage(covered=[1, 1, 0], features=np.ones((2, 1)), rng=np.random.default_rng(0))
