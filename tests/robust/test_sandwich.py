from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat_lab.robust import sandwich

GOOD = {"inlier": [0.9, 0.8], "outlier": [0.1, 0.2], "outlier_attacked": [0.1, 0.85], "outlier_upper": [0.4, 0.95]}


def test_by_hand():
    # clean: both outliers below both inliers: 1. Attacked: 0.85 beats 0.8: 3/4. Bounds: 0.95 beats both: 2/4.
    found = sandwich(**GOOD)
    assert (found.clean, found.adversarial, found.guaranteed) == (1.0, 0.75, 0.5)
    assert found.gap == 0.25
    # 95 % of two inliers is both: threshold 0.8; one bound of two lies above
    assert found.guaranteed_fpr95 == 0.5


@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), m=st.integers(1, 30), ties=st.booleans())
def test_the_order_always_holds(seed, n, m, ties):
    rng = np.random.default_rng(seed)
    inlier, clean = rng.random(n), rng.random(m)
    if ties:
        inlier, clean = inlier.round(1), clean.round(1)
    attacked = clean + rng.choice([0, 0.1, 0.3], m)
    found = sandwich(inlier=inlier, outlier=clean, outlier_attacked=attacked, outlier_upper=attacked + rng.random(m))
    assert found.guaranteed <= found.adversarial <= found.clean
    assert found.conservative_guaranteed <= found.conservative_adversarial <= found.conservative_clean
    assert found.conservative_guaranteed <= found.guaranteed


def test_an_attack_above_its_certificate_is_an_error():
    with pytest.raises(InputError, match="outlier_attacked must not exceed outlier_upper, got 0.85 at row 1"):
        sandwich(**{**GOOD, "outlier_upper": [0.4, 0.5]})


def test_an_attack_below_the_clean_value_is_an_error():
    with pytest.raises(InputError, match="Count the clean point"):
        sandwich(**{**GOOD, "outlier_attacked": [0.05, 0.85]})


def test_areas_of_different_samples_are_refused():
    # Pitfall 11: 10,000 points for one area and 1,000 for another let AAUC fall under GAUC by chance
    with pytest.raises(InputError, match="same length"):
        sandwich(**{**GOOD, "outlier_upper": [0.4, 0.95, 0.5]})


def test_rounding_is_forgiven_and_does_not_turn_the_order():
    found = sandwich(inlier=[0.5], outlier=[0.5], outlier_attacked=[0.5 - 1e-12], outlier_upper=[0.5 - 2e-12])
    assert found.guaranteed <= found.adversarial <= found.clean


def test_the_share_of_zero_gradients_is_shown():
    assert "zero gradients 95 %" in str(sandwich(**GOOD, zero_gradient_share=0.95))
