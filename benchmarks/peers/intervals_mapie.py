"""MAPIE: split conformal intervals from given predictions.

Documentation: https://mapie.readthedocs.io, ``SplitConformalRegressor`` with ``prefit=True``.
"""

from mapie.regression import SplitConformalRegressor
from sklearn.base import BaseEstimator, RegressorMixin
from turns import run


class GivenPredictions(RegressorMixin, BaseEstimator):
    """A fitted model whose only input is its prediction."""

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, x, y):
        return self

    def predict(self, x):
        return x[:, 0]


def calibrate(data):
    intervals = SplitConformalRegressor(GivenPredictions(), confidence_level=1 - data.alpha, prefit=True)
    return intervals.conformalize(data.calibration_mean[:, None], data.calibration_y)


METHODS = {
    "absolute": (calibrate, lambda intervals, data: intervals.predict_interval(data.test_mean[:, None])[1][:, :, 0]),
}

if __name__ == "__main__":
    run("mapie", METHODS)
