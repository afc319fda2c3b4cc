"""AUROC of every score and projection on a ResNet-20 against eight outlier sets, as a page of the documentation.

    CAVEAT_DATA=<folder> python studies/scores_on_cnn/auroc.py [--out docs/resnet20.md]

Scores are fitted on 20,000 training images, the temperature and the exponent of MaxLogit-pNorm on half of the test
images. Every score is measured on the other half, so no score is measured on rows it was fitted on.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from run import load, variants  # in this folder

from caveat import CaveatWarning
from caveat.metrics import Placements, auroc, mean_auroc_interval
from caveat.scores import Mahalanobis

HERE = Path(__file__).parent
HEADER = """# AUROC of all scores and projections on a ResNet-20

CIFAR-10 (inliers: 5,000 test images; the other 5,000 fit the temperature and the exponent of `max_logit_pnorm`) against
eight outlier sets, all with the same JPEG compression; features and logits of a published ResNet-20 with 81 % accuracy
on these images. All scores have default parameters, not chosen on these outliers; `mahalanobis` is also shown on
normalized features. "mean" is over the eight sets, with its 95 % DeLong interval; "errors" is the AUROC of wrong
against right predictions on the inliers. Made by `studies/scores_on_cnn/auroc.py`; [which score to choose](choosing.md)
draws the conclusions.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE.parent.parent / "docs" / "resnet20.md")
    out = parser.parse_args().out
    train, test, outliers = load()
    half = np.random.default_rng(0).permutation(test.n) < test.n // 2
    validation, inlier = test[half], test[~half]

    lines = []
    chosen = variants(train, inlier) | {"mahalanobis(normalize=True)": Mahalanobis(normalize=True)}
    for name, score in chosen.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaveatWarning)
            score.fit(validation if score.held_out else train)
            inside = score.score(inlier)
            strange = {key: score.score(outputs) for key, outputs in outliers.items()}
        placements = Placements.of(inlier=inside, outliers=list(strange.values()))
        mean = mean_auroc_interval(placements)
        errors = auroc(inlier=inside[inlier.correct], outlier=inside[~inlier.correct])
        cells = [f"{errors:.3f}", *(f"{values.mean():.3f}" for values in placements.outliers)]
        plain, _, projection = name.partition(" ")
        shown = f"{mean.value:.3f} [{mean.lower:.3f}, {mean.upper:.3f}]"
        lines.append((mean.value, f"| {plain} | {projection or '-'} | {shown} | {' | '.join(cells)} |"))
        print(f"{name}: {mean}", flush=True)

    head = ["score", "projection", "mean", "errors", *outliers]
    table = [f"| {' | '.join(head)} |", "|---|---|---:|---:|" + "---:|" * len(outliers)]
    table += [line for _, line in sorted(lines, key=lambda pair: -pair[0])]
    out.write_text(HEADER + "\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
