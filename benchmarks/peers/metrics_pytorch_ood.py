"""pytorch-ood: AUROC and FPR at 95 % TPR; outliers have negative labels.

Documentation: https://pytorch-ood.readthedocs.io. The package imports torchvision, which the metrics do not use.
"""

import numpy as np
import torch
from turns import run, stand_in

stand_in("torchvision")

from pytorch_ood.metrics import AUROC, FPRAtTPR  # noqa: E402


def prepare(data):
    data.scores = torch.from_numpy(np.concatenate([data.inlier, data.outlier]))
    data.labels = torch.cat([torch.zeros(data.inlier.size, dtype=torch.long), -torch.ones(data.outlier.size).long()])
    return data


def method(metric, name):
    def compute(state, data):
        (value,) = state.update(data.scores, data.labels).compute().values()
        return {name: value}

    return lambda _: metric(), compute


METHODS = {"auroc": method(AUROC, "auroc"), "fpr95": method(lambda: FPRAtTPR(0.95), "fpr95")}

if __name__ == "__main__":
    run("pytorch-ood", METHODS, prepare=prepare)
