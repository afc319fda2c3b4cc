"""Tables in Markdown and figures in SVG from the numbers of the study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import methods  # in this folder
import numpy as np
import orders  # in this folder
from numpy.typing import NDArray

from caveat import plots
from caveat._internal.files import replacing_file
from caveat.metrics import t_cv_floor, t_ss_floor
from caveat.stats import Comparison, compare

METHODS = ("LAC", "APS", "RAPS", "SAPS", "O-LAC", "O-SAPS")
PAIRS = (("T-CV", "T-SS"), ("coverage", "size"), ("deficit", "excess"), ("SSCV", "ESCV"))
BINS = (30, 50, 100)
TESTED = 5000  # samples of a test half, for the floor of T-CV

Floats = NDArray[np.float64]


def render(found: dict[str, dict[str, Any]], folder: Path) -> None:
    kinds = {kind: orders.of_kind(found["tables"], kind) for kind in orders.KINDS}
    _write(folder / "tables.md", _tables(kinds))
    _write(folder / "validation.md", _validation(found["validation"]))
    _write(folder / "sensitivity.md", _sensitivity(found["sensitivity"], found["images"]))
    _write(folder / "human.md", _human(found["human"], kinds["noise on logits"]))
    _ease_and_rank({**found["tables"], **found["images"]}, folder / "figure1.svg")
    for metric in ("T-CV", "T-SS"):
        _diagrams(kinds["noise on logits"], metric, folder / f"cd_{metric.lower().replace('-', '_')}.svg")


def smaller_is_better(metric: str) -> bool:
    """By the name of the metric, with or without a number of bins."""
    return "T-SS" not in metric and metric != "human"


def matrix(content: dict[str, Any], metric: str, alpha: str) -> tuple[list[str], Floats]:
    """Networks and their values by method; networks where a value is not defined are left out."""
    names = list(content)
    values = np.array([[content[n]["alpha"][alpha][m][metric] for m in METHODS] for n in names])
    keep = ~np.isnan(values).any(axis=1)
    return [n for n, k in zip(names, keep, strict=True) if k], values[keep]


def ranking(content: dict[str, Any], metric: str, alpha: str) -> tuple[Floats, Comparison]:
    """Values by method, and the methods ranked over the networks."""
    _, values = matrix(content, metric, alpha)
    return values, compare(values, lower_is_better=smaller_is_better(metric), methods=METHODS)


def _tables(kinds: Mapping[str, dict[str, Any]]) -> str:
    """Tables 2 and 4 to 9, one for each kind of noise."""
    lines = [
        "Medians over random splits. T-CV, SSCV, ESCV, deficit, excess and size: smaller is better; T-SS: larger.",
        "",
        *_floors(),
        *_ceilings(kinds),
    ]
    for kind, content in kinds.items():
        for alpha in next(iter(content.values()))["alpha"]:
            for first, second in PAIRS if float(alpha) <= 0.1 else PAIRS[:1]:  # the rest is in results.csv
                lines += [f"### {first} and {second}, alpha = {alpha}, {kind}", ""]
                head = [f"{metric} {method}" for metric in (first, second) for method in METHODS]
                lines += ["| network | acc. | " + " | ".join(head) + " |", "|---|---:|" + "---:|" * len(head)]
                for name, found in content.items():
                    values = [found["alpha"][alpha][method][metric] for metric in (first, second) for method in METHODS]
                    cells = " | ".join("-" if np.isnan(v) else f"{v:.3f}" for v in values)
                    lines.append(f"| {name} | {found['accuracy']:.3f} | {cells} |")
                if (first, second) == PAIRS[0]:
                    lines += _verdicts(content, alpha)
                lines.append("")
        lines += _averages(content, kind)
    return "\n".join(lines)


def _floors() -> list[str]:
    """What chance alone gives."""
    lines = [
        "### What chance does", "",
        f"T-CV of sets that cover every bin exactly as promised, {TESTED} test samples: median, and 95 % quantile.", "",
        "| alpha | " + " | ".join(f"{count} bins" for count in BINS) + " |", "|---|" + "---|" * len(BINS),
    ]  # fmt: skip
    for alpha in (0.05, 0.1, 0.15, 0.2):
        cells = [
            ", ".join(f"{t_cv_floor(TESTED, alpha, bins=count, share=share):.3f}" for share in (0.5, 0.95))
            for count in BINS
        ]
        lines.append(f"| {alpha} | " + " | ".join(cells) + " |")
    unrelated = ", ".join(f"{t_ss_floor(count, share=0.95):.3f} with {count}" for count in BINS)
    return [*lines, "", f"|T-SS| of sets unrelated to difficulty stays below, in 95 % of cases: {unrelated} bins.", ""]


def _ceilings(kinds: Mapping[str, dict[str, Any]]) -> list[str]:
    """A reference value of T-SS, averaged, and T-SS of O-LAC and O-SAPS. It is no limit: sets can have more."""
    lines = [
        "Reference value of T-SS: what sets would have whose mean size is the expected rank of the true label "
        "(averages over networks). Sets that also follow difficulty within bins can have more.", "",
        "| kind | bins | reference | O-LAC, alpha = 0.1 | O-SAPS, alpha = 0.1 |", "|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for kind, content in kinds.items():
        for count in BINS:
            most = np.mean([found["ceiling"][count] for found in content.values()])
            values, _ = ranking(content, orders.column("T-SS", count), "0.1")
            reached = " | ".join(f"{values[:, METHODS.index(m)].mean():.3f}" for m in ("O-LAC", "O-SAPS"))
            lines.append(f"| {kind} | {count} | {most:.3f} | {reached} |")
    return [*lines, ""]


def _averages(content: dict[str, Any], kind: str) -> list[str]:
    """Rows "Average" and average rank for every number of bins: Tables 8 and 9 in short."""
    lines = [f"### Averages by number of bins, {kind}", ""]
    head = [f"{metric} {method}" for metric in ("T-CV", "T-SS") for method in METHODS]
    lines += ["| alpha | bins | row | " + " | ".join(head) + " |", "|---|---:|---|" + "---:|" * len(head)]
    for alpha in next(iter(content.values()))["alpha"]:
        for count in BINS:
            means, ranks = [], []
            for metric in ("T-CV", "T-SS"):
                values, result = ranking(content, orders.column(metric, count), alpha)
                means += [f"{v:.3f}" for v in values.mean(axis=0)]
                ranks += [f"{result.average_ranks[method]:.2f}" for method in METHODS]
            lines += [f"| {alpha} | {count} | {row} | {' | '.join(cells)} |"
                      for row, cells in (("average", means), ("rank", ranks))]  # fmt: skip
    return [*lines, ""]


def _verdicts(content: dict[str, Any], alpha: str) -> list[str]:
    """Average rows, and which methods differ significantly over the networks."""
    lines, ranks_row, means_row = [], [], []
    for metric in ("T-CV", "T-SS"):
        values, result = ranking(content, metric, alpha)
        means_row += [f"{v:.3f}" for v in values.mean(axis=0)]
        ranks_row += [f"{result.average_ranks[method]:.2f}" for method in METHODS]
        layers = "; ".join(", ".join(layer) for layer in result.layers)
        lines.append(
            f"{metric}: Friedman p = {result.p_value:.1e} over {result.n_blocks} networks. From best to worst, those "
            f"that cannot be told apart together (Conover, Holm, 0.05): {layers}."
        )
        ends = [
            np.median([found["alpha"][alpha][m][f"{metric} {end}"] for found in content.values()])
            for m in METHODS for end in ("low", "high")
        ]  # fmt: skip
        lines.append(f"{metric}, 95 % interval on one split, median ends: " + ", ".join(
            f"{m} {low:.3f} to {high:.3f}" for m, low, high in zip(METHODS, ends[::2], ends[1::2], strict=True)) + "."
        )  # fmt: skip
    rows = [f"| average | | {' | '.join(means_row)} |", f"| average rank | | {' | '.join(ranks_row)} |"]
    return [*rows, "", *lines]


def _human(content: dict[str, Any], tables: dict[str, Any]) -> str:
    """Set sizes against human uncertainty."""
    alphas = [key.removeprefix("value ") for key in content if key.startswith("value ")]
    lines = [
        "Spearman's correlation of set size with the entropy of human labels (CIFAR-10H), mean over 21 networks on one "
        "split of 5000 test images, with a 95 % bootstrap interval over images. `softmax`: 1 - largest probability; "
        "`ease`: under noise on the logits.", "",
        "| alpha | " + " | ".join((*METHODS, "softmax", "ease")) + " |", "|---|" + "---|" * (len(METHODS) + 2),
    ]  # fmt: skip
    for alpha in alphas:
        cells = [
            "{value:.3f} [{lower:.3f}, {upper:.3f}]".format(**content[f"value {alpha}"][m])
            for m in (*METHODS, "softmax", "ease")
        ]
        lines.append(f"| {alpha} | " + " | ".join(cells) + " |")
    lines += ["", "Differences of two methods, the interval in brackets:", ""]
    lines += [
        "| alpha | O-LAC - LAC | O-LAC - APS | O-SAPS - APS | O-SAPS - SAPS | O-SAPS - O-LAC |",
        "|---|" + "---|" * 5,
    ]
    for alpha in alphas:
        cells = [difference(content, alpha, *pair) for pair in HUMAN_PAIRS]
        lines.append(f"| {alpha} | " + " | ".join("{:.3f} [{:.3f}, {:.3f}]".format(*cell) for cell in cells) + " |")
    human = {name: found for name, found in tables.items() if name.startswith("cifar10 ")}
    lines += [
        "",
        "T-CV and T-SS over ten bins by human entropy, and the correlation, averages of medians over splits:",
        "",
    ]
    lines += ["| alpha | metric | " + " | ".join(METHODS) + " |", "|---|---|" + "---:|" * len(METHODS)]
    for alpha in alphas:
        for metric in ("human", "human T-CV", "human T-SS"):
            values, _ = ranking(human, metric, alpha)
            lines.append(f"| {alpha} | {metric} | " + " | ".join(f"{v:.3f}" for v in values.mean(axis=0)) + " |")
    return "\n".join(lines) + "\n"


HUMAN_PAIRS = (("O-LAC", "LAC"), ("O-LAC", "APS"), ("O-SAPS", "APS"), ("O-SAPS", "SAPS"), ("O-SAPS", "O-LAC"))


def difference(content: dict[str, Any], alpha: str, a: str, b: str) -> tuple[float, float, float]:
    """How much better a follows human uncertainty than b, with its interval; stored for one order of the two."""
    stored = content[f"difference {alpha}"]
    if f"{a} - {b}" in stored:
        ends = stored[f"{a} - {b}"]
        return ends["value"], ends["lower"], ends["upper"]
    ends = stored[f"{b} - {a}"]
    return -ends["value"], -ends["upper"], -ends["lower"]


def _validation(content: dict[str, Any]) -> str:
    """How often each metric came first, second ... by the size of its correlation with property 1, and all of them."""
    cases = [(n, m, found) for n, by_method in content.items() for m, found in by_method.items()]
    metrics = list(cases[0][2]["correlation"])
    places = {metric: [found["order"].index(metric) + 1 for _, _, found in cases] for metric in metrics}
    lines = ["### How often each metric took each place", "", "| place | " + " | ".join(metrics) + " |"]
    lines.append("|---|" + "---:|" * len(metrics))
    for place in range(1, len(metrics) + 1):
        lines.append(f"| {place} | " + " | ".join(str(places[m].count(place)) for m in metrics) + " |")
    lines.append("| average | " + " | ".join(f"{np.mean(places[m]):.2f}" for m in metrics) + " |")
    lines += [
        "",
        "### Spearman's correlation with the rate of property 1",
        "",
        "| network | method | " + " | ".join(metrics) + " |",
    ]
    lines.append("|---|---|" + "---:|" * len(metrics))
    for name, method, found in cases:
        cells = " | ".join(
            "-" if np.isnan(found["correlation"][m]) else f"{found['correlation'][m]:.3f}" for m in metrics
        )
        lines.append(f"| {name} | {method} | {cells} |")
    return "\n".join(lines) + "\n"


def _sensitivity(content: dict[str, Any], images: dict[str, Any]) -> str:
    lines = ["### Digits", "", "O-LAC at alpha = 0.1; the judging ease is that of noise with sigma 0.05.", ""]
    lines += ["| classifier | transformation | T-CV | T-SS | size | coverage |", "|---|---|---:|---:|---:|---:|"]
    for name, settings in content.items():
        for setting, values in settings.items():
            cells = " | ".join(f"{values[m]:.3f}" for m in ("T-CV", "T-SS", "size", "coverage"))
            lines.append(f"| {name} | {setting} | {cells} |")
    for name, found in images.items():
        count, bins = methods.IMAGES, methods.IMAGE_BINS
        lines += ["", f"### {name}", "", f"ResNet-20, accuracy {found['accuracy']:.3f} on {count} JPEG test images; "
                  f"half of them are tested, {bins} bins. Six methods, tuned and judged by noise on the input; "
                  "`human`: correlation of set size with the entropy of human labels.", "",
                  "| alpha | metric | " + " | ".join(METHODS) + " |", "|---|---|" + "---:|" * len(METHODS)]  # fmt: skip
        for alpha, by_method in found["alpha"].items():
            for metric in ("T-CV", "T-SS", "coverage", "size", "human"):
                cells = " | ".join(f"{by_method[m][metric]:.3f}" for m in METHODS)
                lines.append(f"| {alpha} | {metric} | {cells} |")
        lines += ["", f"Reference value of T-SS {found['ceiling'][bins]:.3f}; T-CV of perfect sets has median "
                  f"{t_cv_floor(count // 2, 0.1, bins=bins):.3f} at alpha = 0.1.", "",
                  "O-LAC at alpha = 0.1 by transformation. The judge is noise with sigma 0.05; `like the judge`: rank "
                  "correlation of the ease with that of the judge.", "",
                  "| transformation | T-CV | T-SS | size | coverage | human | like the judge |",
                  "|---|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
        for setting, values in found["settings"].items():
            cells = " | ".join(
                f"{values[m]:.3f}" for m in ("T-CV", "T-SS", "size", "coverage", "human", "like the judge")
            )
            lines.append(f"| {setting} | {cells} |")
    return "\n".join(lines) + "\n"


def _ease_and_rank(content: dict[str, Any], path: Path) -> None:
    plt = _plain_pyplot()
    wanted = (
        "cifar100 resnet56",
        "cifar100 vgg16_bn",
        "cifar10 resnet18_weak78",
        "cifar10 trained here",
        "mnist mlp-32",
    )
    chosen = [n for n in wanted if n in content]
    figure, axes = plt.subplots(1, len(chosen), figsize=(2.6 * len(chosen), 2.6))
    for axis, name in zip(np.atleast_1d(axes), chosen, strict=True):
        line = np.array(content[name]["rank_by_ease"])
        axis.plot(np.arange(1, len(line) + 1), line[:, 1], marker=".", linewidth=1, color="#0072b2")
        kind = "logits" if name.startswith("cifar") and "here" not in name else "inputs"
        axis.set_title(f"{name}\n(noise on {kind})", fontsize="small")
        axis.set_xlabel("bin of ease, hardest first", fontsize="small")
    np.atleast_1d(axes)[0].set_ylabel("mean rank of the true label", fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _diagrams(content: dict[str, Any], metric: str, path: Path) -> None:
    """Critical differences at every alpha (rows) and number of bins (columns): Figures 7 to 30 for one metric."""
    plt = _plain_pyplot()
    alphas = list(next(iter(content.values()))["alpha"])
    figure, axes = plt.subplots(len(alphas), len(BINS), figsize=(15, 2.1 * len(alphas)))
    for row, alpha in zip(axes, alphas, strict=True):
        for axis, count in zip(row, BINS, strict=True):
            plots.critical_difference(ranking(content, orders.column(metric, count), alpha)[1], axis)
            axis.set_title(f"{metric}, alpha = {alpha}, {count} bins", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _plain_pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "caveat", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    return plt


def _write(path: Path, text: str) -> None:
    with replacing_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
