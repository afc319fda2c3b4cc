"""Why Tables 4 and 6 differ: three possible causes, each tested by changing one thing and nothing else.

    CAVEAT_DATA=<folder> python studies/adaptivity/sharpness.py

writes sharpness.md (three minutes of one core). Sizes, deficit and excess are those of the first split, not medians.

- Sharp softmax: the logits of all 27 CIFAR networks are divided by 3, which changes no prediction. Digits stay.
- Few classes: the six networks with 100 classes choose among ten classes, the true one and nine others.
- Tied scores: the logits of one network are read as float64 instead of float32.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import methods  # in this folder
import numpy as np
import orders  # in this folder
import run  # in this folder

from caveat import Outputs
from caveat.errors import CaveatWarning

HERE = Path(__file__).parent
NETWORKS = (*(f"cifar100 {name}" for name in run.CIFAR100), *(f"cifar10 {name}" for name in run.CIFAR10))
FACTOR = 3.0  # that logits are divided by
TIED = "cifar10 unnamed_pretrained"  # the network that O-LAC covers too much of

Values = dict[str, dict[str, float]]  # method -> metric -> value


def flatter(outputs: Outputs, factor: float) -> Outputs:
    """The same network with its logits divided by a factor."""
    return Outputs(logits=outputs.logits / np.float32(factor), labels=outputs.labels)


def among_ten(outputs: Outputs) -> Outputs:
    """The same network where it chooses among the ten classes of one of ten random groups, the one with the label."""
    groups = np.random.default_rng(0).permutation(outputs.logits.shape[1]).reshape(-1, 10)
    group, place = np.empty(groups.size, dtype=np.intp), np.empty(groups.size, dtype=np.intp)
    for number, classes in enumerate(groups):
        group[classes], place[classes] = number, np.arange(10)
    columns = groups[group[outputs.labels]]
    return Outputs(logits=np.take_along_axis(outputs.logits, columns, axis=1), labels=place[outputs.labels])


def widened(outputs: Outputs) -> Outputs:
    """The same logits as float64, so that fewer probabilities round to 1."""
    return Outputs(logits=outputs.logits.astype(np.float64), labels=outputs.labels)


def measured(outputs: Outputs, alpha: float) -> Values:
    """All metrics of all methods on the first split, with eases of these outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)
        return methods.compare(outputs, *run.cifar_eases(outputs), alpha=alpha, seed=0)


def mean(values: Sequence[Values], metric: str) -> dict[str, float]:
    return {method: float(np.mean([value[method][metric] for value in values])) for method in methods.METHODS}


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def largest(values: dict[str, float]) -> str:
    return max(values, key=values.__getitem__)


def report() -> str:
    networks = {name: run.cifar_network(name) for name in NETWORKS}
    sharp, pairs = [], []
    for factor in (1.0, FACTOR):
        tables: dict[str, dict[str, dict[str, Values]]] = {name: {"alpha": {}} for name in networks}
        for alpha in run.ALPHAS:
            for name, outputs in networks.items():
                tables[name]["alpha"][str(alpha)] = measured(flatter(outputs, factor), alpha)
            values = [content["alpha"][str(alpha)] for content in tables.values()]
            for metric in ("size", "excess", "deficit"):
                sharp.append(
                    [metric, f"{factor:g}", alpha, *(f"{value:.3f}" for value in mean(values, metric).values())]
                )
        agreements = [orders.table(number, tables, "noise on logits") for number in (2, 5, 6, 7)]
        pairs.append([f"{factor:g}", *(f"{part.agree} of {part.compared}" for part in agreements)])
    few = []
    for name in run.CIFAR100:
        whole = networks[f"cifar100 {name}"]
        for classes, outputs in ((100, whole), (10, among_ten(whole))):
            sizes = [mean([measured(outputs, alpha)], "size") for alpha in run.ALPHAS]
            most = [f"{largest(size)} {size[largest(size)]:.2f} (APS {size['APS']:.2f})" for size in sizes]
            sure = outputs.probs.max(axis=1).mean()
            few.append([name, classes, f"{outputs.correct.mean():.3f}", f"{sure:.3f}", *most])
    ties = []
    for kind, outputs in (("float32", networks[TIED]), ("float64", widened(networks[TIED]))):
        off = [measured(outputs, alpha)["O-LAC"]["coverage"] - 1 + alpha for alpha in run.ALPHAS]
        ties.append([kind, f"{(outputs.probs.max(axis=1) == 1).mean():.3f}", *(f"{value:+.4f}" for value in off)])
    alphas = [f"alpha = {alpha}" for alpha in run.ALPHAS]
    parts = [
        "# Why Tables 4 and 6 differ",
        "First split; written by `sharpness.py`. The four digit classifiers are not changed.",
        "## Sharp softmax: means over the 27 CIFAR networks, logits divided by 1 and by 3",
        markdown_table(["metric", "divided by", "alpha", *methods.METHODS], sorted(sharp, key=lambda row: row[0])),
        "Pairs of methods in the order of the published means:",
        markdown_table(["divided by", *(f"Table {number}" for number in (2, 5, 6, 7))], pairs),
        "## Few classes: the method with the largest sets, among 100 classes and among ten of them",
        markdown_table(["network", "classes", "accuracy", "mean confidence", *alphas], few),
        f"## Tied scores: coverage of O-LAC less 1 - alpha, {TIED}",
        markdown_table(["logits", "largest probability exactly 1", *alphas], ties),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    assert os.environ.get("CAVEAT_DATA"), "set CAVEAT_DATA to the folder of the data"
    (HERE / "sharpness.md").write_text(report(), encoding="utf-8")
