"""What a file of outputs holds, which options read it, and which scores that allows."""

from __future__ import annotations

import warnings
from pathlib import Path
from shlex import quote

import numpy as np

from caveat._internal.classes import listed
from caveat.cli._console import say, show_table
from caveat.cli._files import Reading
from caveat.errors import CaveatWarning, InputError
from caveat.metrics import accuracy
from caveat.outputs import Outputs
from caveat.outputs.reading import StoredFile, open_file
from caveat.outputs.suggestions import column_groups, suggested_keys
from caveat.scores import applicable

_MOST = 40  # names in a table


def explain(path: Path, reading: Reading) -> None:
    """Print the arrays of a file, what can be derived from them, and the scores they allow or lack something for."""
    file = open_file(path)
    if file.is_table:
        _show_columns(file)
    keys, _ = reading.of_file()
    proposed = {field: name for field, name in suggested_keys(file).items() if field not in keys}
    if proposed:
        options = [f"--key {quote(f'{field}={name}')}" for field, name in proposed.items()]
        say(f"Try: {' '.join(options)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaveatWarning)  # the names that are not read are in the table
            outputs = reading.load(path)
    except InputError as error:
        if not file.is_table:
            _show_columns(file)
        say(f"No outputs yet: {error}")
        return
    stored = [(key, " x ".join(map(str, shape)), str(dtype)) for key, (shape, dtype) in outputs.stored().items()]
    say(f"{path}: {outputs.n} samples, {outputs.n_classes or 'unknown'} classes")
    show_table(("key", "shape", "type"), stored)
    for sentence in _facts(outputs):
        say(sentence)
    can, cannot = applicable(outputs, outputs)
    verdicts = [*((name, "yes") for name in can), *((name, f"no: {why}") for name, why in cannot.items())]
    show_table(("score", "can be computed"), verdicts, "Scores, if all files are like this one")


def _show_columns(file: StoredFile) -> None:
    """Names in the file, numbered columns in one line."""
    groups = column_groups(file)
    lines = []
    for key, names in list(groups.items())[:_MOST]:
        shape, count = file.shapes[names[0]], f" ({len(names)} columns)" if len(names) > 1 else ""
        lines.append((key + count, " x ".join(map(str, shape)) or "one number"))
    what = "column" if file.is_table else "array"
    say(f"{file.path}: {len(file.names)} {what}s")
    show_table((what, "shape"), lines)
    if len(groups) > _MOST:
        say(f"The first {_MOST} of {len(groups)}.")


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
