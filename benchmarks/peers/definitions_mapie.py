"""MAPIE: cases with an exact answer. Documentation: https://mapie.readthedocs.io."""

import numpy as np
from intervals_mapie import GivenPredictions
from mapie.metrics.calibration import expected_calibration_error
from mapie.regression import SplitConformalRegressor
from turns import run


def calibrate(data):
    y = data.scores[: data.size]
    intervals = SplitConformalRegressor(GivenPredictions(), confidence_level=1 - data.alpha, prefit=True)
    return intervals.conformalize(np.zeros((y.size, 1)), y)


METHODS = {
    "threshold": (calibrate, lambda intervals, _: intervals.predict_interval(np.zeros((1, 1)))[1][0, 1, 0]),
    "ece": (
        lambda _: None,
        lambda _, data: expected_calibration_error(
            data.correct.astype(int), data.confidence, num_bins=data.bins, split_strategy="uniform"
        ),
    ),
}

if __name__ == "__main__":
    run("mapie", METHODS)
