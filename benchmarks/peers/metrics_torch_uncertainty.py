"""torch-uncertainty: FPR at 95 % TPR, and the AUROC of torchmetrics that its routines use; label 1 is an outlier.

Documentation: https://torch-uncertainty.github.io. The package imports torchvision and timm, which the metrics do not
use.
"""

import numpy as np
import torch
from turns import run, stand_in

stand_in("torchvision", "timm")

from torch_uncertainty.metrics.classification import FPR95  # noqa: E402
from torchmetrics.classification import BinaryAUROC  # noqa: E402


def prepare(data):
    # torchmetrics applies a sigmoid to scores outside [0, 1], which ties large ones: shares keep the order exactly
    scores = np.concatenate([data.inlier, data.outlier])
    low, high = scores.min(), scores.max()
    data.shares = torch.from_numpy((scores - low) / (high - low))
    data.scores = torch.from_numpy(scores)
    data.labels = torch.cat([torch.zeros(data.inlier.size).long(), torch.ones(data.outlier.size).long()])
    return data


def method(metric, name, scores):
    def compute(state, data):
        state.update(getattr(data, scores), data.labels)
        return {name: float(state.compute())}

    return lambda _: metric(), compute


METHODS = {
    "auroc": method(BinaryAUROC, "auroc", "shares"),
    "fpr95": method(lambda: FPR95(pos_label=1), "fpr95", "scores"),
}

if __name__ == "__main__":
    run("torch-uncertainty", METHODS, prepare=prepare)
