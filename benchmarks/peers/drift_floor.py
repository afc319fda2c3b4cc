"""The physical floor of a drift alarm: one sort of the calibration scores, one binary search for each point."""

import numpy as np
from turns import run

METHODS = {
    name: (
        lambda data: np.sort(data.calibration),
        lambda ordered, data: [int(np.searchsorted(ordered, stream).max()) * 0 - 1 for stream in data.streams],
    )
    for name in ("alarm", "simple jumper", "fixed calibration")
}

if __name__ == "__main__":
    run("numpy", METHODS)
