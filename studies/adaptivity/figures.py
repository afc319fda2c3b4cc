"""Tables in Markdown and figures in SVG from the numbers of the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat import plots
from caveat._internal.files import replacing_file
from caveat.stats import Comparison, compare

METHODS = ("LAC", "APS", "RAPS", "SAPS", "O-LAC", "O-SAPS")
PAIRS = (("T-CV", "T-SS"), ("coverage", "size"), ("deficit", "excess"), ("SSCV", "ESCV"))
SMALLER_IS_BETTER = {"T-CV": True, "T-SS": False}

Floats = NDArray[np.float64]


def render(found: dict[str, dict[str, Any]], folder: Path) -> None:
    _write(folder / "tables.md", _tables(found["tables"]))
    _write(folder / "validation.md", _validation(found["validation"]))
    _write(folder / "sensitivity.md", _sensitivity(found["sensitivity"]))
    _ease_and_rank(found["tables"], folder / "figure1.svg")
    _plain_pyplot()
    for metric in SMALLER_IS_BETTER:
        ax = plots.critical_difference(ranking(found["tables"], metric, "0.1")[1])
        plots.save(ax, folder / f"cd_{metric.lower().replace('-', '_')}.svg")


def matrix(content: dict[str, Any], metric: str, alpha: str) -> tuple[list[str], Floats]:
    """Networks and their values by method; networks where a value is not defined are left out."""
    names = list(content)
    values = np.array([[content[n]["alpha"][alpha][m][metric] for m in METHODS] for n in names])
    keep = ~np.isnan(values).any(axis=1)
    return [n for n, k in zip(names, keep, strict=True) if k], values[keep]


def ranking(content: dict[str, Any], metric: str, alpha: str) -> tuple[Floats, Comparison]:
    """Values by method, and the methods ranked over the networks."""
    _, values = matrix(content, metric, alpha)
    return values, compare(values, lower_is_better=SMALLER_IS_BETTER[metric], methods=METHODS)


def _tables(content: dict[str, Any]) -> str:
    lines = [
        "Medians over random splits. T-CV, SSCV, ESCV, deficit, excess and size: smaller is better; T-SS: larger.",
        "",
    ]
    for alpha in next(iter(content.values()))["alpha"]:
        for first, second in PAIRS if float(alpha) <= 0.1 else PAIRS[:1]:  # the rest is in results.csv
            lines += [f"### {first} and {second}, alpha = {alpha}", ""]
            head = [f"{metric} {method}" for metric in (first, second) for method in METHODS]
            lines += ["| network | acc. | " + " | ".join(head) + " |", "|---|---:|" + "---:|" * len(head)]
            for name, found in content.items():
                values = [found["alpha"][alpha][method][metric] for metric in (first, second) for method in METHODS]
                cells = " | ".join("-" if np.isnan(v) else f"{v:.3f}" for v in values)
                lines.append(f"| {name} | {found['accuracy']:.3f} | {cells} |")
            if (first, second) == PAIRS[0]:
                lines += _verdicts(content, alpha)
            lines.append("")
    return "\n".join(lines)


def _verdicts(content: dict[str, Any], alpha: str) -> list[str]:
    """Average rows, and which methods differ significantly over the networks."""
    lines, ranks_row, means_row = [], [], []
    for metric in SMALLER_IS_BETTER:
        values, result = ranking(content, metric, alpha)
        means_row += [f"{v:.3f}" for v in values.mean(axis=0)]
        ranks_row += [f"{result.average_ranks[method]:.2f}" for method in METHODS]
        layers = "; ".join(", ".join(layer) for layer in result.layers)
        lines.append(
            f"{metric}: Friedman p = {result.p_value:.1e} over {result.n_blocks} networks. From best to worst, those "
            f"that cannot be told apart together (Conover, Holm, 0.05): {layers}."
        )
    rows = [f"| average | | {' | '.join(means_row)} |", f"| average rank | | {' | '.join(ranks_row)} |"]
    return [*rows, "", *lines]


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


def _sensitivity(content: dict[str, Any]) -> str:
    lines = ["O-LAC at alpha = 0.1; the judging ease is that of noise with sigma 0.05.", ""]
    lines += ["| classifier | transformation | T-CV | T-SS | size | coverage |", "|---|---|---:|---:|---:|---:|"]
    for name, settings in content.items():
        for setting, values in settings.items():
            cells = " | ".join(f"{values[m]:.3f}" for m in ("T-CV", "T-SS", "size", "coverage"))
            lines.append(f"| {name} | {setting} | {cells} |")
    return "\n".join(lines) + "\n"


def _ease_and_rank(content: dict[str, Any], path: Path) -> None:
    plt = _plain_pyplot()
    chosen = [
        n for n in ("cifar100 resnet56", "cifar100 vgg16_bn", "cifar10 resnet18_weak78", "mnist mlp-32") if n in content
    ]
    figure, axes = plt.subplots(1, len(chosen), figsize=(3 * len(chosen), 2.8))
    for axis, name in zip(np.atleast_1d(axes), chosen, strict=True):
        line = np.array(content[name]["rank_by_ease"])
        axis.plot(np.arange(1, len(line) + 1), line[:, 1], marker=".", linewidth=1, color="#0072b2")
        axis.set_title(name, fontsize="small")
        axis.set_xlabel("bin of ease, hardest first", fontsize="small")
    np.atleast_1d(axes)[0].set_ylabel("mean rank of the true label", fontsize="small")
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
