"""OOD scores as nonconformity scores: mean set size with LAC, APS and RAPS, three levels, on four networks.

    CAVEAT_DATA=<folder> caveat reproduce nonconformity-scores

``cifar10`` is a ResNet-20 whose features are stored. ODIN and Gram need gradients and inner layers, and CIFAR-100 is
not here: ``images`` (CIFAR-10), ``fashion`` (10 classes) and ``characters`` (36) are trained by ``networks.py``. One
cell per score.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import networks  # in this folder
import numpy as np
from numpy.typing import NDArray

from caveat import Head, Outputs
from caveat.conformal import RAPS, SplitSets
from caveat.scores import Gram, Score, make

ALPHAS = (0.005, 0.01, 0.05)
METHODS: dict[str, Any] = {"LAC": "lac", "APS": "aps", "RAPS": RAPS(penalty=0.01, k_reg=2)}
CALIBRATION, SPLITS = 2000, 10
NETWORKS = ("cifar10", "fashion", "characters", "images")
SOFTMAX, OF_MODEL = "CP (softmax)", ("ODIN", "Gram")


def sources() -> dict[str, Score | None]:
    """The rows of the table that need no more than outputs; None is the model's own softmax.

    The paper's KNN takes raw distances (appendix C.3); scaling features to length one is that of Sun et al. 2022.
    """
    return {
        SOFTMAX: None,
        "ReAct": make("react"),
        "KNN (raw)": make("knn", normalize=False),
        "KNN (scaled)": make("knn"),
        "Mahalanobis": make("mahalanobis"),
        "CTM": make("ctm"),
    }


def grid() -> list[dict[str, str]]:
    """Every network and score; ODIN and Gram where the network itself is there."""
    return [
        {"network": network, "score": score}
        for network in NETWORKS
        for score in (*sources(), *(OF_MODEL if network != "cifar10" else ()))
    ]


def load(folder: str | os.PathLike[str]) -> tuple[Outputs, Outputs]:
    """Training and test outputs of the stored ResNet-20, float32, with the head."""
    with np.load(Path(folder) / "cifar10_resnet20_head.npz", allow_pickle=False) as file:
        head = Head(file["head_weight"], file["head_bias"])
    with np.load(Path(folder) / "cifar10_resnet20_jpeg75_features.npz", allow_pickle=False) as file:
        found = [
            Outputs(
                features=file[f"feat_{part}"].astype(np.float32),
                logits=file[f"logits_{part}"],
                labels=file[f"y_{part}"].astype(np.intp),
                head=head,
            )
            for part in ("train", "test")
        ]
    return found[0], found[1]


@cache
def outputs_of(network: str) -> tuple[Outputs, Outputs]:
    """Training and test outputs of a network."""
    if network == "cifar10":
        return load(os.environ["CAVEAT_DATA"])
    net = networks.network(network)
    train, test = (net.trained.outputs((part.pixels, part.labels)) for part in (net.train, net.test))
    return train, test


def class_scores(network: str, score: str) -> NDArray[Any]:
    """Class scores (n, C) of the test images; minus the logits for the softmax."""
    train, test = outputs_of(network)
    if score in OF_MODEL:
        return of_model(networks.network(network), score, networks.MAPS[network])
    source = sources()[score]
    return -test.logits if source is None else source.fit(train).class_scores(test)


def of_model(net: networks.Network, score: str, maps: tuple[str, ...]) -> NDArray[Any]:
    """Class scores of ODIN (temperature 1000, noise 0.0014) or Gram (of inner layers, ten orders)."""
    import torch

    from caveat.nn import ODIN, stream

    torch.set_num_threads(1)
    train, test = (torch.from_numpy(part.inputs()).split(500) for part in (net.train, net.test))
    if score == "ODIN":
        return ODIN(net.trained.model).class_scores(test)
    seen, asked = (stream(net.trained.model, part, layers=maps) for part in (train, test))
    return Gram().fit(seen).class_scores(asked)


class Stored:
    """Class scores computed once, kept as the logits of an Outputs."""

    def class_scores(self, outputs: Outputs) -> Any:
        return -outputs.logits


def evaluate(
    scores: NDArray[Any], labels: NDArray[Any], *, splits: int = SPLITS, calibration: int = CALIBRATION
) -> list[dict[str, Any]]:
    """Mean set size and coverage of every method and level, over random splits of the test set."""
    scored = Outputs(logits=-scores, labels=labels)
    found = []
    for split in range(splits):
        rng = np.random.default_rng(split)
        order = rng.permutation(scored.n)
        known, new = scored[order[:calibration]], scored[order[calibration:]]
        for method, score in METHODS.items():
            for alpha in ALPHAS:
                sets = SplitSets(score, alpha=alpha, source=Stored()).calibrate(known, rng).predict(new, rng)
                found.append(
                    {"split": split, "method": method, "alpha": alpha, "size": float(sets.sizes.mean()),
                     "coverage": sets.coverage(new.labels)}
                )  # fmt: skip
    return found


def one(network: str, score: str) -> list[dict[str, Any]]:
    """Every split, method and level of one row of the table, and the accuracy of the network."""
    _, test = outputs_of(network)
    accuracy = networks.accuracy(test.logits, test.labels)
    return [row | {"accuracy": accuracy} for row in evaluate(class_scores(network, score), test.labels)]
