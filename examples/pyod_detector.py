"""A PyOD detector with a promise: calibrated p-values, a bound on its AUROC, a list with few false discoveries.

    python examples/pyod_detector.py         needs the extra 'outlier'

PyOD says how strange a row is; `contamination` says how many to flag, which nobody knows. Here the number of false
alarms is promised instead.
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
    print(f"{len(train)} benign tumours to learn from, {len(known)} to calibrate, {len(new)} benign and "
          f"{len(malignant)} malignant to judge\n")  # fmt: skip

    # By name, or any object with fit(X) and decision_function(X).
    mine = scores.OutlierDetector(IForest(n_estimators=200, random_state=0))
    found = {name: scores.detector(name) for name in ("ecod", "hbos", "knn", "lof", "pca")} | {"my own forest": mine}
    print(f"{'':16}{'AUROC':>7}{'at least':>10}{'FPR at TPR 0.95':>18}")
    for name, score in found.items():
        score.fit(Outputs(features=train))
        strange = score.score(Outputs(features=test))
        parts = {"inlier": strange[~sick], "outlier": strange[sick]}
        bound = metrics.conformal_auroc(**parts, delta=0.05)
        print(f"{name:16}{bound.value:7.3f}{bound.lower:10.3f}{metrics.fpr_at_tpr(**parts):18.3f}")

    # Which of the tumours to look at first, so that at most one in ten of the picks is benign, on average.
    p = conformal.p_values(
        calibration=mine.score(Outputs(features=known)), test=mine.score(Outputs(features=test)), rng=rng
    )
    for q in (0.05, 0.1, 0.2):
        picked = np.asarray(conformal.select_outliers(p, q=q))
        print(f"\nat most {q:.0%} in vain: {picked.sum()} picked, {np.sum(picked & ~sick)} of them benign, "
              f"{np.mean(picked[sick]):.1%} of the malignant found", end="")  # fmt: skip
    print()


if __name__ == "__main__":
    main()
