"""nonconform: test martingales on a stream of scores.

Documentation: https://oliverhennhoefer.github.io/nonconform. The documented way is ``ExchangeabilityMonitor``, whose
ranks grow with the stream ("alarm": its two parts, the sequential ranks and the martingale, on given scores).
"fixed calibration" feeds the same martingale with ``ConformalDetector.compute_p_values``, which the 2.0 documentation
keeps for batches.
"""

import numpy as np
from nonconform import ConformalDetector, Empirical, Split
from nonconform.martingales import AlarmConfig, SimpleJumperMartingale
from nonconform.monitoring import SequentialRankConformalizer
from selection_nonconform import GivenScores
from turns import run


def first_alarm(p_values, alpha, kind):
    martingale = SimpleJumperMartingale(alarm_config=AlarmConfig(**{f"{kind}_threshold": 1 / alpha}))
    return next((i for i, p in enumerate(p_values) if martingale.update(float(p)).triggered_alarms), -1)


def monitor(kind):
    def detect(_, data):
        alarms = []
        for stream in data.streams:
            ranks = SequentialRankConformalizer(seed=getattr(data, "draw", 0)).prime_many(data.calibration)
            alarms.append(first_alarm(ranks.update_many(stream), data.alpha, kind))
        return alarms

    return lambda _: None, detect


def calibrate(data):
    detector = ConformalDetector(
        detector=GivenScores(), strategy=Split(n_calib=0.5), estimation=Empirical(tie_break="randomized"),
        score_polarity="higher_is_anomalous", seed=getattr(data, "draw", 0),
    )  # fmt: skip
    return detector.calibrate(data.calibration[:, None])


def fixed(detector, data):
    p_values = (np.asarray(detector.compute_p_values(stream[:, None])) for stream in data.streams)
    return [first_alarm(p, data.alpha, "ville") for p in p_values]


METHODS = {
    "alarm": monitor("restarted_ville"),
    "simple jumper": monitor("ville"),
    "fixed calibration": (calibrate, fixed),
}

if __name__ == "__main__":
    run("nonconform", METHODS)
