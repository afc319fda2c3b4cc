"""crepes: conformal regressor on given residuals. Documentation: https://crepes.readthedocs.io."""

from crepes import ConformalRegressor
from turns import run

METHODS = {
    "absolute": (
        lambda data: ConformalRegressor().fit(data.calibration_y - data.calibration_mean),
        lambda regressor, data: regressor.predict_int(data.test_mean, confidence=1 - data.alpha),
    )
}

if __name__ == "__main__":
    run("crepes", METHODS)
