"""crepes: conformal classifier with hinge scores (the same sets as lac).

Documentation: https://crepes.readthedocs.io, ``ConformalClassifier``.
"""

import numpy as np
from crepes import ConformalClassifier
from crepes.extras import hinge
from turns import run


def calibrate(data):
    scores = hinge(data.calibration_probs, np.arange(data.calibration_probs.shape[1]), data.calibration_labels)
    return ConformalClassifier().fit(scores)


def predict(classifier, data):
    return classifier.predict_set(hinge(data.test_probs), confidence=1 - data.alpha, smoothing=False)


METHODS = {"lac": (calibrate, predict)}

if __name__ == "__main__":
    run("crepes", METHODS)
