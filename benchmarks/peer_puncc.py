"""Times puncc on given probabilities. Run by bench_sets.py with the Python of an environment that holds puncc.

python benchmarks/peer_puncc.py <folder with calibration.npy, labels.npy, test.npy> <alpha>
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.classification import APS, LAC, RAPS


class Ready:
    """A model that returns its inputs."""

    def fit(self, x, y):
        return self

    def predict(self, x):
        return x


def main() -> None:
    folder, alpha = Path(sys.argv[1]), float(sys.argv[2])
    known, labels, new = (np.load(folder / f"{name}.npy") for name in ("calibration", "labels", "test"))
    for name, kind in (("lac", LAC), ("aps", APS), ("raps", RAPS)):
        method = kind(BasePredictor(Ready(), is_trained=True), train=False)
        start = time.process_time()
        method.fit(X_calib=known, y_calib=labels)
        middle = time.process_time()
        method.predict(new, alpha=alpha)
        print(f"{name} {middle - start:.2f} {time.process_time() - middle:.2f}", flush=True)


if __name__ == "__main__":
    main()
