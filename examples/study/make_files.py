"""Make the files of the example study: two small networks that know the digits 0 to 7, asked about other things.

    python examples/study/make_files.py
    caveat study examples/study/plan.toml --out runs/digits --jobs 2

One folder per seed, as a training run would leave it: what the network said about its training data, held-out inliers
and outliers that are near, mid and far.
"""

from __future__ import annotations

import sys
from pathlib import Path

from caveat.study.demo import demo_outputs

HERE = Path(__file__).parent
SEEDS = (0, 1)


def main(folder: Path) -> None:
    for seed in SEEDS:
        made = demo_outputs(seed)
        outputs = {"train": made.train, "calibration": made.calibration, "inlier": made.inlier}
        for name, outlier in made.outliers.items():
            outputs[name.partition(": ")[2].replace(" ", "_")] = outlier
        for name, said in outputs.items():
            said.save(folder / f"seed{seed}" / f"{name}.npz")
            print(f"seed{seed}/{name}.npz: {said}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
