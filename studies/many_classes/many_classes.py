"""Promised and measured class coverage of prediction sets on CIFAR-100: one threshold, one per class, one per cluster
of classes, and calibrated ranks.

CAVEAT_DATA=<folder> python studies/many_classes/many_classes.py [splits]

Writes results.csv, tables.md and coverage.svg into this folder.
"""

from __future__ import annotations

import csv
import math
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from scipy.stats import binom

from caveat import Outputs
from caveat.conformal import SplitSets
from caveat.conformal._ranked import label_ranks
from caveat.conformal.nonconformity import NONCONFORMITY, TopK
from caveat.conformal.quantile import quantile_rank
from caveat.errors import CaveatWarning
from caveat.metrics import covgap
from caveat.results import PredictionSets

HERE = Path(__file__).parent
ALPHA = 0.1
NETWORKS = ("resnet20", "resnet56", "shufflenetv2_x0_5", "mobilenetv2_x1_0", "vgg16_bn", "repvgg_a2")
SCORES = ("lac", "aps")
PER_CLASS = (10, 20, 50)
SCHEMES = {"one threshold": None, "class": "label", "class, ranks": "label_rank", "cluster": "cluster", "RC3P": "rc3p"}


@dataclass(frozen=True)
class Row:
    """One method on one network, over all splits."""

    network: str
    score: str
    per_class: int
    method: str
    splits: int
    size: float  # mean set size
    coverage: float
    covgap: float  # mean over classes of |coverage - .9|, one split at a time
    worst: float  # mean coverage of the five worst classes, one split at a time
    below_once: float  # share of classes whose coverage in one split is below .9 with binomial p < .01
    below_on_average: float  # share of classes whose mean over splits is below .9 by more than 4 standard errors
    lowest_class: float  # the lowest mean over splits of a class
    empty: float  # share of empty sets


def splits(outputs: Outputs, per_class: int, count: int, seed: int = 0) -> Iterator[tuple[Outputs, Outputs]]:
    """Calibration rows drawn at random, ``per_class`` for each class on average, and all other rows."""
    rng = np.random.default_rng([seed, per_class])
    for _ in range(count):
        order = rng.permutation(outputs.n)
        cut = per_class * outputs.n_classes
        yield outputs[order[:cut]], outputs[order[cut:]]


def sets_of(score: str, by: str | None, calibration: Outputs, test: Outputs, seed: int) -> PredictionSets:
    """Sets of the test rows; aps is randomized."""
    if by == "rc3p":
        return rc3p(score, calibration, test, seed)
    rng = None if score == "lac" else seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)  # classes with too few rows: that is what is studied
        return SplitSets(score, alpha=ALPHA, by=by).calibrate(calibration, rng, clustering=seed).predict(test, rng)


def rc3p(score: str, calibration: Outputs, test: Outputs, seed: int) -> PredictionSets:
    """RC3P as published: rank limit and level of the score's quantile both from the calibration rows of the class."""
    rule, rng = NONCONFORMITY[score](), np.random.default_rng(seed)
    probs, labels, classes = calibration.probs, calibration.labels, calibration.n_classes
    u = rng.random(calibration.n + test.n) if rule.randomized else np.ones(calibration.n + test.n)
    scores, ranks = rule.of_labels(probs, labels, u[: calibration.n]), label_ranks(probs, labels)
    limit, cut = np.full(classes, classes), np.full(classes, np.inf)
    for label in np.unique(labels):
        own, own_ranks = np.sort(scores[labels == label]), ranks[labels == label]
        beyond = math.ceil(ALPHA * own.size - 1e-9) - 1  # rows that may lie beyond the limit: an error below alpha
        limit[label] = np.sort(own_ranks)[own.size - 1 - beyond]
        left = ALPHA - np.mean(own_ranks > limit[label])
        place = quantile_rank(own.size, left) if left > 1e-9 else own.size + 1
        cut[label] = own[place - 1] if place <= own.size else np.inf
    later = u[calibration.n :]
    member = (rule.of_all(test.probs, later) <= cut) & (TopK().of_all(test.probs, later) <= limit)
    return PredictionSets(member, alpha=ALPHA, level=1 - ALPHA)


