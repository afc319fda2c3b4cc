"""The masked reconstruction of the regression study: its loss is large where inputs are unusual."""

import numpy as np
import pytest

from caveat.conformal import DifficultyModel
from caveat.errors import NotFittedError


def test_self_supervised_scale_finds_the_unusual_inputs(study):
    # Rows off the plane that the training rows lie on have large residuals; only the reconstruction sees the plane.
    rng = np.random.default_rng(4)
    n = 4000
    x = rng.normal(size=(n, 3))
    odd = rng.random(n) < 0.3
    x = np.column_stack([x[:, 0], x[:, 1], x[:, 0] + x[:, 1] + np.where(odd, 2 * x[:, 2], 0)])
    residual = rng.normal(size=n) * np.where(odd, 3.0, 0.3)
    pretext = study("regression", "masked").MaskedReconstruction().fit(x[:1000][~odd[:1000]], rng)
    loss = pretext.loss(x, rng)
    assert loss[odd].mean() > 2 * loss[~odd].mean()
    fit, test = slice(0, 2000), slice(3000, n)
    scale = DifficultyModel().fit(x[fit], residual[fit], loss=loss[fit]).scale(x[test], loss=loss[test])
    assert np.median(scale[odd[test]]) > 3 * np.median(scale[~odd[test]])
    assert (scale > 0).all()


def test_the_loss_is_large_for_a_row_that_breaks_the_pattern(study):
    rng = np.random.default_rng(0)
    t = rng.normal(size=(500, 1))
    model = study("regression", "masked").MaskedReconstruction()
    with pytest.raises(NotFittedError, match="fit"):
        model.loss(t, rng)
    usual, odd = model.fit(np.hstack([t, 2 * t, -t]), rng).loss(np.array([[1.0, 2.0, -1.0], [1.0, -2.0, 1.0]]), rng)
    assert odd > 3 * usual
