import math

import numpy as np
import pytest

pytest.importorskip("torch")
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caveat import InputError
from caveat.metrics import auroc
from caveat.nn.training.out_weight import choose_log_out_weight, gate_gap

ratios = arrays(np.float64, st.integers(1, 12), elements=st.floats(-300, 300))


def test_the_gap_by_hand():
    # sigma(log 3) = 3/4 and sigma(0) = 1/2, so (3/4 + 1/2) / 2 inside; sigma(-log 3) = 1/4 outside.
    third = math.log(3)
    assert gate_gap(2.0, inlier=[2 + third, 2.0], outlier_upper=[2 - third]) == pytest.approx(0.625 - 0.25)


def test_lambda_by_hand():
    # Far apart, so that each weight is 0 or 1. Cut at 150: 2/4 inside above, 0/2 outside; at 75: 3/4 - 0; at 25: 3/4 -
    # 1/2; at -45: 3/4 - 1; at -95: 1 - 1.
    assert choose_log_out_weight(inlier=[300.0, 200.0, 100.0, -90.0], outlier_upper=[50.0, -100.0]) == 75


def test_lambda_lies_in_the_middle_of_a_gap():
    assert choose_log_out_weight(inlier=[400.0, 100.0], outlier_upper=[-300.0, -500.0]) == -100


@settings(max_examples=50, deadline=None)
@given(inlier=ratios, outlier=ratios, at=st.integers(0, 22))
def test_no_other_middle_is_better(inlier, outlier, at):
    values = np.sort(np.concatenate([inlier, outlier]))
    other = (values[at % (values.size - 1)] + values[at % (values.size - 1) + 1]) / 2
    both = {"inlier": inlier, "outlier_upper": outlier}
    assert gate_gap(choose_log_out_weight(**both), **both) >= gate_gap(other, **both)


def test_the_gap_is_the_area_where_weights_are_nearly_0_or_1():
    rng = np.random.default_rng(0)
    inlier, outlier = rng.normal(300, 100, 500), rng.normal(-100, 100, 500)
    known, strange = (values > 20 for values in (inlier, outlier))
    area = auroc(inlier=-known.astype(float), outlier=-strange.astype(float))
    assert (1 + gate_gap(20.0, inlier=inlier, outlier_upper=outlier)) / 2 == pytest.approx(area, abs=0.01)


def test_nan_is_named():
    with pytest.raises(InputError, match="outlier_upper has NaN"):
        choose_log_out_weight(inlier=[1.0], outlier_upper=[np.nan])
