"""TorchCP: cases with an exact answer.

Documentation: https://torchcp.readthedocs.io, ``SplitPredictor`` of ``torchcp.regression`` and the metric ``WSC``. The
package imports torchvision, torchsort, transformers and torch_geometric, which these methods do not use.
"""

import torch
from turns import run, stand_in

stand_in("torchvision", "torchsort", "transformers", "torch_geometric")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torchcp.classification.utils.metrics import Metrics  # noqa: E402
from torchcp.regression.predictor import SplitPredictor  # noqa: E402
from torchcp.regression.score import ABS  # noqa: E402


def calibrate(data):
    y = torch.from_numpy(data.scores[: data.size].copy()).float()
    intervals = SplitPredictor(ABS(), model=torch.nn.Identity(), alpha=data.alpha, device="cpu")
    intervals.calibrate(DataLoader(TensorDataset(torch.zeros(len(y), 1), y), batch_size=len(y)))
    return intervals


def worst_slab(_, data):
    if data.draw >= data.slabs:
        return float("nan")
    return Metrics()("WSC")(
        torch.from_numpy(data.features), torch.from_numpy(data.member), torch.from_numpy(data.labels),
        delta=data.delta, M=data.directions, random_state=data.draw,
    )  # fmt: skip


METHODS = {
    "threshold": (calibrate, lambda intervals, _: float(intervals.predict(torch.zeros(1, 1))[0, 0, 1])),
    "worst slab": (lambda _: None, worst_slab),
}

if __name__ == "__main__":
    run("torchcp", METHODS)
