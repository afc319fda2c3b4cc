"""CCU with trained mixtures, at several learning rates, on training digits only: ``mixtures.csv``.

    CAVEAT_DATA=<folder> python studies/certified/mixtures.py

The published rate of the mixtures is for SGD, whose steps grow with the gradient; the networks of this study are
trained by Adam, whose steps do not. So the rate of the row "CCU, trained" of the tables is chosen here: 12,000 digits
are trained on and 2,000 others, with as many images of noise and training outliers, are measured. Share 0 keeps the
mixtures as fitted. ``gap`` is the mean weight of the classifier on digits minus the mean guaranteed one on uniform
noise at radius 0.3, the number that lambda is set by.
"""

from __future__ import annotations

from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import torch

from caveat._internal.result_tables import write_csv
from caveat_lab import data
from caveat_lab.networks.training import CCU, OutlierMix, fit_preset
from caveat_lab.networks.training.ccu import CCUModel, gate_gap

SHARES = (0.0, 0.002, 0.02, 0.2, 2.0)  # of the learning rate of the network; published: 0.002
SEED, HELD_OUT = 0, 2000


def rows() -> list[dict[str, Any]]:
    """One for each learning rate."""
    train = networks.images_of("MNIST", "train")
    fitted, others = train[np.arange(0, 60_000, 5)], train[np.arange(1, 60_000, 30)]
    digits = torch.from_numpy(others.inputs())
    strange = OutlierMix(others.inputs())(HELD_OUT, torch.Generator().manual_seed(SEED))
    noise = data.noise(HELD_OUT, np.random.default_rng(SEED), height=28, width=28).reshape(HELD_OUT, -1)
    measured, before = [], np.empty(0)
    for share in SHARES:
        how = CCU(components=60, rows=12_000, trained=share > 0, mixture_rate=share)
        recipe = networks.short_preset(how, f"mixtures at {share:g} of the rate")
        net: Any = fit_preset(
            recipe, (fitted.pixels, fitted.labels), seed=SEED, threads=1, progress=False,
            checkpoint=run.store() / "mixtures" / f"{share:g}",
        ).model  # fmt: skip
        assert isinstance(net, CCUModel)
        ratio, shift = net.ratio(), float(net.log_out_weight)
        means = np.concatenate([ratio.inside.means, ratio.outside.means])
        before = before if before.size else means  # share 0 comes first
        spread = np.sqrt(ratio.inside.variances)
        with torch.no_grad():
            right = (net(digits).argmax(dim=1).numpy() == others.labels).mean()
            known, unknown = net.log_densities(digits)[0].mean(), net.log_densities(strange)[1].mean()
        rows_ = others.inputs().reshape(HELD_OUT, -1)
        upper = ratio.bounds(noise, 0.3, side="upper").upper
        gap = gate_gap(shift, inlier=ratio.log_ratio(rows_), outlier_upper=upper)
        measured.append({
            "share": f"{share:g}", "accuracy": f"{right:.4f}", "log density of digits": f"{known:.1f}",
            "log density of outliers": f"{unknown:.1f}", "largest move": f"{np.abs(means - before).max():.4f}",
            "smallest sd": f"{spread.min():.4f}", "largest sd": f"{spread.max():.4f}", "gap": f"{gap:.4f}",
        })  # fmt: skip
    return measured


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_csv(rows(), run.HERE / "mixtures.csv")
