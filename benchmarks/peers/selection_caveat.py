"""Caveat: conformal p-values of scores, and the selection of outliers with a bounded false discovery rate."""

from turns import run

from caveat.conformal import p_values, quantile, select_outliers, select_outliers_from, threshold_for


def benjamini_hochberg(_, data):
    return select_outliers(p_values(calibration=data.calibration, test=data.test), data.q)


def threshold(data):
    return threshold_for(data.calibration, false_alarm=data.false_alarm, delta=data.delta)


METHODS = {
    "bh": (lambda _: None, benjamini_hochberg),
    "storey": (
        lambda _: None,
        lambda _, data: select_outliers_from(calibration=data.calibration, test=data.test, q=data.q, method="storey"),
    ),
    # the same rows as p-value <= false_alarm
    "false alarms": (lambda data: quantile(data.calibration, data.false_alarm), lambda cut, data: data.test > cut),
    "false alarms, 90 % sure": (threshold, lambda cut, data: data.test >= cut),
}

if __name__ == "__main__":
    run("caveat", METHODS, judged=METHODS | {"false alarms, 90 % sure": (threshold, lambda cut, data: cut)})
