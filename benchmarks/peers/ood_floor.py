"""The floor of OOD scores: the one pass or product over the arrays that a method needs, in plain numpy."""

import numpy as np
from turns import run


def scatter(data):
    """One product of the features with themselves."""
    return data.train.T @ data.train


def eigenvectors(data):
    return np.linalg.eigh(scatter(data))[1]


METHODS = {
    # one exponential of every logit and one sum of each row
    "msp": (lambda _: None, lambda _, data: np.exp(data.test_logits).sum(axis=1)),
    "energy": (lambda _: None, lambda _, data: np.exp(data.test_logits).sum(axis=1)),
    # one scatter matrix; one product of the test rows with a matrix of the same size
    "mahalanobis": (scatter, lambda matrix, data: (data.test @ matrix).sum(axis=1)),
    # one product of test and training rows
    "knn": (lambda _: None, lambda _, data: (data.test @ data.train.T).max(axis=1)),
    # scatter matrix and its eigenvectors; one product with half of them
    "vim": (eigenvectors, lambda basis, data: (data.test @ basis[:, : data.dimension]).sum(axis=1)),
    # one partition of the activations; one product with the head
    "react": (
        lambda data: np.partition(data.train.ravel(), int(0.9 * data.train.size)),
        lambda _, data: np.exp(data.test @ data.weight.T).sum(axis=1),
    ),
}

if __name__ == "__main__":
    run("numpy", METHODS)
