"""puncc: split conformal prediction sets from given probabilities.

Documentation: https://deel-ai.github.io/puncc, ``LAC``, ``APS`` and ``RAPS`` with ``train=False``.
"""

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.classification import APS, LAC, RAPS
from turns import run


class GivenProbabilities:
    """A fitted model whose inputs are its probabilities."""

    def fit(self, x, y):
        return self

    def predict(self, x):
        return x


def method(make):
    def calibrate(data):
        sets = make(BasePredictor(GivenProbabilities(), is_trained=True))
        sets.fit(X_calib=data.calibration_probs, y_calib=data.calibration_labels)
        return sets

    def predict(sets, data):
        _, labels = sets.predict(data.test_probs, alpha=data.alpha)
        return labels

    return calibrate, predict


METHODS = {
    "lac": method(lambda predictor: LAC(predictor, train=False)),
    "aps": method(lambda predictor: APS(predictor, train=False)),
    "raps": method(lambda predictor: RAPS(predictor, train=False, lambd=0.01, k_reg=5)),
}


def as_member(pair):
    """puncc gives a list of labels for each row; the conversion for the judge is not timed."""
    calibrate, predict = pair

    def member(sets, data):
        labels = predict(sets, data)
        table = np.zeros(data.test_probs.shape, dtype=bool)
        for row, row_labels in enumerate(labels):
            table[row, np.asarray(row_labels, dtype=np.intp)] = True
        return table

    return calibrate, member


if __name__ == "__main__":
    run("puncc", METHODS, judged={name: as_member(pair) for name, pair in METHODS.items()})
