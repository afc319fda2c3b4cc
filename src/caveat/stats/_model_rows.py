"""What two or more models said about the same rows, and the check that the rows are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_kind, as_pair, as_vector, check_same
from caveat.errors import InputError
from caveat.metrics.selective import scored_answers
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.scores import Score, make

__all__ = ["Model", "ModelRows", "Outliers", "read_models"]

Model = Outputs | tuple[ArrayLike, ArrayLike]
Outliers = Outputs | ArrayLike | Mapping[str, Outputs] | Mapping[str, ArrayLike]


@final
@dataclass(frozen=True, eq=False)
class ModelRows:
    """What is compared of one model: the score and the answer of each row, and the scores of outlier sets."""

    score: NDArray[np.float64]
    correct: NDArray[np.bool_]
    labels: NDArray[Any] | None = None  # class numbers, or class names where all models have some
    outliers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        return int(self.correct.size - self.correct.sum())


def read_models(
    models: Mapping[str, Any], scores: Mapping[str, str | Score], outliers: Mapping[str, Any] | None = None
) -> dict[str, ModelRows]:
    """Scores and answers of models of the same rows; InputError where the rows cannot be the same."""
    rows: dict[str, ModelRows] = {}
    named = all(model.class_names is not None for model in models.values() if isinstance(model, Outputs))
    for name, model in models.items():
        score = scores[name]
        made = make(score) if isinstance(score, str) else as_kind(score, Score, "score")
        outside = {} if outliers is None else _outliers(outliers[name], made, name)
        if isinstance(model, Outputs):
            demand(model, "correct", who="a comparison of models", name=name)
            values = as_vector(made.score(model), f"the score of {name}")
            labels = np.array(model.class_names)[model.labels] if named else model.labels
            rows[name] = ModelRows(values, np.asarray(model.correct), labels, outside)
        else:
            hint = "Give Outputs with labels, or (score, correct)."
            pair = as_kind(model, (tuple, list), name, what="caveat.Outputs or a pair of arrays", hint=hint)
            rows[name] = ModelRows(*scored_answers(*as_pair(pair, name)), None, outside)
    _check_rows(rows)
    return rows


def _outliers(outliers: Any, score: Score, name: str) -> dict[str, NDArray[np.float64]]:
    sets = outliers if isinstance(outliers, Mapping) else {"outliers": outliers}
    if not sets:
        raise InputError(f"outliers of {name} must hold at least one set, got none.")
    return {
        str(key): as_vector(score.score(values) if isinstance(values, Outputs) else values, f"outliers of {name}")
        for key, values in sets.items()
    }


def _check_rows(models: Mapping[str, ModelRows]) -> None:
    check_same("number of rows", **{name: model.score.size for name, model in models.items()})
    check_same(
        "outlier sets (with their rows)",
        **{name: {key: values.size for key, values in model.outliers.items()} for name, model in models.items()},
    )
    labeled = {name: model.labels for name, model in models.items() if model.labels is not None}
    for (one, first), (other, second) in combinations(labeled.items(), 2):
        differing = np.flatnonzero(first != second)
        if differing.size:
            why = ""
            if np.array_equal(np.sort(first), np.sort(second)):
                why = " The same labels are there in another order: save the outputs of both models in one order."
            raise InputError(
                f"{one} and {other} must be outputs of the same rows in the same order, but the labels of "
                f"{differing.size} of {first.size} rows differ, first at row {differing[0]}.{why}"
            )
