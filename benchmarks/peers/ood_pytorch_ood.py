"""pytorch-ood: detectors on given features and logits (``fit_features`` and ``predict_features``).

Documentation: https://pytorch-ood.readthedocs.io. The package imports torchvision, which these detectors do not use.
"""

import torch
from turns import run, stand_in

stand_in("torchvision")

from pytorch_ood.detector import KNN, EnergyBased, Mahalanobis, MaxSoftmax, ReAct, ViM  # noqa: E402


def prepare(data):
    for name in ("train", "test", "labels", "weight", "bias", "test_logits"):
        setattr(data, name, torch.from_numpy(getattr(data, name)))
    return data


def head(data):
    return lambda features: features @ data.weight.T + data.bias


METHODS = {
    "msp": (lambda _: MaxSoftmax(None), lambda detector, data: detector.predict_logits(data.test_logits)),
    "energy": (lambda _: EnergyBased(None), lambda detector, data: detector.predict_logits(data.test_logits)),
    "mahalanobis": (
        lambda data: Mahalanobis(None).fit_features(data.train, data.labels),
        lambda detector, data: detector.predict_features(data.test),
    ),
    "knn": (
        lambda data: KNN(None, k=data.k).fit_features(data.train, data.labels),
        lambda detector, data: detector.predict_features(data.test),
    ),
    "vim": (
        lambda data: ViM(None, d=data.dimension, w=data.weight, b=data.bias).fit_features(data.train, data.labels),
        lambda detector, data: detector.predict_features(data.test),
    ),
    "react": (
        lambda data: ReAct(None, head(data), percentile=data.percentile / 100).fit_feature_maps(
            data.train, data.labels
        ),
        lambda detector, data: detector.predict_feature_maps(data.test),
    ),
}

if __name__ == "__main__":
    run("pytorch-ood", METHODS, prepare=prepare)
