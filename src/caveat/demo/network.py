"""The demonstration: a small network for the digits 0 to 7, and other images.

scikit-learn trains it, so that nothing beyond the core is needed; its hidden layer gives the features and its last
layer the head, as with any network.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat.demo.digits import digits
from caveat.demo.images import Images
from caveat.demo.strange import inverted, noise, occluded, rotated, shifted
from caveat.outputs import Head, Outputs

__all__ = ["Demo", "demo_outputs"]

_KNOWN = 8  # digits 0 to 7 are classes, 8 and 9 are near outliers
_TRAIN, _CALIBRATION, _INLIER = 700, 260, 260  # of the 1,438 images of known digits; outliers are made from the rest


@final
@dataclass(frozen=True, eq=False)
class Demo:
    """The outputs of the small network on all data."""

    train: Outputs
    calibration: Outputs
    inlier: Outputs
    outliers: dict[str, Outputs]


def demo_outputs(seed: int = 0) -> Demo:
    """Train the network on digits 0 to 7 and compute its outputs on held-out digits and on outliers, near, mid and far.

    Deterministic for a seed, within the rounding of the machine's linear algebra.
    """
    rng = np.random.default_rng(seed)
    images = digits()
    taught = images[rng.permutation(np.flatnonzero(images.labels < _KNOWN))]
    cuts = np.cumsum([_TRAIN, _CALIBRATION, _INLIER])
    train, calibration, inlier = (
        taught[slice(stop - n, stop)] for stop, n in zip(cuts, (_TRAIN, _CALIBRATION, _INLIER), strict=True)
    )
    spare = taught[slice(cuts[-1], None)].pixels  # outliers are made from images that are used nowhere else

    network = _train(train, seed)
    outliers = {
        "near: digits 8 and 9": images.pixels[images.labels >= _KNOWN],
        "mid: shifted": shifted(spare, rng),
        "mid: rotated": rotated(spare, rng),
        "mid: occluded": occluded(spare, rng),
        "far: inverted": inverted(spare),
        "far: noise": noise(300, rng),
    }
    return Demo(
        train=_ask(network, train.pixels, train.labels),
        calibration=_ask(network, calibration.pixels, calibration.labels),
        inlier=_ask(network, inlier.pixels, inlier.labels),
        outliers={name: _ask(network, pixels) for name, pixels in outliers.items()},
    )


def _train(images: Images, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier(hidden_layer_sizes=(64,), alpha=1e-2, max_iter=60, random_state=seed)
    with warnings.catch_warnings():  # 60 epochs are a choice, not an accident
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(images.pixels.reshape(len(images), -1), images.labels)


def _ask(network: Any, pixels: NDArray[np.float64], labels: NDArray[np.intp] | None = None) -> Outputs:
    hidden_weight, last_weight = network.coefs_
    hidden_bias, last_bias = network.intercepts_
    features = np.maximum(pixels.reshape(len(pixels), -1) @ hidden_weight + hidden_bias, 0)
    head = Head(last_weight.T, last_bias)
    return Outputs(logits=head.logits(features), features=features, labels=labels, head=head)
