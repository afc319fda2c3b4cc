"""puncc: conformal anomaly detection, a threshold on the scores.

Documentation: https://deel-ai.github.io/puncc, ``SplitCAD``. Its alpha is the share of inliers that is flagged, on
average; it does not look at the test set as a whole, so it is compared with the rule p <= alpha.
"""

from deel.puncc.anomaly_detection import SplitCAD
from deel.puncc.api.prediction import BasePredictor
from turns import run


class GivenScores:
    """A fitted model whose only input is its score."""

    def fit(self, x, y=None):
        return self

    def predict(self, x):
        return x


def calibrate(data):
    detector = SplitCAD(BasePredictor(GivenScores(), is_trained=True), train=False)
    detector.fit(z_calib=data.calibration)
    return detector


METHODS = {
    "false alarms": (calibrate, lambda detector, data: detector.predict(data.test, alpha=data.false_alarm)),
}

if __name__ == "__main__":
    run("puncc", METHODS)
