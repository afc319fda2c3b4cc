"""The physical floor of detection metrics: one sort of all scores; for FPR at 95 % one partition of the outliers."""

import numpy as np
from turns import run


def sort_all(_, data):
    np.sort(np.concatenate([data.inlier, data.outlier]))
    return {}


def partition(_, data):
    cut = np.partition(data.outlier, data.outlier.size // 20)[data.outlier.size // 20]
    return {"fpr95": float((data.inlier >= cut).mean())}


METHODS = {
    "auroc": (lambda _: None, sort_all),
    "fpr95": (lambda _: None, partition),
    "auroc bound": (lambda _: None, sort_all),
}

if __name__ == "__main__":
    run("numpy", METHODS)
