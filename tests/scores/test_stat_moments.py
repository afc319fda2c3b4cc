from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores._stat_mean import FeatureMean
from caveat.scores._stat_moments import FeatureMoments
from caveat.scores._statistics import gather


def gathered(wanted, rows):
    return gather(Outputs(features=rows), [wanted])[wanted]


def test_mean_and_scatter_are_those_of_numpy(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(300, 6)) + 1e4  # far from the origin: no cancellation
    monkeypatch.setattr("caveat._blocks.BLOCK_BYTES", 1024)
    found = gathered(FeatureMoments(), rows)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.scatter, np.cov(rows.T, bias=True) * 300, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(gathered(FeatureMean(), rows).mean, rows.mean(axis=0), rtol=1e-13)


def test_two_parts_add_up_to_one_pass_over_both():
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(40, 5)), rng.normal(size=(7, 5)) + 9
    both, once = gathered(FeatureMoments(), one) + gathered(FeatureMoments(), two), np.vstack([one, two])
    np.testing.assert_allclose(both.mean, once.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(both.scatter, np.cov(once.T, bias=True) * 47, rtol=1e-10)
    means = gathered(FeatureMean(), one) + gathered(FeatureMean(), two)
    np.testing.assert_allclose(means.mean, once.mean(axis=0), rtol=1e-12)
    assert both.n == means.n == 47


def test_an_empty_part_changes_nothing():
    rows = np.random.default_rng(0).normal(size=(40, 5))
    filled, empty = gathered(FeatureMoments(), rows), FeatureMoments()
    empty.begin(Outputs(features=rows))
    for both in (filled + empty, empty + filled):
        np.testing.assert_array_equal(both.scatter, filled.scatter)


@pytest.mark.parametrize("kind", [FeatureMean, FeatureMoments])
def test_other_widths_do_not_add(kind):
    with pytest.raises(InputError, match="of 5 and 6 features cannot be added"):
        gathered(kind(), np.ones((3, 5))) + gathered(kind(), np.ones((3, 6)))
