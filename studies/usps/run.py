"""USPS digits: six transductive conformal predictors, K = 1..50, ranked by unconfidence and by observed fuzziness.

    CAVEAT_DATA=<folder with usps.npz> python studies/usps/run.py [--store runs/usps]

Resumable: one file per metric in the store; delete it to compute again.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from caveat._files import replacing_file
from caveat.conformal import FullKNN
from caveat.metrics import efficiency

HERE = Path(__file__).parent
METRICS = ("euclidean", "tangent")
MEASURES = ("ratio", "cp", "sp")
CRITERIA = ("U", "OF", "S", "F", "OU", "credibility")
SEED = 0

Floats = NDArray[np.float64]


def load(folder: str | os.PathLike[str]) -> tuple[Floats, Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Train and test images, each with mean 0 and standard deviation 1 (004, section 7), and their labels."""
    with np.load(Path(folder) / "usps.npz", allow_pickle=False) as data:
        images = [data[key].reshape(len(data[key]), -1).astype(np.float64) for key in ("x_train", "x_test")]
        labels = [data[key].astype(np.intp) for key in ("y_train", "y_test")]
    train, test = [(x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True) for x in images]
    return train, test, *labels


def evaluate(
    train: Floats, test: Floats, y_train: NDArray[np.intp], y_test: NDArray[np.intp], *, metric: str, most: int = 50
) -> list[dict[str, float | str]]:
    """One row per measure and K. KNN-CP and KNN-SP start at K = 2 in the paper; K = 1 is given as well."""
    fitted = FullKNN(metric=metric).fit(train, y_train, most=most)
    rows: list[dict[str, float | str]] = []
    for measure, k, p in fitted.path(test, range(1, most + 1), rng=np.random.default_rng(SEED)):
        found = efficiency(p_values=p, labels=y_test)
        rows.append({"metric": metric, "measure": measure, "K": k} | {name: found[name] for name in CRITERIA})
    return rows


def write(rows: list[dict[str, float | str]], path: Path) -> None:
    with replacing_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


def read(path: Path) -> list[dict[str, float | str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return [
            {k: v if k in ("metric", "measure") else int(v) if k == "K" else float(v) for k, v in row.items()}
            for row in csv.DictReader(stream)
        ]


def draw(rows: list[dict[str, float | str]], path: Path) -> None:
    """Figure 2 of the paper: unconfidence above, observed fuzziness below."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "caveat", "svg.fonttype": "none"}
    figure, axes = plt.subplots(2, 1, figsize=(7, 9), sharex=True)
    colours = {"ratio": "#0072b2", "cp": "#d55e00", "sp": "#009e73"}
    for axis, criterion, title in zip(
        axes, ("U", "OF"), ("average unconfidence", "average observed fuzziness"), strict=True
    ):
        for metric in METRICS:
            for measure in MEASURES:
                line = [r for r in rows if r["metric"] == metric and r["measure"] == measure]
                line = [r for r in line if measure == "ratio" or r["K"] != 1]  # as in the paper
                axis.plot(
                    [r["K"] for r in line], [r[criterion] for r in line], color=colours[measure],
                    linestyle="-" if metric == "tangent" else "--", label=f"KNN-{measure}, {metric}",
                )  # fmt: skip
        axis.set_ylabel(title)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    axes[1].set_xlabel("K")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("runs/usps"))
    options = parser.parse_args()
    if "CAVEAT_DATA" not in os.environ:
        raise SystemExit("Set CAVEAT_DATA to the folder that holds usps.npz.")
    data = load(os.environ["CAVEAT_DATA"])
    rows = []
    for metric in METRICS:
        part = options.store / f"{metric}.csv"
        if not part.exists():
            start, cpu = time.perf_counter(), time.process_time()
            write(evaluate(*data, metric=metric), part)
            print(f"{metric}: {time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} CPU s")
        rows += read(part)
    write(rows, HERE / "results.csv")
    draw(rows, HERE / "figure2.svg")
    for metric in METRICS:
        for measure in MEASURES:
            line = [r for r in rows if r["metric"] == metric and r["measure"] == measure]
            best = {c: min(line, key=lambda r: r[c]) for c in ("U", "OF")}
            text = ", ".join(f"{c} {best[c][c]:.4f} at K = {best[c]['K']}" for c in best)
            print(f"{metric:10} KNN-{measure:6} best {text}")


if __name__ == "__main__":
    main()
