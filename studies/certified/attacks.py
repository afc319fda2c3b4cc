"""The attacks of the paper at its own budget, on a subset of the clothes: ``attacks.csv``.

    CAVEAT_DATA=<folder> python studies/certified/attacks.py

Appendix A: APGD with 500 steps and 5 random starts within 0.01 of the point; monotone PGD with 200 steps from higher
contrast; and monotone PGD with 200 steps from the worst point of every other model. What each of them reaches, what
all reach together, and, on the same points, what the attack of the tables reaches: 50 steps of APGD from the point,
from higher contrast and toward training images, which the paper does not have. Points of every model are kept in the
cache folder; the models are those that are trained there.
"""

from __future__ import annotations

from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder

from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat._internal.streams import stream
from caveat.metrics.auroc_intervals import auroc_interval
from caveat_lab import robust
from caveat_lab.attacks import attack_confidence

SET, POINTS = "Fashion-MNIST", 40
APGD: dict[str, Any] = {"optimizers": ("apgd",), "starts": ("small",), "steps": 500, "restarts": 5}
MONOTONE: dict[str, Any] = {"optimizers": ("monotone",), "starts": ("contrast",), "monotone_steps": 200}
Arrays = dict[str, np.ndarray]


def chosen() -> np.ndarray:
    """Which of the 200 points of the table are attacked."""
    return np.linspace(0, networks.TASKS["MNIST"].points - 1, POINTS).round().astype(int)


def images() -> np.ndarray:
    pixels = strangers.images_of(SET, colour=False).inputs()
    table = np.linspace(0, len(pixels) - 1, networks.TASKS["MNIST"].points).round().astype(int)
    return pixels[table[chosen()]]


def attacked(method: str) -> Arrays:
    """Worst points of a model under its own two attacks, and what each of them reached."""

    def make() -> Arrays:
        model, epsilon = networks.trained("MNIST", method, run.store()).model, networks.TASKS["MNIST"].radius
        results, x = {}, images()
        for name, how in (("apgd", APGD), ("monotone", MONOTONE)):
            end = attack_confidence(model, x, epsilon, rng=stream(0, name, method), progress=False, **how)
            results |= {f"{name}_points": end.points, name: _reached(end)}
        return results

    return _kept(method, make)


def transferred(method: str, others: list[str]) -> np.ndarray:
    """What monotone PGD reaches from the worst points of the other models."""

    def make() -> Arrays:
        model = networks.trained("MNIST", method, run.store()).model
        starts = []
        for other in others:
            found = attacked(other)
            better = found["apgd"] > found["monotone"]
            starts.append(np.where(better[:, None, None, None], found["apgd_points"], found["monotone_points"]))
        end = attack_confidence(
            model, images(), networks.TASKS["MNIST"].radius, rng=stream(0, "transfer", method), optimizers=(),
            starts=(), transfer=starts, monotone_steps=200, progress=False,
        )  # fmt: skip
        return {"transfer": _reached(end), "others": np.array(others)}

    return _kept(f"{method} from {len(others)} others", make)["transfer"]


def _reached(end: Any) -> np.ndarray:
    return np.asarray(end.log_confidence if end.gate is None else end.gate)


def _kept(name: str, make: Any) -> Arrays:
    path = run.store() / "attacks" / f"{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = make()
        with replacing_file(path) as temporary:
            np.savez(temporary, **made)
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def rows() -> list[dict[str, Any]]:
    """One for each model."""
    epsilon = networks.TASKS["MNIST"].radius
    models = [name for name in networks.METHODS if run.cell_path("MNIST", name, SET, epsilon).exists()]
    found = []
    for method in models:
        own = attacked(method)
        over = transferred(method, [name for name in models if name != method])
        cell, _ = run.read_cell("MNIST", method, SET, epsilon)
        (one,) = cell.sets
        inlier, outlier = (cell.inlier, one) if cell.inlier_gate is None else (cell.inlier_gate, one.gates)
        assert outlier is not None
        assert outlier.attacked is not None
        together = np.maximum.reduce([own["apgd"], own["monotone"], over])
        reached = {
            "apgd": own["apgd"], "monotone": own["monotone"], "transfer": over, "paper": together,
            "table": outlier.attacked[chosen()],
        }  # fmt: skip
        reached["all"] = np.maximum(reached["paper"], reached["table"])
        row = {"method": method, "set": SET, "epsilon": epsilon, "n": POINTS, "models": len(models)}
        row |= {name: _percent(inlier, values) for name, values in reached.items()}
        interval = auroc_interval(inlier=-inlier, outlier=-reached["all"])
        row |= {"all_lower": f"{100 * interval.lower:.1f}", "all_upper": f"{100 * interval.upper:.1f}"}
        row["gauc"] = _percent(inlier, outlier.upper[chosen()])
        found.append(row)
    return found


def _percent(inlier: np.ndarray, outlier: np.ndarray) -> str:
    return f"{100 * robust.adversarial_auroc(inlier=inlier, outlier_attacked=outlier):.1f}"


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    write_csv(rows(), run.HERE / "attacks.csv")
