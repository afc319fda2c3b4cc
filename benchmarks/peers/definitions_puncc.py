"""puncc: cases with an exact answer. Documentation: https://deel-ai.github.io/puncc, ``SplitCP``."""

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.regression import SplitCP
from intervals_puncc import GivenPredictions
from turns import run


def calibrate(data):
    y = data.scores[: data.size]
    intervals = SplitCP(BasePredictor(GivenPredictions(), is_trained=True), train=False)
    intervals.fit(X_calib=np.zeros(y.size), y_calib=y)
    return intervals


METHODS = {
    "threshold": (calibrate, lambda intervals, data: intervals.predict(np.zeros(2), alpha=float(data.alpha))[2][0]),
}

if __name__ == "__main__":
    run("puncc", METHODS)
