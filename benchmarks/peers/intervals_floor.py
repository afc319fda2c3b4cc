"""The physical floor of intervals: one partition of the residuals and two additions."""

import numpy as np
from turns import run


def quantile(data):
    residuals = np.abs(data.calibration_y - data.calibration_mean)
    rank = min(residuals.size, int(np.ceil((residuals.size + 1) * (1 - data.alpha)))) - 1
    return np.partition(residuals, rank)[rank]


METHODS = {
    "absolute": (quantile, lambda cut, data: np.column_stack([data.test_mean - cut, data.test_mean + cut])),
}

if __name__ == "__main__":
    run("numpy", METHODS)
