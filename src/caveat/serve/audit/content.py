"""Verdicts as the body of a record, and back: what was answered can be said again, bit for bit."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from scipy.sparse import csr_array

from caveat.guard import Guard, Verdicts
from caveat.results import PredictionSets

__all__ = ["canonical", "encode_verdicts", "merged_verdicts", "now", "written_at"]


def now() -> str:
    """The time as the audit writes it.

    >>> len(now()), now()[-1]
    (24, 'Z')
    """
    return written_at(datetime.datetime.now(datetime.UTC))


def written_at(moment: datetime.datetime) -> str:
    """A moment as the audit writes it; texts are ordered as the moments are.

    >>> written_at(datetime.datetime.fromisoformat("2026-11-18T04:20:40+01:00"))
    '2026-11-18T03:20:40.000Z'
    """
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def canonical(content: Any) -> bytes:
    """JSON with sorted keys and no spaces; floats with as many digits as it takes to read them back exactly."""
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)


def encode_verdicts(verdicts: Verdicts) -> bytes:
    """The verdicts of one request, column by column."""
    return canonical(
        {
            "kind": verdicts.kind.tolist(),
            "score": _floats(verdicts.score),
            "p_value": _floats(verdicts.p_values),
            "conditional_p_value": _floats(verdicts.conditional_p_values),
            "prediction": None
            if verdicts.predictions is None
            else np.ascontiguousarray(verdicts.predictions, np.int64),
            "doubt": None if verdicts.doubt is None else _floats(verdicts.doubt),
            "set": None if verdicts.sets is None else verdicts.label_lists(),
        }
    )


def merged_verdicts(guard: Guard, bodies: Sequence[bytes]) -> Verdicts:
    """The verdicts of several records, one after the other, as one object.

    >>> from caveat import Outputs
    >>> logits = np.random.default_rng(0).normal(size=(300, 3))
    >>> guard = Guard("energy", sets=None).calibrate(Outputs(logits=logits))
    >>> bodies = [encode_verdicts(guard(Outputs(logits=logits[rows]))) for rows in (slice(2), slice(2, 5))]
    >>> both = merged_verdicts(guard, bodies)
    >>> bool((both.score == guard(Outputs(logits=logits[:5])).score).all()), both.reason(0)
    (True, 'Like the calibration data.')
    """
    parts = [orjson.loads(body) for body in bodies]
    joined: dict[str, Any] = {
        name: None if column is None else [value for part in parts for value in part[name]]
        for name, column in parts[0].items()
    }
    sets = None
    if joined["set"] is not None and guard.sets_ is not None:
        sizes = np.fromiter(map(len, joined["set"]), dtype=np.int64, count=len(joined["set"]))
        indices = np.fromiter((label for labels in joined["set"] for label in labels), np.int64, count=int(sizes.sum()))
        ends = np.concatenate([[0], np.cumsum(sizes)])
        member = csr_array((np.ones(indices.size, bool), indices, ends), shape=(sizes.size, guard.sets_.n_classes_))
        sets = PredictionSets(member, alpha=guard.alpha, level=guard.sets_.level_, class_names=guard.class_names_)
    return Verdicts(
        kind=np.array(joined["kind"], dtype="<U7"), score=_array(joined["score"]),
        p_values=_array(joined["p_value"]), conditional_p_values=_array(joined["conditional_p_value"]),
        threshold=guard.threshold_, sets=sets, accept_below=guard.accept_below_, confidence=guard.confidence_.name,
        predictions=None if joined["prediction"] is None else np.array(joined["prediction"], dtype=np.intp),
        doubt=None if joined["doubt"] is None else _array(joined["doubt"]), class_names=guard.class_names_,
    )  # fmt: skip


def _floats(values: NDArray[np.float64]) -> NDArray[np.float64] | list[float | str]:
    """Numbers as JSON has them; the array itself, of which the same text is made faster, unless it has infinities."""
    if np.isfinite(values).all():
        return np.ascontiguousarray(values, np.float64)  # a shorter float has another text
    return [value if math.isfinite(value) else str(value) for value in values.tolist()]


def _array(values: Sequence[float | str]) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        return np.array([float(value) for value in values])
