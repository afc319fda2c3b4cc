"""A file of logits from your own model: a decision with its promises, p-values, prediction sets.

    python examples/own_logits.py [folder]         with a folder, the files stay there

The first step stands in for your model: it writes three files with numpy alone, as any framework can. The rest reads
files only. Keys: logits (n, C), labels (n,), and, if you have them, features (n, D) and the last layer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from caveat import Outputs, conformal, evaluate, scores


def write_files(folder: Path) -> None:
    """What a model would say about 10 classes: sure of inliers, less sure of images from elsewhere."""
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

    # Every score that logits allow: measured, ranked with ties, and ending in a decision with its promises.
    result = evaluate(
        calibration=calibration, inlier=test, outliers={"elsewhere": elsewhere}, false_alarm=0.05, risk=0.05, delta=0.01
    )
    print(f"accuracy {result.accuracy}")
    for name in result.ranking.methods[:5]:
        tied = "  tied with the best" * (result.ranking.rank(name) == 1)
        print(f"{result.ranking.rank(name)}  {name:16} AUROC {result.detection(name, 'elsewhere').auroc}{tied}")
    print(f"\n{result.decision}")

    # The same by hand. A small p-value means that a sample is unlike the calibration data. Of 100 samples pick
    # outliers such that at most one pick in ten is wrong.
    score = scores.make(str(result.decision.method))
    known, new, strange = (score.score(part) for part in (calibration, test, elsewhere))
    p = conformal.p_values(calibration=known, test=np.concatenate([new[:50], strange[:50]]))
    picked = conformal.select_outliers(p, q=0.1)
    print(f"p-values of 3 inliers {p[:3].round(3)}, of 3 outliers {p[50:53].round(3)}")
    print(f"picked {np.sum(picked[50:])} of 50 outliers and {np.sum(picked[:50])} of 50 inliers")

    # Sets of labels that hold the true one 9 times in 10.
    sets = conformal.SplitSets(alpha=0.1).calibrate(calibration).predict(test)
    print(f"\n{sets}\ncoverage on the test file {sets.coverage(test.labels):.3f}")


if __name__ == "__main__":
    main()
