"""OOD scores as nonconformity scores: mean set size on CIFAR-10 with a ResNet-20, LAC, APS and RAPS, three levels.

    CAVEAT_DATA=<folder> python studies/ood_scores_as_nonconformity/run.py [--store runs/ood_scores_as_nonconformity]

Needs cifar10_resnet20_jpeg75_features.npz and cifar10_resnet20_head.npz. Resumable: one file per score in the store.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from caveat import Head, Outputs
from caveat._files import replacing_file, write_json
from caveat.conformal import RAPS, SplitSets
from caveat.scores import Score, make

HERE = Path(__file__).parent
ALPHAS = (0.005, 0.01, 0.05)
METHODS: dict[str, Any] = {"LAC": "lac", "APS": "aps", "RAPS": RAPS(penalty=0.01, k_reg=2)}
CALIBRATION, SPLITS = 2000, 10


def load(folder: str | os.PathLike[str]) -> tuple[Outputs, Outputs]:
    """Training and test outputs, float32, with the head."""
    with np.load(Path(folder) / "cifar10_resnet20_head.npz", allow_pickle=False) as file:
        head = Head(file["head_weight"], file["head_bias"])
    with np.load(Path(folder) / "cifar10_resnet20_jpeg75_features.npz", allow_pickle=False) as file:
        found = [
            Outputs(
                features=file[f"feat_{part}"].astype(np.float32),
                logits=file[f"logits_{part}"],
                labels=file[f"y_{part}"].astype(np.intp),
                head=head,
            )
            for part in ("train", "test")
        ]
    return found[0], found[1]


def sources() -> dict[str, Score | None]:
    """The rows of the table; None is the model's own softmax."""
    return {
        "CP (softmax)": None,
        "ReAct": make("react"),
        "KNN": make("knn"),
        "Mahalanobis": make("mahalanobis"),
        "CTM": make("ctm"),
    }


class Stored:
    """Class scores computed once, kept as the logits of an Outputs."""

    def class_scores(self, outputs: Outputs) -> Any:
        return -outputs.logits


def evaluate(
    source: Any, train: Outputs, test: Outputs, *, splits: int = SPLITS, calibration: int = CALIBRATION
) -> Any:
    """Mean set size and coverage of every method and level, over random splits of the test set."""
    if source is None:
        scored = Outputs(logits=test.logits, labels=test.labels)
    else:
        scored = Outputs(logits=-source.fit(train).class_scores(test), labels=test.labels)
    found = []
    for split in range(splits):
        rng = np.random.default_rng(split)
        order = rng.permutation(test.n)
        known, new = scored[order[:calibration]], scored[order[calibration:]]
        for method, score in METHODS.items():
            for alpha in ALPHAS:
                sets = SplitSets(score, alpha=alpha, source=Stored()).calibrate(known, rng).predict(new, rng)
                found.append(
                    {"split": split, "method": method, "alpha": alpha, "size": float(sets.sizes.mean()),
                     "coverage": sets.coverage(new.labels)}
                )  # fmt: skip
    return found


def table(results: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Rows for a CSV file, and the layout of the paper's Table 2 in Markdown.

    Bold: the smallest of a column and all that a paired t-test over the splits (Holm, 0.05) cannot tell from it. The
    splits share test images, so that the test is lenient towards a difference.
    """
    rows, cells = [], {}
    for name, found in results.items():
        for method in METHODS:
            for alpha in ALPHAS:
                here = [r for r in found if r["method"] == method and r["alpha"] == alpha]
                sizes = np.array([r["size"] for r in here])
                cover = np.array([r["coverage"] for r in here])
                cells[name, method, alpha] = sizes
                rows.append(
                    {"score": name, "method": method, "alpha": alpha, "size": round(float(sizes.mean()), 4),
                     "size_std": round(float(sizes.std()), 4), "coverage": round(float(cover.mean()), 4)}
                )  # fmt: skip
    columns = [(method, alpha) for method in METHODS for alpha in ALPHAS]
    leaders = {c: _leaders({name: cells[name, *c] for name in results}) for c in columns}
    lines = ["| | " + " | ".join(f"{m} {a:g}" for m, a in columns) + " |", "|---|" + "---:|" * len(columns)]
    for name in results:
        parts = []
        for c in columns:
            text = f"{cells[name, *c].mean():.2f} ± {cells[name, *c].std():.2f}"
            parts.append(f"**{text}**" if name in leaders[c] else text)
        lines.append(f"| {name} | " + " | ".join(parts) + " |")
    return rows, "\n".join(lines) + "\n"


def _leaders(sizes: dict[str, Any]) -> set[str]:
    from scipy.stats import ttest_rel

    best = min(sizes, key=lambda name: sizes[name].mean())
    others = [name for name in sizes if name != best]
    p_values = np.array([ttest_rel(sizes[name], sizes[best]).pvalue for name in others])
    order, tied, running = np.argsort(p_values), {best}, 0.0
    for place, i in enumerate(order):  # Holm's step-down
        running = max(running, (len(others) - place) * p_values[i])
        if running > 0.05:
            tied.add(others[i])
    return tied


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("runs/ood_scores_as_nonconformity"))
    options = parser.parse_args()
    if "CAVEAT_DATA" not in os.environ:
        raise SystemExit("Set CAVEAT_DATA to the folder that holds the feature files.")
    train, test = load(os.environ["CAVEAT_DATA"])
    results = {}
    for name, source in sources().items():
        part = options.store / f"{name.split()[0].lower()}.json"
        if not part.exists():
            write_json(part, {"rows": evaluate(source, train, test)})
        results[name] = json.loads(part.read_text(encoding="utf-8"))["rows"]
    rows, text = table(results)
    with replacing_file(HERE / "results.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with replacing_file(HERE / "table2.md") as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
