"""How often the betting bounds of AUROC fail, and how long they are against the band: the table of docs/guarantees.md.

    python studies/betting_auroc/betting_auroc.py

Prints one line per case, n and delta, then the lines of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from caveat.metrics import conformal_auroc

SIZES = (20, 50, 100, 500, 2000, 10_000)
DELTAS = (0.1, 0.01)
DRAWS, BANDS = 4000, 20
Draw = Callable[[np.random.Generator, int], np.ndarray]
Cdf = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """Outliers, how inliers are drawn, and the true AUROC of these outliers against all inliers."""

    name: str
    outlier: np.ndarray
    draw: Draw
    auroc: float


@dataclass(frozen=True)
class Line:
    """How often each bound failed, and how far the lower bounds lie below the measured AUROC on average."""

    case: str
    auroc: float
    n: int
    delta: float
    lower_failed: float
    upper_failed: float
    gap: float
    band_gap: float

    def __str__(self) -> str:
        start = f"{self.case:22s} AUROC {self.auroc:.4f} n {self.n:6d} delta {self.delta:4g}"
        failed = f"failed {self.lower_failed:.4f} {self.upper_failed:.4f}"
        return f"{start}: {failed}, gap {self.gap:.4f}, band {self.band_gap:.4f}"


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=n)


def cauchy(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_cauchy(n)


def cauchy_cdf(s: np.ndarray) -> np.ndarray:
    return 0.5 + np.arctan(s) / np.pi


def lognormal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.lognormal(sigma=2, size=n)


def lognormal_cdf(s: np.ndarray) -> np.ndarray:
    return ndtr(np.log(np.maximum(s, 1e-300)) / 2)


def rounded(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.round(rng.normal(size=n))


def rounded_cdf(s: np.ndarray) -> np.ndarray:
    """Chance of less than s plus half the chance of s, for whole numbers s."""
    return (ndtr(s - 0.5) + ndtr(s + 0.5)) / 2


def cases() -> Iterator[Case]:
    """Every kind of inlier and outlier that the promise is tried on; the outliers of a case never change."""
    spread = ndtri((np.arange(500) + 0.5) / 500)  # 500 normal outliers without luck

    def case(name: str, outlier: np.ndarray, draw: Draw, cdf: Cdf) -> Case:
        return Case(name, outlier, draw, float(cdf(outlier).mean()))

    for shift, name in ((0.0, ".5"), (1.812, ".9"), (4.37, ".999"), (12.0, "1")):
        yield case(f"normal, {name}", spread + shift, normal, ndtr)
    yield case("rounded scores", np.round(spread + 1.8), rounded, rounded_cdf)
    yield case("heavy tails (Cauchy)", spread + 3, cauchy, cauchy_cdf)
    yield case("skewed (lognormal)", np.exp(spread + 2), lognormal, lognormal_cdf)
    for m in (1, 2, 5):
        yield case(f"{m} outlier{'s' * (m > 1)}", np.linspace(0.8, 1.9, m) if m > 1 else np.array([1.28]), normal, ndtr)


def simulate(case: Case, n: int, delta: float, draws: int, *, sort: bool = False) -> Line:
    """Draw inliers again and again and compare both bounds with the true AUROC; ``sort``: pass them sorted."""
    rng = np.random.default_rng([n, round(1 / delta), case.outlier.size])
    low = high = 0
    gaps, band_gaps = [], []
    for draw in range(draws):
        inlier = case.draw(rng, n)
        sides = {"inlier": np.sort(inlier) if sort else inlier, "outlier": case.outlier, "delta": delta}
        found = conformal_auroc(**sides, method="betting")
        low += found.lower > case.auroc
        high += found.upper < case.auroc
        gaps.append(found.value - found.lower)
        if draw < BANDS:
            band = conformal_auroc(**sides)
            band_gaps.append(band.value - band.lower)
    return Line(case.name, case.auroc, n, delta, low / draws, high / draws, np.mean(gaps), np.mean(band_gaps))


def table(lines: list[Line]) -> list[str]:
    """One line per case and delta: the largest failure over all n and both sides, and gaps at four sizes."""
    rows = []
    for name, delta in dict.fromkeys((line.case, line.delta) for line in lines):
        mine = {line.n: line for line in lines if (line.case, line.delta) == (name, delta)}
        worst = max(max(line.lower_failed, line.upper_failed) for line in mine.values())
        gaps = [f"{mine[n].gap:.4f} ({mine[n].band_gap:.4f})" for n in (20, 100, 500, 10_000) if n in mine]
        auroc = next(iter(mine.values())).auroc
        rows.append(f"| {name} | {auroc:.4g} | {delta:g} | {worst:.4f} | " + " | ".join(gaps) + " |")
    return rows


def main() -> None:
    lines = []
    for case in cases():
        for delta in DELTAS:
            for n in SIZES:
                lines.append(simulate(case, n, delta, DRAWS if n < 10_000 else DRAWS // 4))
                print(lines[-1], flush=True)
    print("\n".join(table(lines)))


if __name__ == "__main__":
    main()
