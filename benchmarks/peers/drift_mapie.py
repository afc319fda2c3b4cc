"""MAPIE: online test of exchangeability on a stream of residuals.

Documentation: https://mapie.readthedocs.io, ``OnlineMartingaleTest``. It watches labeled data, here with a model that
predicts 0 and targets whose absolute value is the score. The reference rows come first, as the documentation says;
they are part of the martingale.
"""

import numpy as np
from intervals_mapie import GivenPredictions
from mapie.exchangeability_testing import OnlineMartingaleTest
from mapie.regression import SplitConformalRegressor
from turns import run


def method(name):
    def detect(_, data):
        alarms = []
        for stream in data.streams:
            # scores may be negative and residuals may not: exp keeps their order
            y = np.exp(np.concatenate([data.calibration, stream]))
            test = OnlineMartingaleTest(
                SplitConformalRegressor(GivenPredictions(), prefit=True), task="regression", test_method=name,
                test_level=data.alpha, warn=False, random_state=getattr(data, "draw", 0),
            )  # fmt: skip
            test.update(np.zeros((y.size, 1)), y)
            over = np.asarray(test.martingale_value_history) > test.reject_threshold
            # an alarm on the reference rows is an alarm at the first point of the stream
            alarms.append(max(0, int(np.argmax(over)) - data.calibration.size) if over.any() else -1)
        return alarms

    return lambda _: None, detect


METHODS = {"simple jumper": method("jumper_martingale")}

if __name__ == "__main__":
    run("mapie", METHODS)
