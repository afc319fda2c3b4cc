"""puncc: split conformal intervals from given predictions.

Documentation: https://deel-ai.github.io/puncc, ``SplitCP``.
"""

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.regression import SplitCP
from turns import run


class GivenPredictions:
    """A fitted model whose only input is its prediction."""

    def fit(self, x, y):
        return self

    def predict(self, x):
        return x


def calibrate(data):
    intervals = SplitCP(BasePredictor(GivenPredictions(), is_trained=True), train=False)
    intervals.fit(X_calib=data.calibration_mean, y_calib=data.calibration_y)
    return intervals


def predict(intervals, data):
    _, lower, upper = intervals.predict(data.test_mean, alpha=data.alpha)
    return np.column_stack([lower, upper])


METHODS = {"absolute": (calibrate, predict)}

if __name__ == "__main__":
    run("puncc", METHODS)
