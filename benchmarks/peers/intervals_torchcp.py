"""TorchCP: split conformal intervals from given predictions.

Documentation: https://torchcp.readthedocs.io, ``SplitPredictor`` of ``torchcp.regression`` with the score ``ABS``. The
package imports torchvision, torchsort, transformers and torch_geometric, which this method does not use.
"""

import torch
from torch.utils.data import DataLoader, TensorDataset
from turns import run, stand_in

stand_in("torchvision", "torchsort", "transformers", "torch_geometric")

from torchcp.regression.predictor import SplitPredictor  # noqa: E402
from torchcp.regression.score import ABS  # noqa: E402


def prepare(data):
    mean, y = (
        torch.from_numpy(data.calibration_mean.copy()).float(),
        torch.from_numpy(data.calibration_y.copy()).float(),
    )
    # batches as large as the data: its loop over batches costs the least that way
    data.loader = DataLoader(TensorDataset(mean[:, None], y), batch_size=None, sampler=[slice(None)])
    data.new = torch.from_numpy(data.test_mean.copy()).float()[:, None]
    return data


def calibrate(data):
    intervals = SplitPredictor(ABS(), model=torch.nn.Identity(), alpha=data.alpha, device="cpu")
    intervals.calibrate(data.loader)
    return intervals


METHODS = {"absolute": (calibrate, lambda intervals, data: intervals.predict(data.new)[:, 0])}

if __name__ == "__main__":
    run("torchcp", METHODS, prepare=prepare)
