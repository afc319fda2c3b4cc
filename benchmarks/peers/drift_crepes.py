"""crepes: the simple jumper martingale on a stream of scores.

Documentation: https://crepes.readthedocs.io, ``crepes.martingales`` and ``p_values_online_regression``. "simple jumper"
ranks each score among all earlier ones (online calibration); "fixed calibration" uses the batch p-values.
"""

import numpy as np
from crepes.base import p_values_batch, p_values_online_regression
from crepes.martingales import SimpleJumper
from turns import run


def method(p_values_of):
    def detect(_, data):
        alarms = []
        for stream in data.streams:
            index = SimpleJumper().apply(np.asarray(p_values_of(stream, data)).ravel(), c=1 / data.alpha)
            alarms.append(int(index) if index < stream.size else -1)
        return alarms

    return lambda _: None, detect


def online(stream, data):
    return p_values_online_regression(stream, alphas_cal=data.calibration, seed=getattr(data, "draw", 0))


def fixed(stream, data):
    return p_values_batch(data.calibration, stream[:, None], smoothing=True, seed=getattr(data, "draw", 0))


METHODS = {"simple jumper": method(online), "fixed calibration": method(fixed)}

if __name__ == "__main__":
    run("crepes", METHODS)
