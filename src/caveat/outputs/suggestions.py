"""Keys that a file probably needs: proposals for a person who looks at it, never used unasked."""

from __future__ import annotations

import re

import numpy as np

from caveat.errors import InputError
from caveat.outputs.keys import FIELDS, is_field
from caveat.outputs.reading import StoredFile

__all__ = ["column_groups", "suggested_keys"]

_PREFIX = re.compile(r"(?P<prefix>.*?)\d+", re.DOTALL)
_NAMED = re.compile(r"(?P<prefix>.*?[._ -]).+", re.DOTALL)
_WORDS = {
    "labels": {
        "y", "target", "targets", "class", "true", "y_true", "true_label", "gt", "ground_truth", "truth", "category",
    },
    "confidence": {"conf", "confidences", "max_prob", "certainty"},
    "predictions": {"pred", "preds", "y_pred", "predicted", "predicted_class", "answer"},
}  # fmt: skip
_FEATURES = re.compile(r"feat|hidden|penult|activation|repr", re.IGNORECASE)
_EMBEDDINGS = re.compile(r"emb|clip|dino", re.IGNORECASE)
_SAMPLE = 100  # rows that are looked at
_LABELS = 10_000  # labels that are looked at


def column_groups(file: StoredFile) -> dict[str, tuple[str, ...]]:
    """Names of a file in its order, numbered columns of a table together under ``prefix*``.

    Parameters
    ----------
    file
        An open file.

    Returns
    -------
    dict
        Name or ``prefix*`` -> names.
    """
    groups: dict[str, list[str]] = {}
    for name in file.names:
        match = _PREFIX.fullmatch(name) if file.is_table else None
        groups.setdefault(f"{match['prefix']}*" if match else name, []).append(name)
    return {key if len(names) > 1 else names[0]: tuple(names) for key, names in groups.items()}


def suggested_keys(file: StoredFile) -> dict[str, str]:
    """Field -> name, for names that are no fields but look like one.

    Parameters
    ----------
    file
        An open file.

    Returns
    -------
    dict
        At most one proposal for each field that the file does not hold under its own name.
    """
    try:
        own = set(file.fields())
    except InputError:  # such as two columns for one field
        own = set()
    keys: dict[str, str] = {}
    for key, names in column_groups(file).items():
        if is_field(key) or own & {"logits", "probs"} & {key.rstrip("*").rstrip("._")}:
            continue
        wide = len(names) > 1 or len(file.shapes[names[0]]) > 1
        field = _wide_field(file, key, names) if wide else _vector_field(key)
        if field in FIELDS and field not in own and field not in keys and _new_classes(field, own | set(keys)):
            keys[field] = key
    for key, names in _named_groups(file).items():  # p_cat, p_dog: probabilities alone can be told by their values
        if _new_classes("probs", own | set(keys)) and _wide_field(file, key, names) == "probs":
            keys["probs"] = key
    if columns := _label_columns(file, keys.get("labels") or ("labels" if "labels" in own else ""), own | set(keys)):
        keys[_wide_field(file, "", columns)] = ",".join(columns)
    return keys


def _label_columns(file: StoredFile, labels: str, there: set[str]) -> tuple[str, ...]:
    """The columns of a table from the first to the last that a label names; none where labels name none."""
    if not file.is_table or not labels or not _new_classes("logits", there):
        return ()
    try:
        column = file.fields({"labels": labels} if labels in file.names else {})["labels"]
        names = set(file.read({"labels": column}, slice(0, _LABELS))[0]["labels"].tolist())
    except (InputError, KeyError):
        return ()
    places = [place for place, name in enumerate(file.names) if name in names]
    columns = file.names[places[0] : places[-1] + 1] if len(places) == len(names) > 1 else ()
    return columns if columns and column[0] not in columns and _wide_field(file, "", columns) else ()


def _named_groups(file: StoredFile) -> dict[str, tuple[str, ...]]:
    """Columns of a table with a common beginning, up to a sign, under ``prefix*``."""
    groups: dict[str, list[str]] = {}
    for name in file.names if file.is_table else ():
        match = _NAMED.fullmatch(name)
        if match and not _PREFIX.fullmatch(name):
            groups.setdefault(f"{match['prefix']}*", []).append(name)
    return {key: tuple(names) for key, names in groups.items() if len(names) > 1}


def _new_classes(field: str, there: set[str]) -> bool:
    """Logits and probabilities exclude each other."""
    return not (field in ("logits", "probs") and there & {"logits", "probs"})


def _vector_field(name: str) -> str:
    plain = name.lower().replace("-", "_").replace(" ", "_")
    return next((field for field, words in _WORDS.items() if plain in words), "")


def _wide_field(file: StoredFile, key: str, names: tuple[str, ...]) -> str:
    if _EMBEDDINGS.search(key):
        return "embeddings"
    if _FEATURES.search(key):
        return "features"
    if len(file.shapes[names[0]]) > 2 or key.endswith(("weight", "bias")):
        return ""
    try:
        sample = file.read({"logits": names}, slice(0, _SAMPLE))[0]["logits"][:_SAMPLE]
        rows = np.asarray(sample, dtype=np.float64)
    except (InputError, ValueError, TypeError):  # text among the numbers
        return ""
    return "probs" if rows.size and (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) <= 1e-2).all() else "logits"
