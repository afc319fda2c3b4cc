"""``caveat train``: train a network as a plan says, and keep what it says about the sets the plan names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from caveat.cli._console import say

__all__ = ["train"]


def train(
    plan: Annotated[Path, typer.Argument(help="The training plan (.toml). docs/training.md shows every key.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the model; default: models/ and the plan's name.")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="Model folder of caveat train, or .safetensors file, whose weights are trained further. Default: "
            "model.start of the plan, or a new network."
        ),
    ] = None,
) -> None:
    """Train a classifier and extract its outputs. Rerun the command to resume a stopped training.

    Writes model.safetensors, model.json (architecture, paradigm, history) and outputs/SET for every set of the plan,
    ready for caveat evaluate.
    """
    from caveat_lab.experiments.train_plan import TrainPlan
    from caveat_lab.experiments.training import run_training

    read = TrainPlan.read(plan)
    if start is not None:
        read = replace(read, start=str(start))
    folder = out if out is not None else Path("models") / plan.stem
    try:
        done = run_training(read, folder)
    except KeyboardInterrupt:
        say(f"Stopped. Rerun the command to resume from the checkpoint in {folder}.")
        raise typer.Exit(130) from None
    last = done.trained.history[-1]
    early = ", stopped early" if done.trained.stopped_early else ""
    say(
        f"{read.model} by {done.trained.paradigm.name}: {len(done.trained.history)} epochs in "
        f"{done.trained.seconds:.0f} s{early}; validation accuracy {last.validation['accuracy']:.4f}, "
        f"AUGRC x 1000 {1000 * last.validation['augrc']:.2f}."
    )
    say(f"Model: {folder}")
    for path in done.outputs.values():
        say(f"Outputs: {path}")
    if read.outliers and "test" in done.outputs:
        roles = [("train", "train"), ("calibration", "validation"), ("test", "test")]
        if read.early_stopping is not None:  # validation chose the epoch: what is calibrated on it promises too much
            roles.remove(("calibration", "validation"))
        roles += [("outlier", name) for name in read.outliers]
        options = [f"--{role} {quote(str(done.outputs[name]))}" for role, name in roles if name in done.outputs]
        say(f"Next: caveat evaluate {' '.join(options)}")