def one(outputs: Outputs, network: str, score: str, per_class: int, method: str, count: int) -> Row:
    """All numbers of one method."""
    per_split, classes = [], []
    for seed, (calibration, test) in enumerate(splits(outputs, per_class, count)):
        sets = sets_of(score, SCHEMES[method], calibration, test, seed)
        covered, shares = sets.covers(test.labels), sets.class_coverage(test.labels)
        n = np.bincount(test.labels, minlength=outputs.n_classes)
        tail = binom.cdf(np.rint(np.nan_to_num(shares) * n), n, 1 - ALPHA)
        per_split.append((
            sets.sizes.mean(), covered.mean(), covgap(covered=covered, labels=test.labels, alpha=ALPHA),
            np.sort(shares)[:5].mean(), np.mean(tail < 0.01), np.mean(sets.sizes == 0),
        ))  # fmt: skip
        classes.append(shares)
    size, coverage, gap, worst, once, empty = np.mean(per_split, axis=0)
    mean = np.nanmean(classes, axis=0)
    error = np.nanstd(classes, axis=0, ddof=1) / np.sqrt(count)
    return Row(
        network, score, per_class, method, count, size=size, coverage=coverage, covgap=gap, worst=worst,
        below_once=once, below_on_average=float(np.mean(mean + 4 * error < 1 - ALPHA)), lowest_class=float(mean.min()),
        empty=empty,
    )  # fmt: skip


def study(data: Path, count: int) -> list[Row]:
    """Every network, score, number of samples and method."""
    rows = []
    with np.load(data / "cifar100_test_logits.npz") as arrays:
        for network in NETWORKS:
            outputs = Outputs(logits=arrays[f"logits_{network}"], labels=arrays["y"].astype(int))
            for score in SCORES:
                for per_class in PER_CLASS:
                    rows += [one(outputs, network, score, per_class, method, count) for method in SCHEMES]
            print(network, "done", flush=True)
    return rows


def read(path: Path) -> list[Row]:
    """The rows of results.csv."""
    kinds = {field.name: {"str": str, "int": int, "float": float}[str(field.type)] for field in fields(Row)}
    with path.open(newline="") as lines:
        return [Row(**{name: kinds[name](value) for name, value in line.items()}) for line in csv.DictReader(lines)]


def write(rows: list[Row], path: Path) -> None:
    """Rows as CSV, numbers with five digits."""
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5f}" if isinstance(v, float) else v for k, v in asdict(row).items()})


def tables(rows: list[Row]) -> str:
    """Means over the networks, one table per score."""
    lines = []
    for score in SCORES:
        lines += [
            f"## {score}", "",
            "| samples per class | method | mean size | coverage | CovGap | five worst classes | below in one split |"
            " below on average | lowest class | empty |",
            "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]  # fmt: skip
        for per_class in PER_CLASS:
            for method in SCHEMES:
                chosen = [r for r in rows if (r.score, r.per_class, r.method) == (score, per_class, method)]
                mean = {
                    name: float(np.mean([getattr(r, name) for r in chosen]))
                    for name in ("size", "coverage", "covgap", "worst", "below_once", "below_on_average", "empty")
                }
                lines.append(
                    f"| {per_class} | {method} | {mean['size']:.2f} | {mean['coverage']:.3f} | {mean['covgap']:.3f} | "
                    f"{mean['worst']:.3f} | {100 * mean['below_once']:.1f} % | "
                    f"{100 * mean['below_on_average']:.1f} % | {min(r.lowest_class for r in chosen):.3f} | "
                    f"{100 * mean['empty']:.1f} % |"
                )
        lines.append("")
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """CovGap against set size, one panel per score, a line from 10 to 50 samples per class."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "caveat", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    import matplotlib.pyplot as plt

    colors = dict(zip(SCHEMES, ("#a0a0a0", "#b5442e", "#e0a030", "#1f3b57", "#4a90c2"), strict=True))
    figure, axes = plt.subplots(1, len(SCORES), figsize=(7.2, 3.2), sharey=True, layout="constrained")
    for ax, score in zip(axes, SCORES, strict=True):
        for method, color in colors.items():
            chosen = [[r for r in rows if (r.score, r.per_class, r.method) == (score, m, method)] for m in PER_CLASS]
            x, y = ([np.mean([getattr(r, name) for r in part]) for part in chosen] for name in ("size", "covgap"))
            ax.plot(x, y, "o-", color=color, label=method, markersize=4)
            ax.annotate("10", (x[0], y[0]), textcoords="offset points", xytext=(4, 2), color=color, fontsize=7)
        ax.set(xscale="log", xlabel="mean set size", title=score)
        ax.set_xticks([3, 5, 10, 20, 40], ["3", "5", "10", "20", "40"])
        ax.set_xticks([], minor=True)
    axes[0].set_ylabel("CovGap")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    rows = study(Path(os.environ["CAVEAT_DATA"]), count)
    write(rows, HERE / "results.csv")
    (HERE / "tables.md").write_text(tables(read(HERE / "results.csv")), encoding="utf-8")
    draw(rows, HERE / "coverage.svg")


if __name__ == "__main__":
    main()
