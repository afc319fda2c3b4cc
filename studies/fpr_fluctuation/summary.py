"""Figures 1 and 2 and numbers.json from the rows of the study, and whether they show what the paper says."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from fluctuation import DELTA, ROC, SPLITS, N, Numbers, T, load, rates  # in this folder
from paper_size import Size  # in this folder
from scipy.special import betaln

from caveat._internal.files import write_json
from caveat.conformal import FPRBand, fpr_law
from caveat.metrics import roc_curve
from caveat_lab.papers.agreement import Agreement, Check, compare_findings


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    kinds = {"cifar10": Numbers, "mnist": Size, "ranks": Size}
    numbers = {row["design"]: {field.name: row[field.name] for field in fields(kinds[row["design"]])} for row in rows}
    numbers["ranks"].pop("distance")  # of the 53 sets alone there is none
    write_json(out / "numbers.json", numbers)
    inlier, outlier = load(Path(os.environ["CAVEAT_DATA"]))
    rng = np.random.default_rng(0)  # the draws of the study, in its order
    found = rates(inlier, n=N, t=T, splits=SPLITS, rng=rng)
    shown = {design: np.array([float(x) for x in numbers[design]["rates"].split()]) for design in ("mnist", "ranks")}
    draw(inlier, outlier, inlier[rng.permutation(inlier.size)[:ROC]], found, shown, out)
    return agreement(numbers)


def agreement(numbers: dict[str, Any]) -> Agreement:
    """What the paper says of its figures. The laws themselves are theory, not its numbers: the tests check them."""
    mnist, ranks, roc = numbers["mnist"], numbers["ranks"], numbers["cifar10"]
    law = f"Beta({mnist['law_a']}, {mnist['law_b']})"
    checks = [
        Check("Figure 1, 53 sets of 10,000: the fitted Beta is close to eq. 8", f"yes; eq. 8 gives {law}",
              f"MNIST Beta({mnist['fitted_a']:.0f}, {mnist['fitted_b']:.0f}), paper's design with random numbers "
              f"Beta({ranks['fitted_a']:.0f}, {ranks['fitted_b']:.0f}); 53 rates fix the parameters to "
              f"{100 * error():.0f} %", all(close(size) for size in (mnist, ranks))),
        Check("Figure 1: the rate fluctuates around 0.1", "yes",
              f"MNIST mean {mnist['mean_rate']:.4f}, standard deviation {mnist['sd_rate']:.4f} over 53 sets; random "
              f"numbers {ranks['mean_rate']:.4f} and {ranks['sd_rate']:.4f}",
              all(abs(size["mean_rate"] - T) < 3 * size["law_sd"] / np.sqrt(size["sets"]) for size in (mnist, ranks))),
        Check(f"Figure 2: the corrected AUROC of {roc['roc_n']:,} points is below that of all inliers", "yes",
              f"{roc['auroc_lower']:.3f} (upper bound {roc['auroc_upper']:.3f}), all inliers {roc['auroc_all']:.3f}",
              roc["auroc_lower"] <= roc["auroc_all"] <= roc["auroc_upper"]),
    ]  # fmt: skip
    parts = (("Figure 1, what it shows", checks[:2]), ("Figure 2, what it shows", checks[2:]))
    return Agreement(tuple(compare_findings(title, part) for title, part in parts))


def error(sets: int = 53) -> float:
    """Relative standard error of a parameter of a narrow Beta law fitted to so many draws: that of a variance."""
    return float(np.sqrt(2 / sets))


def close(size: dict[str, Any]) -> bool:
    """Whether the fitted parameter is that of the law seen through the finite rest, within three standard errors."""
    expected = size["law_a"] / (1 + (size["law_a"] + size["law_b"]) / size["rest"])
    return bool(abs(np.log(size["fitted_a"] / expected)) < 3 * error(size["sets"]))


def draw(
    inlier: np.ndarray, outlier: np.ndarray, calibration: np.ndarray, found: np.ndarray, shown: dict[str, np.ndarray],
    out: Path,
) -> None:  # fmt: skip
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "caveat", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(10.2, 3.2), layout="constrained")
    titles = ("53 sets of 10,000, MNIST", "53 disjoint sets of 10,000, random numbers",
              f"{found.size:,} sets of {N}, CIFAR-10")  # fmt: skip
    for axes, title, n, values in zip(panels, titles, (10_000, 10_000, N), (*shown.values(), found), strict=True):
        a, b = fpr_law(n, T)
        axes.hist(values, bins=40 if values.size > 100 else 12, density=True, color="#9db8d2")
        spread = np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
        grid = np.linspace(T - 3.5 * spread, T + 3.5 * spread, 200)
        density = np.exp((a - 1) * np.log(grid) + (b - 1) * np.log1p(-grid) - betaln(a, b))
        axes.plot(grid, density, color="#1f3b57", label=f"law: Beta({a}, {b})")
        axes.axvline(T, color="#b5442e", linestyle="--", linewidth=1, label=f"the rule says {T}")
        axes.set_title(title, fontsize=9)
        axes.set(xlabel="true false-positive rate of the rule p ≤ 0.1", ylim=(0, 1.75 * density.max()))
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("density")
    figure.savefig(out / "law.svg", metadata={"Date": None})

    figure, panels = plt.subplots(1, 2, figsize=(7.4, 3.4), layout="constrained")
    band = FPRBand(calibration, delta=DELTA)
    thresholds = np.quantile(outlier, np.linspace(1, 0, 300))
    tpr = np.linspace(0, 1, 300)
    for axes, high in zip(panels, (1.0, 0.1), strict=True):
        axes.fill_betweenx(
            tpr, band.lower(thresholds), band.upper(thresholds), color="#dce8f2", step="post",
            label=f"band, each side {100 * band.level:.0f} %",
        )  # fmt: skip
        for scores, colour, label in (
            (calibration, "#b5442e", f"{ROC:,} calibration inliers"),
            (inlier, "#1f3b57", f"all {inlier.size:,} inliers"),
        ):  # fmt: skip
            x, y = roc_curve(inlier=scores, outlier=outlier)
            kept = np.unique(np.linspace(0, x.size - 1, 400).astype(int))  # a small file
            axes.plot(x[kept], y[kept], color=colour, linewidth=1, label=label)
        axes.set(xlim=(0, high), ylim=(0, 1 if high == 1 else 0.5), xlabel="false-positive rate")
    panels[0].set_ylabel("true-positive rate")
    panels[0].legend(frameon=False, loc="lower right")
    figure.savefig(out / "roc.svg", metadata={"Date": None})
