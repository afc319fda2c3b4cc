"""crepes: cases with an exact answer. Documentation: https://crepes.readthedocs.io."""

import numpy as np
from crepes import ConformalRegressor
from turns import run

METHODS = {
    "threshold": (
        lambda data: ConformalRegressor().fit(data.scores[: data.size]),
        lambda regressor, data: regressor.predict_int(np.zeros(1), confidence=1 - data.alpha)[0, 1],
    ),
}

if __name__ == "__main__":
    run("crepes", METHODS)
