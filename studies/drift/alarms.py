"""How often drift alarms ring on quiet streams, and how soon they find real drift.

    python studies/drift/alarms.py

Every stream is simulated, so that it is known when nothing changes. "Fixed" bets on p-values against a fixed
calibration set, as conformal test martingales are often used; "jumper" does so with the simple jumper alone; "urn" bets
on the p-values of `caveat.drift.RankUrn`, with the same bettors. Writes alarms.json, and the figure of docs/drift.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from caveat.drift import DriftAlarm, RankUrn, SimpleJumper
from caveat.drift.bettors import default_bettors, log_mean

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "drift_quiet.svg"
SIZES, LEVELS = (50, 100, 1000), (0.01, 0.05)
STREAMS, LENGTH, DRIFTS = 400, 20_000, 200


def fixed_p_values(calibration: np.ndarray, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Smoothed conformal p-values against the calibration scores alone."""
    above = calibration.size - np.searchsorted(np.sort(calibration), scores)
    return (above + rng.random(scores.size)) / (calibration.size + 1)


def evidence(p_values: np.ndarray) -> np.ndarray:
    """log10 of the mean capital after each p-value."""
    inside = np.minimum(p_values, 1 - 2.0**-53)
    return log_mean(np.stack([bettor.update(inside) for bettor in default_bettors()])) / np.log(10)


def quiet_paths(n: int, seed: int, length: int) -> dict[str, np.ndarray]:
    """Evidence along one quiet stream, by kind of p-value."""
    rng = np.random.default_rng([n, seed])
    calibration, scores = rng.normal(size=n), rng.normal(size=length)
    return {
        "jumper": SimpleJumper().update(fixed_p_values(calibration, scores, rng)) / np.log(10),
        "fixed": evidence(fixed_p_values(calibration, scores, rng)),
        "urn": evidence(RankUrn(calibration, seed=seed).update(scores)),
        "alarm": DriftAlarm(calibration, alpha=0.01, seed=seed).update(scores),  # with restarts
    }


def quiet_rates(streams: int, length: int) -> list[dict[str, float]]:
    """Share of quiet streams on which each alarm ever rings."""
    rows = []
    for n in SIZES:
        highest = [{kind: path.max() for kind, path in quiet_paths(n, seed, length).items()} for seed in range(streams)]
        rows += [
            {"n": n, "alpha": alpha} | {kind: float(np.mean([h[kind] >= -np.log10(alpha) for h in highest]))
                                        for kind in ("jumper", "fixed", "urn", "alarm")}
            for alpha in LEVELS
        ]  # fmt: skip
    return rows


def drifted(kind: str, rng: np.random.Generator, n: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Calibration scores, a quiet stream, and a stream with drift."""
    if kind == "class prior":  # predicted classes; one of ten grows from 10 to 20 %
        draw = rng.integers(10, size=n + 2 * length).astype(float)
        draw[n + length :][rng.random(length) < 1 / 9] = 3.0
    else:
        draw = rng.normal(size=n + 2 * length)
        if kind == "new class":  # a tenth of the stream, 3 sd higher
            draw[n + length :][rng.random(length) < 0.1] += 3.0
        else:
            draw[n + length :] += float(kind.removesuffix(" sd"))
    return draw[:n], draw[n : n + length], draw[n + length :]


def delays(streams: int, length: int = 3000) -> list[dict[str, float | str]]:
    """Points from the change to the alarm: median, 90 % quantile, and the share found within the stream."""
    rows: list[dict[str, float | str]] = []
    for kind in ("0.25 sd", "0.5 sd", "1.0 sd", "new class", "class prior"):
        for n in (100, 1000):
            waits = []
            for seed in range(streams):
                calibration, quiet, stream = drifted(kind, np.random.default_rng([n, seed]), n, length)
                alarm = DriftAlarm(calibration, alpha=0.01, seed=seed)
                alarm.update(quiet)
                if not alarm.alarmed:
                    alarm.update(stream)
                    waits.append(alarm.alarmed_at - length if alarm.alarmed_at else np.inf)
            rows.append({"drift": kind, "n": n, "median": _or_none(np.median(waits)),
                         "late": _or_none(np.quantile(waits, 0.9, method="higher")),
                         "found": float(np.mean(np.isfinite(waits)))})  # fmt: skip
    return rows


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def draw(path: Path) -> None:
    """The evidence along twenty quiet streams, with fixed and with urn p-values."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "caveat"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    titles = {"fixed": "Fixed calibration set", "urn": "Rank urn"}
    for seed in range(20):
        paths = quiet_paths(100, seed, LENGTH)
        for axis, kind in zip(axes, titles, strict=True):
            color = "#c44e52" if paths[kind].max() >= 2 else "#8c8c8c"
            axis.plot(np.arange(1, LENGTH + 1)[::200], paths[kind][::200], lw=0.9, color=color)
    for axis, title in zip(axes, titles.values(), strict=True):
        axis.axhline(2, color="black", lw=1, ls="--")
        axis.set(title=title, xlabel="points of a quiet stream", ylim=(-3, 8), xticks=(0, 10_000, 20_000))
    axes[0].set_ylabel("evidence for drift, log10")
    axes[0].annotate("alarm line, 1 %", (LENGTH, 2), ha="right", va="bottom", fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def main(streams: int = STREAMS, length: int = LENGTH, drifts: int = DRIFTS) -> dict[str, list[dict[str, float | str]]]:
    return {"quiet": quiet_rates(streams, length), "drift": delays(drifts)}


if __name__ == "__main__":
    print(f"{len(SIZES) * STREAMS} quiet streams of {LENGTH:,} points, then drifts", file=sys.stderr)
    (HERE / "alarms.json").write_text(json.dumps(main(), indent=1) + "\n")
    draw(FIGURE)
