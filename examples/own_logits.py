"""A file of logits from your own model: scores, a threshold with a promise, p-values, prediction sets.

    python examples/own_logits.py [folder]         with a folder, the files stay there

The first step stands in for your model: it writes three files with numpy alone, as any framework can. The rest reads
files only. Keys: logits (n, C), labels (n,), and, if you have them, features (n, D) and the last layer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from caveat import Outputs, conformal, scores
from caveat.study import evaluate


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

    # Every score that logits allow, ranked. A tie is called a tie; the band holds for any number of samples.
    found = evaluate(train=None, inlier=test, outliers={"elsewhere": elsewhere}, calibration=calibration)
    print(f"accuracy {found.inlier.accuracy}")
    for line in found.ranking[:5]:
        print(f"{line.rank}  {line.score:16} AUROC {line.auroc_band}{'  tied with the best' * line.tied_with_best}")

    # One threshold: with probability 0.99 over the calibration data it flags at most 5 % of new inliers.
    score = scores.make(found.best.score)
    known, new, strange = (score.score(part) for part in (calibration, test, elsewhere))
    threshold = conformal.threshold_for(known, false_alarm=0.05, delta=0.01)
    print(f"\nflag {found.best.score} >= {threshold:.3f}: {(new >= threshold).mean():.1%} of the test inliers, "
          f"{(strange >= threshold).mean():.1%} of the outliers")  # fmt: skip

    # A p-value for each sample: small means strange. Of 100 samples pick outliers, at most one pick in ten in vain.
    p = conformal.p_values(calibration=known, test=np.concatenate([new[:50], strange[:50]]))
    picked = conformal.select_outliers(p, q=0.1)
    print(f"p-values of 3 inliers {p[:3].round(3)}, of 3 outliers {p[50:53].round(3)}")
    print(f"picked {np.sum(picked[50:])} of 50 outliers and {np.sum(picked[:50])} of 50 inliers")

    # Sets of labels that hold the true one 9 times in 10.
    sets = conformal.SplitSets(alpha=0.1).calibrate(calibration).predict(test)
    print(f"\n{sets}\ncoverage on the test file {sets.coverage(test.labels):.3f}")


if __name__ == "__main__":
    main()
