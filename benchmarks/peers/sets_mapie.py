"""MAPIE: split conformal prediction sets from given probabilities.

Documentation: https://mapie.readthedocs.io, ``SplitConformalClassifier`` with ``prefit=True``. RAPS uses a fifth of
the calibration rows to choose its penalty.
"""

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from turns import run


class GivenProbabilities(ClassifierMixin, BaseEstimator):
    """A fitted model whose inputs are its probabilities."""

    def __init__(self, classes=2):
        self.classes = classes
        self.classes_ = np.arange(classes)

    def fit(self, x, y):
        return self

    def predict_proba(self, x):
        return x

    def predict(self, x):
        return x.argmax(axis=1)


def method(score):
    def calibrate(data):
        model = GivenProbabilities(data.calibration_probs.shape[1])
        sets = SplitConformalClassifier(
            model, confidence_level=1 - data.alpha, conformity_score=score, prefit=True, random_state=0
        )
        return sets.conformalize(data.calibration_probs, data.calibration_labels)

    return calibrate, lambda sets, data: sets.predict_set(data.test_probs)[1][:, :, 0]


METHODS = {score: method(score) for score in ("lac", "aps", "raps")}

if __name__ == "__main__":
    run("mapie", METHODS)
