"""How often 95 % intervals of AURC and AUGRC cover the truth: writes results.csv next to this file.

    python studies/selective_intervals/coverage.py

Right answers have normal scores, wrong answers the same shifted by d; the truth follows from the normal distribution.
The form of the interval and the limits of its caveats were chosen on such scores. Two others were tried afterwards:
exponential scores, and normal ones where a third of the errors look like right answers.
Draws with one kind of answer only count too: their interval is that of the error rate. One line of the table per
metric, score, error rate and n; the mean length is relative to the truth. The bootstrap is left out where it takes
hours.
"""

from __future__ import annotations

import csv
import itertools
import sys
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from caveat.metrics import selective_intervals
from caveat.metrics.selective import Steps

SHIFTS = {"useless": 0.0, "good": 2.326, "very good": 3.29}  # AUROC of errors 0.5, 0.95, 0.99
SCORES = (*SHIFTS, "good, rounded")
UNSEEN = ("exponential", "a third hidden")
RATES = (0.5, 0.2, 0.05, 0.01)
DRAWS = {30: 4000, 100: 4000, 300: 4000, 1000: 2000, 10_000: 1000, 100_000: 500}
BOOTSTRAPS = {30: 1000, 100: 1000, 300: 1000, 1000: 500, 10_000: 100, 100_000: 0}
HARDEST = [(3000, score, 0.005) for score in ("useless", "good", "very good")]  # 15 errors, a few carry the area
AFTERWARDS = list(itertools.product((100, 1000, 10_000), UNSEEN, RATES[1:]))
RESAMPLES = 500
STEP, SCALE = 0.5, 6.0  # of the rounded score; mean of the exponential score of wrong answers
FIELDS = ("metric", "score", "error_rate", "n", "draws", "coverage", "missed_above", "length", "caveat",
          "bootstrap_draws", "bootstrap_coverage", "bootstrap_length")  # fmt: skip


def truth(score: str, rate: float) -> dict[str, float]:
    """Both areas of all the samples that could be drawn."""
    cuts = np.linspace(-12, 16, 2_000_001)
    if score == "exponential":
        cuts = np.geomspace(1e-9, 300, 2_000_001)
        of_right, of_wrong = -np.expm1(-cuts), -np.expm1(-cuts / SCALE)
    elif score == "a third hidden":
        of_right, of_wrong = ndtr(cuts), ndtr(cuts) / 3 + 2 * ndtr(cuts - SHIFTS["very good"]) / 3
    else:
        cuts = cuts if score in SHIFTS else np.arange(-12, 16, STEP) + STEP / 2
        of_right, of_wrong = ndtr(cuts), ndtr(cuts - SHIFTS[score.removesuffix(", rounded")])
    steps = Steps((1 - rate) * of_right + rate * of_wrong, rate * of_wrong, cuts)
    return {"aurc": steps.aurc(), "augrc": steps.augrc()}


def draw(score: str, rate: float, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    wrong = rng.random(n) < rate
    if score == "exponential":
        return {"score": rng.exponential(size=n) * np.where(wrong, SCALE, 1.0), "correct": ~wrong}
    if score == "a third hidden":
        seen = wrong & (rng.random(n) < 2 / 3)
        return {"score": rng.normal(size=n) + SHIFTS["very good"] * seen, "correct": ~wrong}
    values = rng.normal(size=n) + SHIFTS[score.removesuffix(", rounded")] * wrong
    return {"score": values if score in SHIFTS else STEP * np.round(values / STEP), "correct": ~wrong}


def simulate(score: str, rate: float, n: int, draws: int, bootstraps: int) -> list[dict[str, object]]:
    """One row for each metric."""
    rng, areas = np.random.default_rng([(*SCORES, *UNSEEN).index(score), round(1000 * rate), n]), truth(score, rate)
    ends = {name: np.empty((draws, 3)) for name in areas}
    resampled = {name: np.empty((bootstraps, 2)) for name in areas}
    for i in range(draws):
        rows = draw(score, rate, n, rng)
        for name, interval in selective_intervals(**rows).items():
            ends[name][i] = interval.lower, interval.upper, bool(interval.caveat)
        if i < bootstraps:
            for name, interval in selective_intervals(**rows, method="bootstrap", rng=rng, resamples=RESAMPLES).items():
                resampled[name][i] = interval.lower, interval.upper
    return [
        {"metric": name, "score": score, "error_rate": rate, "n": n, "draws": draws,
         "coverage": f"{_covered(ends[name], area):.4f}", "missed_above": f"{(ends[name][:, 1] < area).mean():.4f}",
         "length": f"{_length(ends[name], area):.3f}", "caveat": f"{ends[name][:, 2].mean():.3f}",
         "bootstrap_draws": bootstraps,
         "bootstrap_coverage": f"{_covered(resampled[name], area):.4f}" if bootstraps else "",
         "bootstrap_length": f"{_length(resampled[name], area):.3f}" if bootstraps else ""}
        for name, area in areas.items()
    ]  # fmt: skip


def _covered(ends: np.ndarray, area: float) -> float:
    return float(((ends[:, 0] <= area) & (area <= ends[:, 1])).mean())


def _length(ends: np.ndarray, area: float) -> float:
    return float((ends[:, 1] - ends[:, 0]).mean() / area)


def main() -> None:
    with (Path(__file__).parent / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for n, score, rate in [*itertools.product(DRAWS, SCORES, RATES), *HARDEST, *AFTERWARDS]:
            rows = simulate(score, rate, n, DRAWS.get(n, 2000), BOOTSTRAPS.get(n, 200))
            table.writerows(rows)
            for row in rows:
                print(*row.values(), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
