"""torch-uncertainty: cases with an exact answer.

Documentation: https://torch-uncertainty.github.io, ``ConformalClsTHR``. Its threshold is that of 1 - p of the true
class, so the scores go in as probabilities of two classes. The package imports torchvision and timm, which this method
does not use.
"""

import torch
from turns import run, stand_in

stand_in("torchvision", "timm")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_uncertainty.post_processing import ConformalClsTHR  # noqa: E402


def calibrate(data):
    share = torch.from_numpy(data.scores[: data.size]).double() / (data.size + 1)
    logits = torch.stack([torch.log1p(-share), torch.log(share)], dim=1)  # 1 - p of class 0 is the share
    sets = ConformalClsTHR(alpha=data.alpha, model=torch.nn.Identity(), enable_ts=False)
    sets.fit(
        DataLoader(TensorDataset(logits, torch.zeros(int(data.size), dtype=torch.long)), batch_size=int(data.size))
    )
    return sets


METHODS = {
    # as many scores are at or below the threshold: its place in their order
    "threshold": (calibrate, lambda sets, data: int((sets.quantile + 1e-9) * (data.size + 1))),
}

if __name__ == "__main__":
    run("torch-uncertainty", METHODS)
