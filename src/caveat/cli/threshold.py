"""``caveat threshold``: thresholds with their promises, from calibration rows alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from caveat.cli._console import say
from caveat.cli._files import ClassNames, Keys, Reading, Rows
from caveat.cli._guards import fitted_guard, rules
from caveat.cli._json import json_text

__all__ = ["threshold"]


def threshold(
    calibration: Annotated[Path, typer.Argument(help="Outputs on held-out inliers: a file or a folder.")],
    score: Annotated[str, typer.Option(help="OOD score; caveat scores lists them.")] = "energy",
    false_alarm: Annotated[float, typer.Option(help="Allowed share of inliers that are called outliers.")] = 0.05,
    delta: Annotated[float, typer.Option(help="Allowed failure of each promise.")] = 0.05,
    risk: Annotated[
        float | None, typer.Option(help="Allowed share of errors among the accepted; needs labels. Default: no limit.")
    ] = None,
    confidence: Annotated[str, typer.Option(help="Score that decides whether to abstain, with --risk.")] = "msp",
    train: Annotated[Path | None, typer.Option(help="Outputs on training data, for scores that learn.")] = None,
    key: Keys = None,
    rows: Rows = None,
    class_names: ClassNames = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the fit, and of the split for a score that learns from held-out rows.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the threshold of a score and what it promises, and nothing else.

    An input is called an outlier when its score is the threshold or more. The calibration rows must neither have
    trained the model nor chosen the score. "No threshold" means that there are too few rows for the promise.
    """
    reading = Reading.of(key, rows, ["calibration", *(["train"] if train else [])], class_names)
    guard = fitted_guard([score], calibration=calibration, train=train, seed=seed, reading=reading, sets=None,
                         false_alarm=false_alarm, risk=risk, delta=delta, confidence=confidence)  # fmt: skip
    if json:
        content = {
            "score": guard.scores_[0].name,
            "threshold": guard.threshold_,
            "confidence_score": None if risk is None else guard.confidence_.name,
            "accept_below": guard.accept_below_,
            "promises": [promise.to_dict() for promise in guard.promises],
        }
        sys.stdout.write(json_text(content))
        return
    for rule, promise in zip(rules(guard), guard.promises, strict=True):
        say(rule)
        say(f"  {promise}")
