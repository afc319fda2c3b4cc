"""Settings chosen before anything is measured, on rows that set no threshold: what ``tune`` means in a study.

The rows are ``Parts.tuning``, one calibration row in five. Training rows fit the candidates, tuning rows choose among
them, the other calibration rows set thresholds, inliers and outliers are measured: no row has two of these roles.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields

from caveat.errors import InputError
from caveat.evaluation.parts import Parts
from caveat.evaluation.records import Block, Method, Tuning
from caveat.scores import Projected, Score, Tempered
from caveat.scores.settings import tune_settings
from caveat.scores.tuning import changed

__all__ = ["as_tuned", "choose_settings", "own_values"]


def choose_settings(
    score: Score, method: Method, parts: Parts, block: Block, *, keep: Collection[str] = ()
) -> tuple[Score, Tuning]:
    """A score with the settings that the tuning rows choose, fitted, and the record of the choice.

    ``keep``: parameters that the user gave, which stay.
    """
    if parts.tuning is None:
        raise InputError("no rows to tune on. Call with_tuning(seed) first.")
    tuned = tune_settings(score, train=parts.train, validation=parts.tuning, keep=keep, rng=block.seed)
    record = Tuning(block, method, tuple(tuned.params.items()), tuned.value, tuned.n, len(tuned.table), tuned.caveat)
    return tuned.score, record


def as_tuned(score: Score, record: Tuning) -> Score:
    """The score of a record, not fitted: parameters and temperature as they were chosen.

    >>> from caveat.scores import GEN
    >>> as_tuned(GEN(), Tuning(Block("net"), Method("gen"), (("temperature", 2.0), ("gamma", 0.9)), 0.04, 100))
    Tempered(inner=GEN(gamma=0.9, top=100), temperature=2.0)
    """
    params = dict(record.chosen)
    temperature = params.pop("temperature", None)
    inner = changed(score, params)
    return inner if temperature is None else Tempered(inner, temperature)


def own_values(score: Score) -> list[str]:
    """Parameters of a score that are not at their default: a user chose them.

    >>> from caveat.scores import GEN
    >>> own_values(GEN(gamma=0.3)), own_values(Projected(GEN(), "global", variance=0.8))
    (['gamma'], ['variance'])
    """
    inner = own_values(score.inner) if isinstance(score, Projected) else []
    names = [field.name for field in fields(score) if field.name not in ("inner", "projection")]  # type: ignore[arg-type]
    default = {field.name: field.default for field in fields(score)}  # type: ignore[arg-type]
    return inner + [name for name in names if getattr(score, name) != default[name]]
