"""river: drift detectors with their default settings on a stream of scores.

Documentation: https://riverml.xyz, ``drift.KSWIN`` and ``drift.ADWIN``. Their alpha and delta are levels of one test,
and a test is made at every point; neither promises a bound for the whole stream. The calibration scores are fed first.
"KSWIN 0.0001" is the level of the example in its documentation.
"""

from river import drift
from turns import run


def method(make):
    def detect(_, data):
        alarms = []
        for stream in data.streams:
            detector, alarm = make(getattr(data, "draw", 0)), -1
            for value in data.calibration.tolist():
                detector.update(value)
            for i, value in enumerate(stream.tolist()):
                detector.update(value)
                if detector.drift_detected:
                    alarm = i
                    break
            alarms.append(alarm)
        return alarms

    return lambda _: None, detect


METHODS = {
    "KSWIN": method(lambda seed: drift.KSWIN(seed=seed)),
    "KSWIN 0.0001": method(lambda seed: drift.KSWIN(alpha=0.0001, seed=seed)),
    "ADWIN": method(lambda _: drift.ADWIN()),
}

if __name__ == "__main__":
    run("river", METHODS)
