"""Caveat: the least conservative threshold whose expected loss is controlled, for multi-label sets.

Labels with a probability above the threshold are kept; the loss is the share of the true labels that is missed. Caveat
wants a parameter with which the loss does not rise: one minus the threshold.
"""

import numpy as np
from turns import run

from caveat.conformal import control_risk


def losses(data):
    """Share of the true labels at or below each threshold, shape (rows, thresholds)."""
    true = np.sort(data.probs[:, : data.true_labels], axis=1)
    return np.stack([np.searchsorted(row, data.lambdas, "right") for row in true]) / data.true_labels


def method(name, delta):
    def choose(table, data):
        level = data.delta if delta else None
        chosen = control_risk(table, 1 - data.lambdas, alpha=data.alpha, delta=level, method=name).threshold
        return max(0.0, 1 - chosen)

    return losses, choose


METHODS = {
    "crc": method("crc", False),
    "wsr": method("wsr", True),
    "hoeffding_bentkus": method("hoeffding_bentkus", True),
}

if __name__ == "__main__":
    run("caveat", METHODS)
