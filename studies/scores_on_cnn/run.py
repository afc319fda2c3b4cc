"""Scores x projections x outlier sets on a ResNet-20: AURC, AUGRC, cliques per regime, neural collapse.

    CAVEAT_DATA=<folder> python studies/scores_on_cnn/run.py --out <folder>

The pipeline of Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection Under
Representation and Training Paradigm Shifts", on one network: every score of the catalogue that the outputs allow, plain
and on projected features; outliers against correctly classified inliers; misclassification apart; outlier sets in
near / mid / far by their distance in the feature space of the network itself (there is no CLIP here); Friedman,
Conover-Holm and cliques for each regime.

The paper's blocks are training runs. Here is one network, so a block is an outlier set and one of five disjoint parts
of it, with a disjoint part of the inliers: replicates over data, and the conclusions are about this network.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from caveat import CaveatWarning, Head, InputError, Outputs
from caveat.geometry import buckets, neural_collapse, proximity
from caveat.metrics import augrc, aurc, ood_failures
from caveat.results import Comparison
from caveat.scores import Projected, Score, applicable
from caveat.stats import compare

FEATURES, HEAD = "cifar10_resnet20_jpeg75_features.npz", "cifar10_resnet20_head.npz"
OUTLIERS = ("tinyimagenet", "dtd", "gtsrb", "mnist", "fashion", "emnist_letters", "notmnist", "uniform_noise")
PROJECTIONS = ("global", "class", "class_pred", "class_avg")
FOLDS, SEED = 5, 0


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


def measure(train: Outputs, test: Outputs, outliers: dict[str, Outputs]) -> list[dict[str, Any]]:
    """One row per score, outlier set (or the inliers' own errors) and fold."""
    rng = np.random.default_rng(SEED)
    fold = {name: rng.permutation(o.n) % FOLDS for name, o in {"test": test, **outliers}.items()}
    correct, rows = test.correct, []
    for name, score in variants(train, test).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaveatWarning)
            inside = score.fit(train).score(test)
            strange = {outlier: score.score(outputs) for outlier, outputs in outliers.items()}
        for part in range(FOLDS):
            mine = fold["test"] == part
            cases = {"test": (inside[mine], correct[mine])}
            for outlier, values in strange.items():
                cases[outlier] = ood_failures(
                    inlier=inside[mine], correct=correct[mine], outlier=values[fold[outlier] == part]
                )
            for case, (values, right) in cases.items():
                rows.append({
                    "score": name, "set": case, "fold": part,
                    "aurc": 1000 * aurc(score=values, correct=right),
                    "augrc": 1000 * augrc(score=values, correct=right),
                })  # fmt: skip
        print(name, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    train, test, outliers = load()

    near = {name: proximity(inlier=train, outlier=outputs) for name, outputs in outliers.items()}
    bucket = buckets(near, seed=SEED)
    rows = measure(train, test, outliers)
    for row in rows:
        row["regime"] = bucket.get(row["set"], "test")
    with (out / "results.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    lines = [
        "## Outlier sets",
        "",
        "| set | n | Frechet | MMD x 1000 | centroid | regime |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, found in sorted(near.items(), key=lambda item: item[1].frechet):
        lines.append(f"| {name} | {found.n_outlier} | {found.frechet:.4f} | {1000 * found.mmd:.3f} | "
                     f"{found.centroid:.4f} | {bucket[name]} |")  # fmt: skip
    lines += ["", *collapse_table(train), ""]
    order = [regime for regime in ("test", "near", "mid", "far") if any(row["regime"] == regime for row in rows)]
    for metric in ("augrc", "aurc"):
        results = {}
        for regime in order:
            part = [row for row in rows if row["regime"] == regime]
            results[regime] = compare(part, block=["set", "fold"], method="score", value=metric)
        lines += regime_tables(metric, rows, results)
        overall = compare(rows, block=["set", "fold"], method="score", value=metric)
        overall.plot_cliques(results).savefig(out / f"cliques_{metric}.svg")
        for regime, result in results.items():
            result.plot_cd().savefig(out / f"cd_{metric}_{regime}.svg")
    (out / "tables.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def collapse_table(train: Outputs) -> list[str]:
    lines = ["## Neural collapse (training features; 0 is full collapse)", "",
             "| projection | equinorm | equiangularity | max equiangularity | variability | self-duality |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for projection in ("none", "global", "class_pred"):
        found = neural_collapse(train, projection=projection)
        cells = (found.equinorm, found.equiangularity, found.max_equiangularity, found.variability, found.self_duality)
        lines.append(f"| {projection} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |")
    lines.append(f"| weights | {found.weight_equinorm:.4f} | {found.weight_equiangularity:.4f} | "
                 f"{found.weight_max_equiangularity:.4f} | | |")  # fmt: skip
    return lines


def regime_tables(metric: str, rows: list[dict[str, Any]], results: dict[str, Comparison]) -> list[str]:
    lines = [f"## {metric.upper()} x 1000", ""]
    for regime, result in results.items():
        lines += [f"### {regime}", "", result.summary(), "",
                  "| layer | score | average rank | mean |", "|---:|---|---:|---:|"]  # fmt: skip
        for number, layer in enumerate(result.layers[:2], start=1):
            for name in layer:
                values = [row[metric] for row in rows if row["score"] == name and row["regime"] == regime]
                lines.append(f"| {number} | {name} | {result.average_ranks[name]:.2f} | {np.mean(values):.2f} |")
        rest = sum(len(layer) for layer in result.layers[2:])
        lines += ["", f"{rest} scores in {len(result.layers) - 2} further layers." if rest else "", ""]
    return lines


if __name__ == "__main__":
    main()
