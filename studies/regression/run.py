"""Prediction intervals on public regression sets: seven methods, coverage, width and adaptivity.

    CAVEAT_DATA=<folder> python studies/regression/run.py [--store runs/regression] [--seeds 5]

Needs regression_uci.npz and regression_cqr.npz. Resumable: one file per data set in the store.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._files import replacing_file, write_json
from caveat.conformal import DifficultyIntervals, DifficultyModel, MaskedReconstruction, SplitIntervals, regression_ease
from caveat.errors import CaveatWarning
from caveat.metrics import interval_adaptivity
from caveat.stats import compare

HERE = Path(__file__).parent
ALPHAS = (0.2, 0.3, 0.4)
DELTA = 1e-5  # of the PAC methods, as in the paper
METHODS = ("CP", "CP-A", "PAC", "SSCP", "CQR", "O-CPA", "O-PAC")
METRICS = ("T-CV", "T-SS", "coverage", "width", "R2", "tau")
LEAST_ROWS, MOST_ROWS = 1000, 6000
NOISE, COPIES, BINS = 0.1, 20, 20

Floats = NDArray[np.float64]


def data_sets(folder: str | os.PathLike[str]) -> Iterator[tuple[str, Floats, Floats]]:
    """Name, inputs and target of every set with enough rows; missing inputs become column means."""
    for archive in ("uci", "cqr"):
        with np.load(Path(folder) / f"regression_{archive}.npz", allow_pickle=False) as file:
            for key in sorted(k for k in file.files if k.endswith(("__y", "__Y"))):
                name = key[:-3]
                if archive == "cqr" and name in ("protein_casp", "concrete"):
                    continue  # in the other archive as well
                x, y = file[f"{name}__X"].astype(np.float64), file[key].astype(np.float64)
                if len(y) >= LEAST_ROWS:
                    means = np.nan_to_num(np.nanmean(x, axis=0))
                    yield f"{archive} {name}", np.where(np.isnan(x), means, x), y if y.ndim == 1 else y[:, 0]


def evaluate(x: Floats, y: Floats, *, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """Every method at every alpha on one random split: 40 % train, 20 % difficulty, 20 % calibrate, 20 % test."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[:MOST_ROWS]
    n = order.size
    train, hard, cal, new = np.split(order, [2 * n // 5, 3 * n // 5, 4 * n // 5])
    spread = x[train].std(axis=0)
    rows = (x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    target = (y - y[train].mean()) / max(y[train].std(), 1e-12)  # widths are in units of the target's spread

    def boosted(**settings: Any) -> Any:
        return HistGradientBoostingRegressor(max_iter=100, learning_rate=0.1, max_leaf_nodes=15, **settings)

    model = boosted().fit(rows[train], target[train])
    said = {part: model.predict(rows[where]) for part, where in (("hard", hard), ("cal", cal), ("new", new))}
    eases = {}
    for part, where in (("hard", hard), ("cal", cal), ("new", new)):
        moved = [model.predict(rows[where] + NOISE * rng.normal(size=rows[where].shape)) for _ in range(COPIES)]
        eases[part] = regression_ease(prediction=said[part], transformed=np.stack(moved))
    pretext = MaskedReconstruction().fit(rows[train], rng)
    loss = {part: pretext.loss(rows[where], rng) for part, where in (("hard", hard), ("cal", cal), ("new", new))}
    residual = target[hard] - said["hard"]
    plain = DifficultyModel().fit(rows[hard], residual)
    informed = DifficultyModel().fit(rows[hard], residual, loss=loss["hard"])
    scale = {part: plain.scale(rows[where]) for part, where in (("cal", cal), ("new", new))}
    supervised = {part: informed.scale(rows[where], loss=loss[part]) for part, where in (("cal", cal), ("new", new))}
    bins = max(2, min(10, cal.size // 100))

    found: dict[str, dict[str, dict[str, float]]] = {}
    for alpha in ALPHAS:
        quantiles = [
            boosted(loss="quantile", quantile=q).fit(rows[train], target[train]) for q in (alpha / 2, 1 - alpha / 2)
        ]
        ends = {
            part: {"lower": quantiles[0].predict(rows[where]), "upper": quantiles[1].predict(rows[where])}
            for part, where in (("cal", cal), ("new", new))
        }
        given = {
            "CP": ({"mean": said["cal"]}, {"mean": said["new"]}),
            "CP-A": tuple({"mean": said[p], "scale": scale[p]} for p in ("cal", "new")),
            "SSCP": tuple({"mean": said[p], "scale": supervised[p]} for p in ("cal", "new")),
            "CQR": (ends["cal"], ends["new"]),
        }
        given |= {"PAC": given["CP-A"], "O-CPA": given["CP-A"], "O-PAC": given["CP-A"]}
        found[str(alpha)] = {}
        for method in METHODS:
            known, asked = given[method]
            score: Any = {"CP": "absolute", "CQR": "cqr"}.get(method, "normalised")
            delta = DELTA if "PAC" in method else None
            if method.startswith("O-"):
                by_bin = DifficultyIntervals(score, alpha=alpha, bins=bins, delta=delta)
                by_bin.calibrate(target[cal], ease=eases["cal"], binning=eases["hard"], **known)
                intervals = by_bin.predict(ease=eases["new"], **asked)
            else:
                intervals = (
                    SplitIntervals(score, alpha=alpha, delta=delta).calibrate(target[cal], **known).predict(**asked)
                )
            found[str(alpha)][method] = interval_adaptivity(
                intervals, y=target[new], mean=said["new"], ease=eases["new"], bins=BINS
            )
    return found


def mean_over_seeds(runs: list[Any]) -> dict[str, dict[str, dict[str, float]]]:
    return {
        alpha: {m: {k: float(np.mean([run[alpha][m][k] for run in runs])) for k in METRICS} for m in METHODS}
        for alpha in runs[0]
    }


def table(results: dict[str, Any]) -> str:
    """The layout of the paper's Tables 10 and 11, and average ranks with Friedman's test."""
    lines = ["Means over random splits; widths in units of the target's spread. '-': an interval was infinite, or all"]
    lines += ["widths are equal. T-CV and width: smaller is better; T-SS, R2 and tau: larger is better.", ""]
    for alpha in map(str, ALPHAS):
        for first, second in (("T-CV", "T-SS"), ("coverage", "width"), ("R2", "tau")):
            head = [f"{metric} {method}" for metric in (first, second) for method in METHODS]
            lines += [f"### {first} and {second}, alpha = {alpha}", "", "| data | " + " | ".join(head) + " |"]
            lines.append("|---|" + "---:|" * len(head))
            for name, found in results.items():
                values = [found[alpha][method][metric] for metric in (first, second) for method in METHODS]
                lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" if np.isfinite(v) else "-" for v in values) + " |")
            lines.append("")
            for metric in (first, second):
                named = [m for m in METHODS if m != "CP" or metric not in ("R2", "tau")]  # CP has but one width
                values = np.array([[found[alpha][m][metric] for m in named] for found in results.values()])
                kept = values[np.isfinite(values).all(axis=1)]
                if metric == "coverage" or len(kept) < 5:
                    continue
                result = compare(kept, lower_is_better=metric in ("T-CV", "width"), methods=named)
                ranks = ", ".join(f"{m} {result.average_ranks[m]:.2f}" for m in named)
                layers = "; ".join(", ".join(layer) for layer in result.layers)
                lines += [
                    f"{metric}: average ranks over {len(kept)} sets: {ranks} (Friedman p = {result.p_value:.1e}). From "
                    f"best to worst, those that cannot be told apart together (Conover, Holm, 0.05): {layers}.",
                    "",
                ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("runs/regression"))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if "CAVEAT_DATA" not in os.environ:
        raise SystemExit("Set CAVEAT_DATA to the folder that holds the regression sets.")
    warnings.simplefilter("ignore", CaveatWarning)  # a group too small shows as an infinite width
    results = {}
    for name, x, y in data_sets(os.environ["CAVEAT_DATA"]):
        part = options.store / f"{name}.json"
        if not part.exists():
            start = time.process_time()
            write_json(part, mean_over_seeds([evaluate(x, y, seed=seed) for seed in range(options.seeds)]))
            print(f"{name}: {time.process_time() - start:.0f} CPU s", flush=True)
        results[name] = json.loads(part.read_text(encoding="utf-8"))
    rows = [
        {"data": name, "alpha": alpha, "method": method} | {k: f"{v:.4f}" for k, v in values.items()}
        for name, found in results.items()
        for alpha, by_method in found.items()
        for method, values in by_method.items()
    ]
    with replacing_file(HERE / "results.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with replacing_file(HERE / "tables.md") as temporary:
        temporary.write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
