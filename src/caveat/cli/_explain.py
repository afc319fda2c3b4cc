"""What a file of outputs holds, and which scores that allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table

from caveat.cli._console import console, say
from caveat.metrics import accuracy
from caveat.outputs import Outputs
from caveat.scores import applicable

__all__ = ["explain"]


def explain(path: Path) -> None:
    """Print the arrays of a file, what can be derived from them, and the scores they allow or lack something for."""
    outputs = Outputs.load(path)
    out = console()
    table = Table(title=f"{path}: {outputs.n} samples, {outputs.n_classes or 'unknown'} classes", title_justify="left")
    for heading in ("key", "shape", "type"):
        table.add_column(heading)
    for key, (shape, dtype) in outputs.stored().items():
        table.add_row(key, " x ".join(map(str, shape)), str(dtype))
    out.print(table)
    for sentence in _facts(outputs):
        say(sentence)

    can, cannot = applicable(outputs, outputs)
    verdicts = Table(title="Scores, if all files are like this one", title_justify="left")
    for heading in ("score", "can be computed"):
        verdicts.add_column(heading)
    for name in can:
        verdicts.add_row(name, "yes")
    for name, why in cannot.items():
        verdicts.add_row(name, f"no: {why}")
    out.print(verdicts)


def _facts(outputs: Outputs) -> list[str]:
    said = []
    stored = outputs.stored()
    if "logits" not in stored and outputs.has("logits"):
        said.append("Logits are computed from features and head.")
    if {"logits", "features", "head_weight"} <= set(stored):
        some = outputs[: min(outputs.n, 1000)]
        gap = float(np.abs(some.head.logits(some.features.astype(np.float64)) - some.logits).max())
        scale = float(np.abs(some.logits).max()) or 1.0
        if gap <= 1e-2 * scale:
            said.append(f"The head gives the logits back from the features (largest difference {gap:.2g}).")
        else:
            said.append(
                f"The head does NOT give the logits back from the features (largest difference {gap:.3g}): "
                "features may come from another layer than the input of the last one."
            )
    if outputs.has("correct"):
        said.append(f"Accuracy: {accuracy(outputs, name='this file').value:.4f}.")
    if outputs.has("labels") and outputs.n_classes:
        empty = np.flatnonzero(np.bincount(outputs.labels, minlength=outputs.n_classes) == 0)
        if empty.size:
            said.append(
                f"Classes without a sample: {', '.join(map(str, empty[:10]))}{' ...' if empty.size > 10 else ''}."
            )
    return said
