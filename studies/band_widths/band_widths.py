"""How far above the measured rate each upper band lies: the table of docs/guarantees.md, and its figure.

python studies/band_widths/band_widths.py

Prints the lines of the table and writes docs/figures/band_widths.svg.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from caveat.conformal import boundary, calibrate_shape, rank_weights

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "band_widths.svg"
RATES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 0.9)
COLUMNS = ("dkwm", "simes", "exact", "focused")


def widths(n: int, delta: float) -> dict[str, np.ndarray]:
    """Upper band less measured rate, for k = 0, ..., n flagged of n; ``focused`` spends everything on rates to 0.1."""
    found = {name: boundary(n, delta, name) for name in COLUMNS if name != "focused"}
    found["focused"] = calibrate_shape(n, delta, rank_weights(n, upto=0.1))
    return {name: np.append(b, 1.0) - np.arange(n + 1) / n for name, b in found.items()}


def rows(n: int, delta: float) -> list[str]:
    """The lines of the table, in percentage points."""
    lines, found = [], widths(n, delta)
    for rate in RATES:
        k = round(rate * n)
        cells = [f"{100 * found[name][k]:.2f}" if found[name][k] < 1 - k / n else "none" for name in COLUMNS]
        lines.append(f"| {n:,} | {100 * rate:g} % | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "caveat", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    import matplotlib.pyplot as plt

    for n in (1000, 10_000):
        print("\n".join(rows(n, 0.05)))
    n = 1000
    figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    colours = {"dkwm": "#a0a0a0", "simes": "#b5442e", "exact": "#1f3b57", "focused": "#4a90c2"}
    for name, width in widths(n, 0.05).items():
        k = np.unique(np.round(np.geomspace(1, 0.95 * n, 150)).astype(int))
        k = k[width[k] < 1 - k / n]  # a band at 1 is vacuous
        axes.plot(k / n, 100 * width[k], color=colours[name], label=name)
    axes.set(xscale="log", xlabel="measured false-positive rate", ylabel="width of the band, percentage points")
    axes.set(ylim=(0, 10), title=f"n = {n:,}, delta = 0.05")
    axes.legend(frameon=False)
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
