r"""A scale for normalized intervals from a difficulty model that also sees a self-supervised loss: SSCP.

A model of the inputs alone (for example, one that fills in masked columns) is poor where inputs are unusual, and there
the regression tends to be poor too. Its loss is one more input of the model that predicts the size of the residual:

$$ \sigma(x) = \exp \hat r(x, \ell(x)), \qquad \hat r \approx \log |y - \mu(x)| $$

Seedat, Jeffares, Imrie and van der Schaar, "Improving Adaptive Conformal Prediction Using Self-Supervised Learning",
AISTATS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_able, as_matrix, as_vector, check_each, check_result, same_length
from caveat._internal.params import check_params, positive
from caveat.errors import InputError, NotFittedError

__all__ = ["DifficultyModel"]

Floats = NDArray[np.float64]


@final
@dataclass(eq=False)
class DifficultyModel:
    """Predicts the size of a regression's residual: a positive scale for ``SplitIntervals("normalized")``.

    Fit it on samples that neither trained the regression nor calibrate the intervals.

    Parameters
    ----------
    regressor
        Any scikit-learn regressor; None: gradient boosting on histograms.
    floor
        Least scale, as a share of the median absolute residual: no interval shrinks to a point.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.random(size=(500, 1))
    >>> residual = rng.normal(size=500) * (0.1 + x[:, 0])
    >>> scale = DifficultyModel().fit(x, residual).scale([[0.05], [0.95]])
    >>> bool(scale[1] > 2 * scale[0])
    True
    """

    regressor: Any = None
    floor: float = positive(0.05)

    def __post_init__(self) -> None:
        check_params(self)
        if self.regressor is not None:
            as_able(self.regressor, ("fit", "predict"), "regressor")

    def fit(self, x: ArrayLike, residual: ArrayLike, *, loss: ArrayLike | None = None) -> Self:
        """Learn log |residual| from the inputs and, if given, from their self-supervised loss.

        Parameters
        ----------
        x
            Inputs, shape (n, d).
        residual
            Errors of the predictor on them, shape (n,).
        loss
            Self-supervised loss of the inputs, shape (n,), or None.
        """
        size = np.abs(as_vector(residual, "residual"))
        inputs = self._inputs(x, loss)
        same_length(x=inputs, residual=size)
        middle = float(np.median(size))
        if not middle > 0:
            raise InputError("at least half of the residuals are 0, so no difficulty can be learned.")
        self.least_ = self.floor * middle
        self.with_loss_, self.columns_ = loss is not None, inputs.shape[1]
        if self.regressor is None:
            from sklearn.ensemble import HistGradientBoostingRegressor

            model = HistGradientBoostingRegressor(max_iter=100, learning_rate=0.05, max_leaf_nodes=15)
        else:
            from sklearn.base import clone

            model = clone(self.regressor)
        self.model_ = model.fit(inputs, np.log(np.maximum(size, self.least_)))
        return self

    def scale(self, x: ArrayLike, *, loss: ArrayLike | None = None) -> Floats:
        """A positive scale for each row, shape (n,).

        Parameters
        ----------
        x
            Inputs, shape (n, d).
        loss
            Self-supervised loss of the inputs, where ``fit`` had it.

        Returns
        -------
        array of shape (n,)
            The ``scale`` of normalized intervals.
        """
        if not hasattr(self, "model_"):
            raise NotFittedError("DifficultyModel has not seen residuals. Call fit(x, residual) before scale(...).")
        if self.with_loss_ != (loss is not None):
            raise InputError("give the self-supervised loss both to fit and to scale, or to neither.")
        inputs = as_matrix(self._inputs(x, loss), "x", width=self.columns_)
        predicted = np.asarray(self.model_.predict(inputs), dtype=np.float64)
        return check_result(np.maximum(np.exp(predicted), self.least_), "the scale")

    def _inputs(self, x: ArrayLike, loss: ArrayLike | None) -> Floats:
        rows = as_matrix(x, "x").astype(np.float64)
        check_result(rows.sum(axis=0), "the sum of a column")
        if loss is None:
            return rows
        extra = as_vector(loss, "loss")
        same_length(x=rows, loss=extra)
        check_each(extra, extra >= 0, "loss", "be 0 or larger")
        return np.hstack([rows, np.log(extra + 1e-12)[:, None]])
