"""Caveat: split conformal intervals from given predictions."""

from turns import run

from caveat.conformal import SplitIntervals

METHODS = {
    "absolute": (
        lambda data: SplitIntervals("absolute", alpha=data.alpha).calibrate(
            data.calibration_y, mean=data.calibration_mean
        ),
        lambda intervals, data: intervals.predict(mean=data.test_mean).bounds,
    )
}

if __name__ == "__main__":
    run("caveat", METHODS)
