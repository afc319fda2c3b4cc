from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat.scores import Scale

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def test_by_hand():
    # k = 2 of 4; h = (1, 1, 1, 1): s_1 = 4, s_2 = 2, r = e^2: logits (e^2, 3 e^2), plus the bias (0, 1) unscaled
    head = Head([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]], [0.0, 1.0])
    value = Scale(percentile=50).score(Outputs(features=[[1.0, 1.0, 1.0, 1.0]], head=head))
    r = np.exp(2)
    assert value == pytest.approx([-np.log(np.exp(r) + np.exp(3 * r + 1))])


@shapes
def test_is_the_formula_of_the_paper(n, width, classes, make_outputs):
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    k = max(1, width - round(width * 0.85))
    expected = []
    for h in test.features:
        r = np.exp(h.sum() / sum(sorted(h)[-k:]))
        expected.append(-np.logaddexp.reduce(test.head.weight @ (r * h) + test.head.bias))
    np.testing.assert_allclose(Scale().score(test), expected, rtol=1e-9)


def test_zero_rows_and_negative_features_stay_finite():
    rng = np.random.default_rng(0)
    features = np.vstack([np.zeros((1, 8)), rng.normal(size=(50, 8)), -rng.random((5, 8))])
    values = Scale().score(Outputs(features=features, head=Head(rng.normal(size=(3, 8)))))
    assert np.isfinite(values).all()


def test_messages():
    with pytest.raises(InputError, match="percentile must be strictly between 0 and 100, got 0"):
        Scale(percentile=0)
