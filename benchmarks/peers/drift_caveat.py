"""Caveat: drift alarms on a stream of scores.

"alarm" is the documented call. "simple jumper" is the bettor that the other packages offer, fed by the rank urn.
"fixed calibration" feeds the same bettor with p-values against the fixed calibration scores: what not to do.
"""

import numpy as np
from turns import run

from caveat.conformal import p_values
from caveat.drift import DriftAlarm, RankUrn, SimpleJumper


def first_crossing(log_capital, alpha):
    over = log_capital >= -np.log(alpha)
    return int(np.argmax(over)) if over.any() else -1


def seed(data):
    return getattr(data, "draw", 0)


def alarm(_, data):
    alarms = []
    for stream in data.streams:
        watch = DriftAlarm(data.calibration, alpha=data.alpha, seed=seed(data))
        watch.update(stream)
        alarms.append(-1 if watch.alarmed_at is None else watch.alarmed_at - 1)
    return alarms


def jumper(p_values_of):
    def detect(_, data):
        alarms = []
        for stream in data.streams:
            p = np.clip(p_values_of(stream, data), 2.0**-53, 1 - 2.0**-53)
            alarms.append(first_crossing(SimpleJumper().update(p), data.alpha))
        return alarms

    return lambda _: None, detect


def fixed(stream, data):
    return p_values(calibration=data.calibration, test=stream, rng=seed(data))


METHODS = {
    "alarm": (lambda _: None, alarm),
    "simple jumper": jumper(lambda stream, data: RankUrn(data.calibration, seed=seed(data)).update(stream)),
    "fixed calibration": jumper(fixed),
}

if __name__ == "__main__":
    run("caveat", METHODS)
