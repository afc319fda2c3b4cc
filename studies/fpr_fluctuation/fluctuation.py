"""The false-positive rate depends on the calibration set: its law over many sets, and a ROC curve with its band.

CAVEAT_DATA=<folder> python studies/fpr_fluctuation/fluctuation.py

Figures 1 and 2 of "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction", with CIFAR-10
test images as inliers (ResNet-20, JPEG-75) and TinyImageNet as outliers; the paper has SVHN and CIFAR-10. Reads
cifar10_resnet20_jpeg75_features.npz, writes law.svg, roc.svg and numbers.json beside this file.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import betainc, betaln, gammaln

from caveat import Outputs
from caveat.conformal import FPRBand, fpr_law, p_values
from caveat.metrics import auroc, conformal_auroc, roc_curve
from caveat.scores import make

HERE = Path(__file__).parent
T = 0.1  # the rule: flag a marginal p-value at or below this
N = 500  # calibration inliers
SPLITS = 2000
DELTA = 0.05


@dataclass(frozen=True)
class Numbers:
    """What the study finds."""

    n: int
    delta: float
    t: float
    splits: int
    mean_rate: float
    sd_rate: float
    beta_mean: float
    beta_sd: float  # of the Beta law, with the spread of the finite rest added
    share_above_t: float  # calibration sets whose rule flags more inliers than it says
    share_above_t_theory: float
    distance: float  # largest gap between the empirical and the Beta-binomial distribution function
    auroc_all: float
    auroc_calibration: float
    auroc_lower: float
    auroc_upper: float
    bands_missed: float  # share of calibration sets whose upper band is wrong somewhere; at most delta is promised


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Energy scores of inliers and outliers."""
    with np.load(folder / "cifar10_resnet20_jpeg75_features.npz", allow_pickle=False) as archive:
        energy = make("energy")
        return tuple(energy.score(Outputs(logits=archive[f"logits_{name}"])) for name in ("test", "tinyimagenet"))


def rates(inlier: np.ndarray, *, n: int, t: float, splits: int, rng: np.random.Generator) -> np.ndarray:
    """Share of the other inliers that the rule p <= t flags, for each of many random calibration sets of size n."""
    found = np.empty(splits)
    for split in range(splits):
        order = rng.permutation(inlier.size)
        p = p_values(calibration=inlier[order[:n]], test=inlier[order[n:]])
        found[split] = np.mean(p <= t)
    return found


def beta_binomial_cdf(counts: np.ndarray, m: int, a: int, b: int) -> np.ndarray:
    """Exact law of how many of m further inliers are flagged: Beta(a, b) seen through m of them."""
    k = np.arange(m + 1)
    log_choose = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
    return np.cumsum(np.exp(log_choose + betaln(k + a, m - k + b) - betaln(a, b)))[counts]


def missed(inlier: np.ndarray, *, n: int, delta: float, splits: int, rng: np.random.Generator) -> float:
    """Share of calibration sets whose upper band is somewhere below the true rate.

    The inliers at hand are the whole population here and calibration sets are drawn from it with replacement, so that
    the true rate is known without error and the draws are independent.
    """
    thresholds = np.unique(inlier)
    rate = 1 - np.searchsorted(np.sort(inlier), thresholds) / inlier.size
    wrong = 0
    for _ in range(splits):
        band = FPRBand(rng.choice(inlier, size=n), delta=delta)
        wrong += bool((rate > band.upper(thresholds)).any())
    return wrong / splits


def study(inlier: np.ndarray, outlier: np.ndarray, *, splits: int = SPLITS) -> tuple[Numbers, np.ndarray]:
    rng = np.random.default_rng(0)
    found = rates(inlier, n=N, t=T, splits=splits, rng=rng)
    a, b = fpr_law(N, T)
    m = inlier.size - N
    variance = a * b / ((a + b) ** 2 * (a + b + 1)) * (1 + (a + b) / m)
    counts = np.sort(np.round(found * m).astype(int))
    law = beta_binomial_cdf(counts, m, a, b)
    steps = np.arange(1, splits + 1) / splits
    calibration = inlier[rng.permutation(inlier.size)[:N]]
    bounds = conformal_auroc(inlier=calibration, outlier=outlier, delta=DELTA)
    numbers = Numbers(
        n=N, delta=DELTA, t=T, splits=splits,
        mean_rate=float(found.mean()), sd_rate=float(found.std()),
        beta_mean=a / (a + b), beta_sd=float(np.sqrt(variance)),
        share_above_t=float(np.mean(found > T)), share_above_t_theory=float(1 - betainc(a, b, T)),
        distance=float(np.abs(law - steps).max()),
        auroc_all=auroc(inlier=inlier, outlier=outlier), auroc_calibration=bounds.value,
        auroc_lower=bounds.lower, auroc_upper=bounds.upper,
        bands_missed=missed(inlier, n=N, delta=DELTA, splits=splits, rng=rng),
    )  # fmt: skip
    return numbers, calibration


def draw(inlier: np.ndarray, outlier: np.ndarray, calibration: np.ndarray, found: np.ndarray) -> None:
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
    figure.savefig(HERE / "law.svg", metadata={"Date": None})

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
    figure.savefig(HERE / "roc.svg", metadata={"Date": None})


def main() -> None:
    if "CAVEAT_DATA" not in os.environ:
        sys.exit("Set CAVEAT_DATA to the folder that holds cifar10_resnet20_jpeg75_features.npz.")
    inlier, outlier = load(Path(os.environ["CAVEAT_DATA"]))
    numbers, calibration = study(inlier, outlier)
    (HERE / "numbers.json").write_text(json.dumps(asdict(numbers), indent=2) + "\n", encoding="utf-8")
    draw(inlier, outlier, calibration, rates(inlier, n=N, t=T, splits=SPLITS, rng=np.random.default_rng(0)))
    print(json.dumps(asdict(numbers), indent=2))


if __name__ == "__main__":
    main()
