"""Figures 1 and 2 and numbers.json from the row of the study, and whether the law of the paper is found."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from fluctuation import DELTA, SPLITS, N, Numbers, T, load, rates  # in this folder
from scipy.special import betaln

from caveat._internal.files import write_json
from caveat.conformal import FPRBand, fpr_law
from caveat.metrics import roc_curve
from caveat.study.agreement import Agreement, Check, compare_findings


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    numbers = {field.name: rows[0][field.name] for field in fields(Numbers)}
    write_json(out / "numbers.json", numbers)
    inlier, outlier = load(Path(os.environ["CAVEAT_DATA"]))
    rng = np.random.default_rng(0)  # the draws of the study, in its order
    found = rates(inlier, n=N, t=T, splits=SPLITS, rng=rng)
    draw(inlier, outlier, inlier[rng.permutation(inlier.size)[:N]], found, out)
    return agreement(numbers)


def agreement(numbers: dict[str, Any]) -> Agreement:
    limit = 1.36 / np.sqrt(numbers["splits"])  # Kolmogorov, 5 %
    theory = numbers["share_above_t_theory"]
    error = np.sqrt(DELTA * (1 - DELTA) / numbers["splits"])
    checks = [
        Check("law of the false-positive rate over calibration sets", "Beta(50, 451)",
              f"largest gap to it {numbers['distance']:.3f}; chance allows {limit:.3f}", numbers["distance"] < limit),
        Check("calibration sets that flag more than they say", f"{theory:.3f} by that law",
              f"{numbers['share_above_t']:.3f}", abs(numbers["share_above_t"] - theory) < 0.03),
        Check("calibration sets whose band is wrong somewhere", f"at most {DELTA}",
              f"{numbers['bands_missed']:.4f}; chance allows {DELTA + 2 * error:.4f} in {numbers['splits']:,} draws",
              numbers["bands_missed"] <= DELTA + 2 * error),
        Check("AUROC of all inliers lies within the bounds from 500", "yes",
              f"{numbers['auroc_all']:.3f} in {numbers['auroc_lower']:.3f} to {numbers['auroc_upper']:.3f}",
              numbers["auroc_lower"] <= numbers["auroc_all"] <= numbers["auroc_upper"]),
    ]  # fmt: skip
    return Agreement((compare_findings("Figures 1 and 2, what they show", checks),))


def draw(inlier: np.ndarray, outlier: np.ndarray, calibration: np.ndarray, found: np.ndarray, out: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "caveat", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    import matplotlib.pyplot as plt

    a, b = fpr_law(N, T)
    figure, axes = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
    axes.hist(found, bins=40, density=True, color="#9db8d2", label=f"{found.size:,} calibration sets of {N}")
    grid = np.linspace(found.min(), found.max(), 200)
    density = np.exp((a - 1) * np.log(grid) + (b - 1) * np.log1p(-grid) - betaln(a, b))
    axes.plot(grid, density, color="#1f3b57", label=f"Beta({a}, {b})")
    axes.axvline(T, color="#b5442e", linestyle="--", linewidth=1, label=f"the rule says {T}")
    axes.set(xlabel="true false-positive rate of the rule p ≤ 0.1", ylabel="density")
    axes.legend(frameon=False)
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
            (calibration, "#b5442e", f"{N} calibration inliers"), (inlier, "#1f3b57", f"all {inlier.size:,} inliers"),
        ):  # fmt: skip
            x, y = roc_curve(inlier=scores, outlier=outlier)
            kept = np.unique(np.linspace(0, x.size - 1, 400).astype(int))  # a small file
            axes.plot(x[kept], y[kept], color=colour, linewidth=1, label=label)
        axes.set(xlim=(0, high), ylim=(0, 1 if high == 1 else 0.5), xlabel="false-positive rate")
    panels[0].set_ylabel("true-positive rate")
    panels[0].legend(frameon=False, loc="lower right")
    figure.savefig(out / "roc.svg", metadata={"Date": None})
