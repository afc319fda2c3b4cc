"""The false-positive rate depends on the calibration set: its law over many sets, and a ROC curve with its band.

Figures 1 and 2 of "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction", with CIFAR-10
test images as inliers (ResNet-20, JPEG-75) and TinyImageNet as outliers; the paper has SVHN and CIFAR-10. Reads
cifar10_resnet20_jpeg75_features.npz.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import betainc, betaln, gammaln

from caveat import Outputs
from caveat.conformal import FPRBand, fpr_law, p_values
from caveat.metrics import auroc, conformal_auroc
from caveat.scores import make

T = 0.1  # the rule: flag a marginal p-value at or below this
N = 500  # calibration inliers of the law and of the band's promise
ROC = 1_000  # calibration inliers of Figure 2, as in the paper
SPLITS = 2000
DELTA = 0.05


@dataclass(frozen=True)
class Numbers:
    """What the study finds."""

    n: int
    roc_n: int
    delta: float
    t: float
    splits: int
    mean_rate: float
    sd_rate: float
    beta_mean: float
    beta_sd: float  # of the Beta law, with the spread of the finite rest added
    share_above_t: float  # calibration sets whose rule flags more inliers than its level
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

    The inliers are the whole population here, and calibration sets are drawn from it with replacement, so that
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
    calibration = inlier[rng.permutation(inlier.size)[:ROC]]
    bounds = conformal_auroc(inlier=calibration, outlier=outlier, delta=DELTA)
    numbers = Numbers(
        n=N, roc_n=ROC, delta=DELTA, t=T, splits=splits,
        mean_rate=float(found.mean()), sd_rate=float(found.std()),
        beta_mean=a / (a + b), beta_sd=float(np.sqrt(variance)),
        share_above_t=float(np.mean(found > T)), share_above_t_theory=float(1 - betainc(a, b, T)),
        distance=float(np.abs(law - steps).max()),
        auroc_all=auroc(inlier=inlier, outlier=outlier), auroc_calibration=bounds.value,
        auroc_lower=bounds.lower, auroc_upper=bounds.upper,
        bands_missed=missed(inlier, n=N, delta=DELTA, splits=splits, rng=rng),
    )  # fmt: skip
    return numbers, calibration
