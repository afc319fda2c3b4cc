"""TorchCP: split conformal prediction sets from given probabilities (``score_type="identity"``).

Documentation: https://torchcp.readthedocs.io, ``SplitPredictor``. The package imports torchvision, torchsort,
transformers and torch_geometric, which these methods do not use.
"""

import torch
from turns import run, stand_in

stand_in("torchvision", "torchsort", "transformers", "torch_geometric")

from torchcp.classification.predictor import SplitPredictor  # noqa: E402
from torchcp.classification.score import APS, LAC, RAPS  # noqa: E402


def prepare(data):
    torch.manual_seed(getattr(data, "draw", 0))
    for name in ("calibration_probs", "calibration_labels", "test_probs"):
        setattr(data, name, torch.from_numpy(getattr(data, name).copy()))
    return data


def method(score):
    def calibrate(data):
        sets = SplitPredictor(score_function=score, alpha=data.alpha)
        sets.calculate_threshold(data.calibration_probs, data.calibration_labels)
        return sets

    return calibrate, lambda sets, data: sets.predict_with_logits(data.test_probs)


METHODS = {
    "lac": method(LAC(score_type="identity")),
    "aps": method(APS(score_type="identity")),
    "raps": method(RAPS(score_type="identity", penalty=0.01, kreg=5)),
}

if __name__ == "__main__":
    run("torchcp", METHODS, prepare=prepare)
