"""Caveat: split conformal prediction sets from given probabilities."""

import numpy as np
from turns import run

from caveat import Outputs
from caveat.conformal import RAPS, SplitSets


def prepare(data):
    data.calibration = Outputs(probs=data.calibration_probs, labels=data.calibration_labels)
    data.test = Outputs(probs=data.test_probs)
    return data


def method(score):
    def calibrate(data):
        data.rng = np.random.default_rng(getattr(data, "draw", 0))
        return SplitSets(score, alpha=data.alpha).calibrate(data.calibration, data.rng)

    return calibrate, lambda sets, data: sets.predict(data.test, data.rng).member


METHODS = {"lac": method("lac"), "aps": method("aps"), "raps": method(RAPS(0.01, 5))}

if __name__ == "__main__":
    run("caveat", METHODS, prepare=prepare)
