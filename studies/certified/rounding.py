"""What rounding costs a certificate, and what it costs to say so: ``rounding.csv`` and the table of the docs.

    CAVEAT_DATA=<folder> python studies/certified/rounding.py

Networks of the study and the presets ``tiny`` and ``good``, on clothes (``tiny``: 8 x 8 digits with permuted pixels).
For each radius: the mean bound of the confidence in real numbers, and the slack of the log-confidence, mean and largest
of the outliers: in float64; in float32 carried by absolute weights alone, and by lines alone; and as
``confidence_bounds`` gives it, with the rounding of a softmax, for outliers that keep a certificate. ``certified`` is
their share, ``moved`` the most that float32 moves the log-confidence of the unchanged outliers. Seconds are CPU seconds
for 100 outliers with one thread. Trained networks are kept in the cache folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
import torch

from caveat._internal.result_tables import write_csv
from caveat.nn import in_float64
from caveat_lab import data
from caveat_lab.bounds import FLOAT64, arithmetic_of, confidence_bounds, input_box
from caveat_lab.bounds.box import cast_box
from caveat_lab.bounds.differences import log_probability_bounds
from caveat_lab.bounds.roundoff import difference_errors
from caveat_lab.networks.training import PRESETS, fit_preset

POINTS, RADII = 200, (0.001, 0.01, 0.3)
NAMES = ("tiny", "good", "GOOD_100", "GOOD_80", "GOOD_60", "Plain", "joint")


def network(name: str) -> torch.nn.Module:
    if name in networks.METHODS:
        return networks.trained("MNIST", name, run.store()).model
    images = data.digits() if name == "tiny" else networks.images_of("MNIST", "train")
    folder = networks.folder_of("MNIST", name, run.store())
    rows = slice(0, 1300) if name == "tiny" else slice(None)
    known = (images.inputs()[rows], images.labels[rows])
    return fit_preset(PRESETS[name], known, threads=1, progress=False, checkpoint=folder).model


def outliers(name: str) -> torch.Tensor:
    if name == "tiny":
        images = data.permuted(data.digits()[np.arange(1300, 1500)].pixels, np.random.default_rng(0))[:, None]
    else:
        images = strangers.images_of("Fashion-MNIST", colour=False).inputs()
    return torch.from_numpy(images[np.linspace(0, len(images) - 1, POINTS).round().astype(int)]).double()


def row(name: str, epsilon: float) -> dict[str, Any]:
    """One network at one radius."""
    model, x = network(name), outliers(name)
    bounds = confidence_bounds(model, x, epsilon)
    assert bounds.exact is not None
    exact, moved = bounds.exact, np.abs(bounds.value - bounds.exact.value).max()
    found: dict[str, Any] = {
        "network": name, "radius": epsilon, "n": POINTS, "mean_bound": f"{np.exp(exact.upper).mean():.3f}",
        "moved": f"{moved:.1e}", "certified": f"{np.mean(bounds.certified):.2f}",
    }  # fmt: skip
    double = confidence_bounds(model, x, epsilon, arithmetic="float64")
    found |= _of("float64", double.slack) | _of("float32", bounds.slack)
    if hasattr(model, "log_confidence_bounds"):
        return found
    net, slack = in_float64(model).requires_grad_(False), arithmetic_of(model)
    box = input_box(x, epsilon)
    (_, real), found["seconds_real"] = _timed(lambda: log_probability_bounds(net, box))
    _, found["seconds_float64"] = _timed(lambda: log_probability_bounds(net, box, slack=FLOAT64))
    (_, wide), found["seconds_weights"] = _timed(lambda: log_probability_bounds(net, cast_box(box, slack), slack=slack))
    errors, found["seconds_lines"] = _timed(lambda: difference_errors(net, box, slack))
    by_lines = log_probability_bounds(net, box, errors=errors)[1]
    top = real.amax(dim=1)
    return found | _of("weights", (wide.amax(dim=1) - top).numpy()) | _of("lines", (by_lines.amax(dim=1) - top).numpy())


def _of(name: str, slack: np.ndarray) -> dict[str, str]:
    some = slack[np.isfinite(slack)]
    mean, most = (some.mean(), some.max()) if some.size else (np.nan, np.nan)
    return {f"{name}_mean": f"{mean:.1e}", f"{name}_largest": f"{most:.1e}"}


def _timed(call: Callable[[], Any]) -> tuple[Any, str]:
    begin = time.process_time()
    result = call()
    return result, f"{(time.process_time() - begin) * 100 / POINTS:.3f}"


def markdown(lines: list[dict[str, str]]) -> list[str]:
    """The table of the docs."""
    heading = ("network", "radius", "mean bound", "float64", "float32 by weights", "float32 by lines",
               "float32, the smaller", "largest", "certified", "seconds")  # fmt: skip
    table = [f"| {' | '.join(heading)} |", f"|{'---|' * 2}{'---:|' * (len(heading) - 2)}"]
    for line in lines:
        seconds = [line[f"seconds_{name}"] for name in ("real", "float64", "weights", "lines")]
        cells = [line["network"], line["radius"], line["mean_bound"], line["float64_mean"], line["weights_mean"],
                 line["lines_mean"], line["float32_mean"], line["float32_largest"], line["certified"],
                 ", ".join(f"{float(value):.2f}" for value in seconds if value)]  # fmt: skip
        table.append(f"| {' | '.join(cell if cell not in ('', 'nan') else '-' for cell in cells)} |")
    return table


if __name__ == "__main__":
    torch.set_num_threads(1)
    names = sys.argv[1:] or NAMES
    lines = [row(name, epsilon) for name in names for epsilon in RADII]
    keys = dict.fromkeys(key for line in lines for key in line)
    write_csv([{key: line.get(key, "") for key in keys} for line in lines], run.HERE / "rounding.csv")
