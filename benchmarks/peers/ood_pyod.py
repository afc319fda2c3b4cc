"""PyOD: k-nearest-neighbor distance on given features, normalized beforehand as the other packages do.

Documentation: https://pyod.readthedocs.io. ``fit`` also scores the training rows; PyOD has no switch for that.
"""

import numpy as np
from pyod.models.knn import KNN
from turns import run


def prepare(data):
    for name in ("train", "test"):
        rows = getattr(data, name)
        setattr(data, name, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return data


METHODS = {
    "knn": (
        lambda data: KNN(n_neighbors=data.k, method="largest", algorithm="brute", n_jobs=-1).fit(data.train),
        lambda detector, data: detector.decision_function(data.test),
    )
}

if __name__ == "__main__":
    run("pyod", METHODS, prepare=prepare)
