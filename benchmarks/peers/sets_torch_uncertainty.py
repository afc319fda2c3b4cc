"""torch-uncertainty: conformal prediction sets from given probabilities.

Documentation: https://torch-uncertainty.github.io, ``ConformalClsTHR`` without temperature scaling. The model gives the
logarithm of the probabilities, whose softmax is the probabilities. The package imports torchvision and timm, which this
method does not use.
"""

import torch
from turns import run, stand_in

stand_in("torchvision", "timm")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_uncertainty.post_processing import ConformalClsTHR  # noqa: E402


def prepare(data):
    log_probs, labels = torch.from_numpy(data.calibration_probs).log(), torch.from_numpy(data.calibration_labels.copy())
    # batches as large as the data: its loop over batches costs the least that way
    data.loader = DataLoader(TensorDataset(log_probs, labels), batch_size=None, sampler=[slice(None)])
    data.new = torch.from_numpy(data.test_probs).log()
    return data


def calibrate(data):
    sets = ConformalClsTHR(alpha=data.alpha, model=torch.nn.Identity(), enable_ts=False)
    sets.fit(data.loader)
    return sets


METHODS = {"lac": (calibrate, lambda sets, data: sets.conformal(data.new) > 0)}

if __name__ == "__main__":
    run("torch-uncertainty", METHODS, prepare=prepare)
