"""What a file of outputs holds, and which scores that allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from caveat._internal.classes import listed
from caveat.cli._console import say, show_table
from caveat.metrics import accuracy
from caveat.outputs import Outputs
from caveat.scores import applicable


def explain(path: Path) -> None:
    """Print the arrays of a file, what can be derived from them, and the scores they allow or lack something for."""
    outputs = Outputs.load(path)
    stored = [(key, " x ".join(map(str, shape)), str(dtype)) for key, (shape, dtype) in outputs.stored().items()]
    title = f"{path}: {outputs.n} samples, {outputs.n_classes or 'unknown'} classes"
    show_table(("key", "shape", "type"), stored, title)
    for sentence in _facts(outputs):
        say(sentence)
    can, cannot = applicable(outputs, outputs)
    verdicts = [*((name, "yes") for name in can), *((name, f"no: {why}") for name, why in cannot.items())]
    show_table(("score", "can be computed"), verdicts, "Scores, if all files are like this one")


def _facts(outputs: Outputs) -> list[str]:
    sentences = []
    stored = outputs.stored()
    if outputs.class_names is not None:
        sentences.append(f"Classes: {listed(outputs.class_names)}.")
    if "logits" not in stored and outputs.has("logits"):
        sentences.append("Logits are computed from features and head.")
    if {"logits", "features", "head_weight"} <= set(stored):
        some = outputs[: min(outputs.n, 1000)]
        gap = float(np.abs(some.head.logits(some.features.astype(np.float64)) - some.logits).max())
        scale = float(np.abs(some.logits).max()) or 1.0
        if gap <= 1e-2 * scale:
            sentences.append(f"The head gives the logits back from the features (largest difference {gap:.2g}).")
        else:
            sentences.append(
                f"The head does NOT give the logits back from the features (largest difference {gap:.3g}): "
                "features may come from another layer than the input of the last one."
            )
    if outputs.has("correct"):
        sentences.append(f"Accuracy: {accuracy(outputs, name='this file').value:.4f}.")
    if outputs.has("labels") and outputs.n_classes:
        empty = np.flatnonzero(np.bincount(outputs.labels, minlength=outputs.n_classes) == 0)
        if empty.size:
            names = [str(c) if outputs.class_names is None else outputs.class_names[c] for c in empty[:10].tolist()]
            sentences.append(f"Classes without a sample: {', '.join(names)}{' ...' if empty.size > 10 else ''}.")
    return sentences
