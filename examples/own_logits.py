"""A file of logits from your own model: a decision with its promises, p-values, prediction sets.

    python examples/own_logits.py [folder]         with a folder, the files are kept there

The first step replaces your model: it writes three files with numpy. The rest only reads these files.
Keys: logits (n, C), labels (n,), and, if you have them, features (n, D) and the last layer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from caveat import Outputs, conformal, evaluate, scores


def write_files(folder: Path) -> None:
    """Simulated logits of 10 classes: confident on inliers, less confident on outliers."""
    rng = np.random.default_rng(0)
    for name, n in {"calibration": 2000, "test": 2000}.items():
        labels = rng.integers(10, size=n)
        logits = rng.normal(size=(n, 10)) + 4 * np.eye(10)[labels]
        np.savez(folder / f"{name}.npz", logits=logits.astype(np.float32), labels=labels)
    np.savez(folder / "elsewhere.npz", logits=rng.normal(size=(1000, 10)).astype(np.float32) * 1.5)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_files(folder)
        calibration, test, elsewhere = (
            Outputs.load(folder / f"{part}.npz") for part in ("calibration", "test", "elsewhere")
        )

    # Measure and rank every score that can be computed from logits, and decide.
    result = evaluate(
        calibration=calibration, inlier=test, outliers={"elsewhere": elsewhere}, false_alarm=0.05, risk=0.05, delta=0.01
    )
    print(f"accuracy {result.accuracy}")
    for name in result.ranking.methods[:5]:
        tied = "  tied with the best" * (result.ranking.rank(name) == 1)
        print(f"{result.ranking.rank(name)}  {name:16} AUROC {result.detection(name, 'elsewhere').auroc}{tied}")
    print(f"\n{result.decision}")

    # The same step by step. A small p-value means that a sample is unlike the calibration data. Select outliers among
    # 100 samples with a false discovery rate of at most 10 %.
    score = scores.make(str(result.decision.method))
    reference, inlier, outlier = (score.score(part) for part in (calibration, test, elsewhere))
    p = conformal.p_values(calibration=reference, test=np.concatenate([inlier[:50], outlier[:50]]))
    selected = conformal.select_outliers(p, q=0.1)
    print(f"p-values of 3 inliers {p[:3].round(3)}, of 3 outliers {p[50:53].round(3)}")
    print(f"selected {np.sum(selected[50:])} of 50 outliers and {np.sum(selected[:50])} of 50 inliers")

    # Prediction sets with 90 % coverage.
    sets = conformal.SplitSets(alpha=0.1).calibrate(calibration).predict(test)
    print(f"\n{sets}\ncoverage on the test file {sets.coverage(test.labels):.3f}")


if __name__ == "__main__":
    main()
