"""A torch model with a guard: two scores in one gate, a batch with few false discoveries, alarms on a stream.

    python examples/guard_torch.py          needs the extra 'torch'

A small network learns the digits 0 to 7 (images that come with scikit-learn). The guard accepts, abstains or says
outlier, and keeps its promises on digits that nobody has used before. It has never seen an 8 or a 9; these arrive in
the stream that it watches, and the alarms ring.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from caveat import Outputs, demo
from caveat.guard import Guard
from caveat.guard.replay import replay
from caveat.nn import extract
from caveat.scores import KNN


def trained(pixels: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """A small convolutional network after 40 passes over 450 images: two seconds."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 8),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(40):
        for rows in torch.randperm(len(pixels)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels[rows]), labels[rows]).backward()
            optimizer.step()
    return model


def tensors(pixels: np.ndarray, labels: np.ndarray | None = None) -> list:
    """Images as a loader of one batch, which is what extract takes."""
    images = torch.from_numpy(pixels.astype(np.float32))[:, None]
    return [images] if labels is None else [(images, torch.from_numpy(labels))]


def main() -> None:
    rng = np.random.default_rng(0)
    digits = demo.digits()
    low = rng.permutation(np.flatnonzero(digits.labels < 8))
    rows = dict(zip(("train", "calibration", "test"), np.split(low, [450, 1050]), strict=True))
    loaders = {name: tensors(digits.pixels[i], digits.labels[i]) for name, i in rows.items()}
    model = trained(*loaders["train"][0])
    # The model speaks once; logits, features, labels and the last layer are plain arrays from here on.
    parts = {name: extract(model, loader) for name, loader in loaders.items()}
    strange = rng.permutation(np.flatnonzero(digits.labels >= 8))
    new_digits = extract(model, tensors(digits.pixels[strange]))
    noise = extract(model, tensors(demo.noise(200, rng)))

    # Nobody knows beforehand which score is weak on what will come, so one gate has both. Half of the calibration rows
    # combine them, the other half set the thresholds: the promises stay exact.
    knn = KNN(k=5)
    scores = {"energy": "energy", "knn": knn, "both": ["energy", knn]}
    guards = {
        name: Guard(score, false_alarm=0.05, risk=0.05, alpha=0.05).fit(parts["train"]).calibrate(parts["calibration"])
        for name, score in scores.items()
    }
    guard, test = guards["both"], parts["test"]
    verdicts = guard(test)
    print(f"{test.correct.mean():.1%} of the answers on held-out digits are right.")
    for measured in replay(guard, test).measured:
        print(f"{measured.promise}\n    Measured: {measured.share or 'nothing'}")

    print(f"\nOutliers by score   {''.join(f'{name:>9}' for name in guards)}")
    for name, outputs in {"digits 0 to 7": test, "digits 8 and 9": new_digits, "noise": noise}.items():
        flagged = [each(outputs).counts["outlier"] / outputs.n for each in guards.values()]
        print(f"  {name:18}" + "".join(f"{share:9.1%}" for share in flagged))

    # In a batch: of the rows that are selected, at most 20 % are expected to be digits 0 to 7.
    batch = Outputs(
        logits=np.concatenate([test.logits[:100], new_digits.logits[:100]]),
        features=np.concatenate([test.features[:100], new_digits.features[:100]]), head=test.head,
    )  # fmt: skip
    selected = guard(batch, fdr=0.2).outliers
    print(f"\nBatch of 100 known and 100 new digits, false discovery rate 20 %: {selected.sum()} selected, "
          f"{selected[100:].sum()} of them new")  # fmt: skip

    # A stream: 200 known digits, then 4 in 10 are new. Labels of the accepted ones come later.
    watch = guard.watch(alpha=0.01)
    watch.update(guard(test[:200]))
    watch.labels(~test.correct[:200][verdicts.accepted[:200]])
    print(f"\nAfter 200 known digits: {watch}")
    mixed = rng.permutation(np.concatenate([rows["test"][200:], strange[:130]]))
    stream = guard(extract(model, tensors(digits.pixels[mixed])))
    watch.update(stream)
    print(f"Then 4 in 10 are 8 or 9: {watch}")
    watch.labels((stream.predictions != digits.labels[mixed])[stream.accepted])
    print(f"Labels came later: {watch.risk}; alarms: {', '.join(watch.alarmed)}")


if __name__ == "__main__":
    main()
