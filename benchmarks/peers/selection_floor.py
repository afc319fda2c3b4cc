"""The physical floor of selecting outliers: one sort of the calibration scores and one of the test scores."""

import numpy as np
from turns import run


def sort_both(calibration, data):
    return np.searchsorted(calibration, np.sort(data.test)) < 0


def partition(data):
    return np.partition(data.calibration, int(0.95 * data.calibration.size))


METHODS = {
    "bh": (lambda data: np.sort(data.calibration), sort_both),
    "storey": (lambda data: np.sort(data.calibration), sort_both),
    "false alarms": (partition, lambda _, data: data.test >= 2),
    "false alarms, 90 % sure": (partition, lambda _, data: data.test >= 2),
}

if __name__ == "__main__":
    run("numpy", METHODS)
