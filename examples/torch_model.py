"""A torch model: extract once, then scores, a false-alarm promise and prediction sets.

    python examples/torch_model.py          needs the extra 'torch'

A small network learns the digits 0 to 7 (images that come with scikit-learn) and is tested on 8, 9 and noise.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from caveat import conformal, demo, metrics, scores
from caveat.nn import extract


def trained(pixels: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 8),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(15):
        for rows in torch.randperm(len(pixels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels[rows]), labels[rows]).backward()
            optimizer.step()
    return model


def main() -> None:
    rng = np.random.default_rng(0)
    images = demo.digits()
    known = rng.permutation(np.flatnonzero(images.labels < 8))
    parts = dict(zip(("train", "calibration", "test"), np.split(known, [600, 1000]), strict=True))

    def batches(pixels: np.ndarray, labels: np.ndarray | None = None) -> list:
        x = torch.from_numpy(pixels.astype(np.float32))[:, None]
        return [x] if labels is None else [(x, torch.from_numpy(labels))]

    inside = {name: batches(images.pixels[rows], images.labels[rows]) for name, rows in parts.items()}
    model = trained(*inside["train"][0])

    # Run the model once. Logits, features, labels and the last layer are then plain arrays.
    outputs = {name: extract(model, loader) for name, loader in inside.items()}
    outside = {
        "digits 8 and 9": extract(model, batches(images.pixels[images.labels >= 8])),
        "noise": extract(model, batches(demo.noise(300, rng))),
    }
    print(f"{outputs['test']}\naccuracy on held-out digits {outputs['test'].correct.mean():.3f}\n")

    print(f"{'AUROC (guaranteed lower bound)':34}" + "".join(f"{name:>22}" for name in outside))
    for name in ("msp", "energy", "mahalanobis", "knn", "vim"):
        score = scores.make(name).fit(outputs["train"])
        inlier, cells = score.score(outputs["test"]), []
        for outlier in outside.values():
            bound = metrics.conformal_auroc(inlier=inlier, outlier=score.score(outlier), delta=0.05)
            cells.append(f"{bound.value:.3f} ({bound.lower:.3f})")
        print(f"{name:34}" + "".join(f"{cell:>22}" for cell in cells))

    # Flag at most 5 % of new digits, with probability 0.95 over the calibration images.
    score = scores.make("energy")
    threshold = conformal.threshold_for(score.score(outputs["calibration"]), false_alarm=0.05, delta=0.05)
    print(f"\nenergy >= {threshold:.2f} flags")
    for name, part in {"held-out digits": outputs["test"], **outside}.items():
        print(f"  {np.mean(score.score(part) >= threshold):6.1%} of {name}")

    # Prediction sets with 95 % coverage. Nothing is promised about the sets of outliers, which have no true label.
    sets = conformal.SplitSets("aps", alpha=0.05).calibrate(outputs["calibration"], rng)
    answer = sets.predict(outputs["test"], rng)
    print(f"\n{answer}\ncoverage {answer.coverage(outputs['test'].labels):.3f}; "
          f"mean size on digits 8 and 9: {sets.predict(outside['digits 8 and 9'], rng).sizes.mean():.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
