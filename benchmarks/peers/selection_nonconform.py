"""nonconform: conformal p-values of scores and false discovery control.

Documentation: https://oliverhennhoefer.github.io/nonconform, ``ConformalDetector.calibrate`` with a fitted detector,
``select`` and ``fpr_bounds``.
"""

from nonconform import ConformalDetector, Split
from turns import run


class GivenScores:
    """A fitted detector whose only input is its score; larger is more anomalous."""

    fitted_ = True

    def fit(self, x, y=None):
        return self

    def decision_function(self, x):
        return x[:, 0]

    def get_params(self, deep=True):
        return {}

    def set_params(self, **parameters):
        return self


def calibrate(data):
    detector = ConformalDetector(
        detector=GivenScores(), strategy=Split(n_calib=0.5), score_polarity="higher_is_anomalous", seed=0
    )
    return detector.calibrate(data.calibration[:, None])


def threshold(data):
    return calibrate(data).fpr_bounds(confidence=1 - data.delta).threshold_for(data.false_alarm)


METHODS = {
    "bh": (calibrate, lambda detector, data: detector.select(data.test[:, None], alpha=data.q)),
    "storey": (calibrate, lambda detector, data: detector.select(data.test[:, None], alpha=data.q, method="storey")),
    "false alarms": (
        calibrate,
        lambda detector, data: detector.compute_p_values(data.test[:, None]) <= data.false_alarm,
    ),
    "false alarms, 90 % sure": (threshold, lambda cut, data: data.test >= cut),
}

if __name__ == "__main__":
    run("nonconform", METHODS, judged=METHODS | {"false alarms, 90 % sure": (threshold, lambda cut, data: cut)})
