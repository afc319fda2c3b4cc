"""A PyOD detector with guarantees: conformal p-values, a bound on its AUROC, a controlled false discovery rate.

    python examples/pyod_detector.py         needs the extra 'outlier'

PyOD's `contamination` needs the share of outliers, which is usually unknown. Here the false discovery rate is
controlled instead.
"""

from __future__ import annotations

import numpy as np
from pyod.models.iforest import IForest
from sklearn.datasets import load_breast_cancer

from caveat import Outputs, conformal, metrics, scores


def main() -> None:
    rng = np.random.default_rng(0)
    table = load_breast_cancer()
    benign, malignant = table.data[table.target == 1], table.data[table.target == 0]
    train, known, new = np.split(benign[rng.permutation(len(benign))], [150, 250])
    test = np.concatenate([new, malignant])
    sick = np.arange(len(test)) >= len(new)
    print(f"benign tumors: {len(train)} train, {len(known)} calibrate; test: {len(new)} benign and {len(malignant)} "
          "malignant\n")  # fmt: skip

    # A detector by name, or any object with fit(X) and decision_function(X).
    mine = scores.OutlierDetector(IForest(n_estimators=200, random_state=0))
    detectors = {name: scores.detector(name) for name in ("ecod", "hbos", "knn", "lof", "pca")}
    print(f"{'':16}{'AUROC':>7}{'at least':>10}{'FPR at TPR 0.95':>18}")
    for name, score in {**detectors, "my own forest": mine}.items():
        score.fit(Outputs(features=train))
        strange = score.score(Outputs(features=test))
        parts = {"inlier": strange[~sick], "outlier": strange[sick]}
        bound = metrics.conformal_auroc(**parts, delta=0.05)
        print(f"{name:16}{bound.value:7.3f}{bound.lower:10.3f}{metrics.fpr_at_tpr(**parts):18.3f}")

    # Select tumors so that, on average, at most a share q of the selected ones is benign.
    p = conformal.p_values(
        calibration=mine.score(Outputs(features=known)), test=mine.score(Outputs(features=test)), rng=rng
    )
    for q in (0.05, 0.1, 0.2):
        picked = np.asarray(conformal.select_outliers(p, q=q))
        print(f"\nat most {q:.0%} picked in vain: {picked.sum()} picked, {np.sum(picked & ~sick)} of them benign, "
              f"{np.mean(picked[sick]):.1%} of the malignant found", end="")  # fmt: skip
    print()


if __name__ == "__main__":
    main()
