"""OOD scores as nonconformity scores: mean set size on CIFAR-10 with a ResNet-20, LAC, APS and RAPS, three levels.

    CAVEAT_DATA=<folder> caveat reproduce nonconformity-scores

Needs cifar10_resnet20_jpeg75_features.npz and cifar10_resnet20_head.npz. One cell per score.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from caveat import Head, Outputs
from caveat.conformal import RAPS, SplitSets
from caveat.scores import Score, make

ALPHAS = (0.005, 0.01, 0.05)
METHODS: dict[str, Any] = {"LAC": "lac", "APS": "aps", "RAPS": RAPS(penalty=0.01, k_reg=2)}
CALIBRATION, SPLITS = 2000, 10


def load(folder: str | os.PathLike[str]) -> tuple[Outputs, Outputs]:
    """Training and test outputs, float32, with the head."""
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


def sources() -> dict[str, Score | None]:
    """The rows of the table; None is the model's own softmax."""
    return {
        "CP (softmax)": None,
        "ReAct": make("react"),
        "KNN": make("knn"),
        "Mahalanobis": make("mahalanobis"),
        "CTM": make("ctm"),
    }


class Stored:
    """Class scores computed once, kept as the logits of an Outputs."""

    def class_scores(self, outputs: Outputs) -> Any:
        return -outputs.logits


def evaluate(
    source: Any, train: Outputs, test: Outputs, *, splits: int = SPLITS, calibration: int = CALIBRATION
) -> Any:
    """Mean set size and coverage of every method and level, over random splits of the test set."""
    if source is None:
        scored = Outputs(logits=test.logits, labels=test.labels)
    else:
        scored = Outputs(logits=-source.fit(train).class_scores(test), labels=test.labels)
    found = []
    for split in range(splits):
        rng = np.random.default_rng(split)
        order = rng.permutation(test.n)
        known, new = scored[order[:calibration]], scored[order[calibration:]]
        for method, score in METHODS.items():
            for alpha in ALPHAS:
                sets = SplitSets(score, alpha=alpha, source=Stored()).calibrate(known, rng).predict(new, rng)
                found.append(
                    {"split": split, "method": method, "alpha": alpha, "size": float(sets.sizes.mean()),
                     "coverage": sets.coverage(new.labels)}
                )  # fmt: skip
    return found


def one(score: str) -> list[dict[str, Any]]:
    """Every split, method and level of one row of the table."""
    return evaluate(sources()[score], *load(os.environ["CAVEAT_DATA"]))  # type: ignore[no-any-return]
