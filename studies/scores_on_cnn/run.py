"""Scores x projections x outlier sets on a ResNet-20: AURC, AUGRC, cliques per regime, neural collapse.

    CAVEAT_DATA=<folder> caveat reproduce cnn-scores

The pipeline of Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection Under
Representation and Training Paradigm Shifts", on one network: every applicable score of the catalogue, on raw
and projected features; outliers against correctly classified inliers; misclassification separately; outlier sets in
near / mid / far by their distance in the feature space of the network (without CLIP); Friedman,
Conover-Holm and cliques for each regime.

Settings are chosen as in appendix E of the paper: one temperature for all scores that read logits, and by the smallest
AUGRC of misclassification the parameters of the scores and the variance that a projection keeps. They are chosen on the
test images of the other four folds, so that no image is measured that chose a setting. Every score is also measured
with its defaults, to see what tuning does, and GEN and Renyi with parameters alone chosen.

The paper's blocks are training runs. This study has one network, so a block is an outlier set and one of five disjoint
parts of it, with a disjoint part of the inliers: replicates over data. Conclusions hold for this network.

One cell per score, projection and way of setting it, and one, "geometry", for the distances between sets and the neural
collapse.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from caveat import CaveatWarning, Head, InputError, Outputs
from caveat.metrics import augrc, aurc, ood_failures
from caveat.scores import Projected, Score, applicable
from caveat.scores.settings import tune_settings
from caveat_lab.geometry import buckets, neural_collapse, proximity

FEATURES, HEAD = "cifar10_resnet20_jpeg75_features.npz", "cifar10_resnet20_head.npz"
OUTLIERS = ("tinyimagenet", "dtd", "gtsrb", "mnist", "fashion", "emnist_letters", "notmnist", "uniform_noise")
PROJECTIONS = ("global", "class", "class_pred", "class_avg")
GEOMETRY = "geometry"
COLLAPSE = ("equinorm", "equiangularity", "max_equiangularity", "variability", "self_duality")
WEIGHTS = ("weight_equinorm", "weight_equiangularity", "weight_max_equiangularity")
ALL, PARAMETERS, NOTHING = "temperature and parameters", "parameters", "nothing"  # what is chosen on other folds
FOLDS, SEED = 5, 0

Row = dict[str, str | int | float]


@cache
def load() -> tuple[Outputs, Outputs, dict[str, Outputs]]:
    folder = Path(os.environ.get("CAVEAT_DATA") or "")
    if not (folder / FEATURES).exists():
        raise SystemExit(f"set CAVEAT_DATA to the folder that holds {FEATURES}")
    with np.load(folder / HEAD, allow_pickle=False) as stored:
        head = Head(stored["head_weight"], stored["head_bias"])
    with np.load(folder / FEATURES, allow_pickle=False) as stored:

        def outputs(name: str, **labels: Any) -> Outputs:
            features = stored[f"feat_{name}"].astype(np.float32)
            return Outputs(features=features, logits=stored[f"logits_{name}"], head=head, **labels)

        train = outputs("train", labels=stored["y_train"].astype(int))
        test = outputs("test", labels=stored["y_test"].astype(int))
        return train, test, {name: outputs(name) for name in OUTLIERS}


def variants(train: Outputs, test: Outputs) -> dict[str, Score]:
    """Every applicable score, plain and with each projection that it has."""
    plain, _ = applicable(train, test)
    found: dict[str, Score] = dict(plain)
    for name, score in plain.items():
        for projection in PROJECTIONS:
            try:
                found[f"{name} {projection}"] = Projected(score, projection)
            except InputError:
                continue  # Table 3 has no such combination
    return found


def grid() -> list[dict[str, str]]:
    """The geometry, and every variant of a score that outputs with these fields and enough rows allow, in two ways."""
    alike = Outputs(
        features=np.zeros((1000, 3)), logits=np.zeros((1000, 2)), labels=np.arange(1000) % 2,
        head=Head(np.zeros((2, 3)), np.zeros(2)),
    )  # fmt: skip
    names = list(variants(alike, alike))
    cells = [{"score": name, "tuned": ALL} for name in names]
    cells += [{"score": name, "tuned": PARAMETERS} for name in ("gen", "renyi")]
    return [{"score": GEOMETRY, "tuned": NOTHING}, *cells, *({"score": name, "tuned": NOTHING} for name in names)]


def one(score: str, tuned: str) -> list[Row]:
    train, test, outliers = load()
    return geometry(train, outliers) if score == GEOMETRY else measure(score, tuned, train, test, outliers)


def measure(name: str, tuned: str, train: Outputs, test: Outputs, outliers: dict[str, Outputs]) -> list[Row]:
    """AURC and AUGRC of a score on each outlier set, and on the inliers' own errors, by fold.

    What is chosen on held-out inliers (settings, and the temperature of a score that fits its own) is chosen on the
    test images of the other folds: training outputs are overconfident, and no image is measured that chose anything.
    """
    rng = np.random.default_rng(SEED)
    fold = {key: rng.permutation(o.n) % FOLDS for key, o in {"test": test, **outliers}.items()}
    score, rows = variants(train, test)[name].without_class_scores(), []
    for part in range(FOLDS):
        mine = fold["test"] == part
        settings = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaveatWarning)
            if tuned != NOTHING:
                keep = ("temperature",) if tuned == PARAMETERS else ()
                chosen = tune_settings(score, train=train, validation=test[~mine], keep=keep, rng=SEED)
                fitted, settings = chosen.score, shown(chosen.params)
            elif part == 0 or score.held_out:
                fitted = score.fit(test[~mine] if score.held_out else train)
            inlier = test[mine]
            inside = fitted.score(inlier)
            cases = {"test": (inside, inlier.correct)}
            for outlier, outputs in outliers.items():
                strange = fitted.score(outputs[fold[outlier] == part])
                cases[outlier] = ood_failures(inlier=inside, correct=inlier.correct, outlier=strange)
        for case, (values, right) in cases.items():
            rows.append(row(case, part, "aurc", 1000 * aurc(score=values, correct=right), settings=settings))
            rows.append(row(case, part, "augrc", 1000 * augrc(score=values, correct=right), settings=settings))
    return rows


def shown(params: Any) -> str:
    """Settings as text that a table can hold.

    >>> shown({"temperature": 2.5520602, "k": 10, "percentile": None})
    'temperature=2.55 k=10 percentile=default'
    """
    values = {key: "default" if value is None else f"{value:.3g}" for key, value in params.items()}
    return " ".join(f"{key}={value}" for key, value in values.items())


def geometry(train: Outputs, outliers: dict[str, Outputs]) -> list[Row]:
    """How far each outlier set is from the training data and what regime that makes it; neural collapse."""
    near = {name: proximity(inlier=train, outlier=outputs) for name, outputs in outliers.items()}
    regime, rows = buckets(near, seed=SEED), []
    for name, found in near.items():
        values = {"n": found.n_outlier, "frechet": found.frechet, "mmd": found.mmd, "centroid": found.centroid}
        rows += [row(name, 0, metric, value, regime[name]) for metric, value in values.items()]
    for projection in ("none", "global", "class_pred"):
        collapse = neural_collapse(train, projection=projection)
        rows += [row(projection, 0, metric, getattr(collapse, metric)) for metric in COLLAPSE]
    return rows + [row("weights", 0, metric, getattr(collapse, metric)) for metric in WEIGHTS]


def row(case: str, fold: int, metric: str, value: float, regime: str = "", settings: str = "") -> Row:
    return {"set": case, "fold": fold, "metric": metric, "value": float(value), "regime": regime, "settings": settings}
