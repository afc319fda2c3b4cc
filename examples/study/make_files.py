"""Make the files of the example study: outputs of two small networks trained on the digits 0 to 7.

    python examples/study/make_files.py
    caveat study examples/study/plan.toml --out runs/digits --jobs 2

Each seed gets one folder with the outputs of the network on its training data, on held-out inliers, and on near, mid
and far outliers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from caveat.demo.network import demo_outputs

HERE = Path(__file__).parent
SEEDS = (0, 1)


def main(folder: Path) -> None:
    for seed in SEEDS:
        made = demo_outputs(seed)
        outputs = {"train": made.train, "calibration": made.calibration, "inlier": made.inlier}
        for name, outlier in made.outliers.items():
            outputs[name.partition(": ")[2].replace(" ", "_")] = outlier
        for name, part in outputs.items():
            part.save(folder / f"seed{seed}" / f"{name}.npz")
            print(f"seed{seed}/{name}.npz: {part}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
