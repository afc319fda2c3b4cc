"""The floor of prediction sets: one partition of the calibration scores, one comparison or sort of the rows."""

import numpy as np
from turns import run


def quantile(data):
    true = data.calibration_probs[np.arange(len(data.calibration_probs)), data.calibration_labels]
    return np.partition(true, int(data.alpha * true.size))[int(data.alpha * true.size)]


def sorted_sums(probs):
    return np.cumsum(np.sort(probs, axis=1), axis=1)


METHODS = {
    "lac": (quantile, lambda cut, data: data.test_probs >= cut),
    "aps": (lambda data: sorted_sums(data.calibration_probs), lambda _, data: sorted_sums(data.test_probs) >= 0.1),
    "raps": (lambda data: sorted_sums(data.calibration_probs), lambda _, data: sorted_sums(data.test_probs) >= 0.1),
}

if __name__ == "__main__":
    run("numpy", METHODS)
