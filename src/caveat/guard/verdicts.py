"""Verdicts: for each row accept, abstain or outlier, with p-values, the prediction set and the reason."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from caveat._internal.frames import to_frame
from caveat._internal.html import small_table
from caveat.errors import InputError
from caveat.guard.domain import OUTSIDE
from caveat.results import PredictionSets

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "Verdicts"]

KINDS = ("accept", "abstain", "outlier")
_SHOWN = 10  # rows in a notebook
_LISTED = 8  # classes of a set in a sentence
_COLUMNS = ("kind", "score", "p_values", "conditional_p_values", "predictions", "doubt")


class _Texts(dict[tuple[int, ...] | None, str]):
    """The sentence of each set of accepted rows, made once; the set alone says it."""

    def __init__(self, make: Callable[[list[int] | None], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, labels: tuple[int, ...] | None) -> str:
        text = self[labels] = self._make(None if labels is None else list(labels))
        return text


@final
@dataclass(frozen=True, eq=False)
class Verdicts:
    """What a guard says about n rows.

    Parameters
    ----------
    kind
        ``"accept"``, ``"abstain"`` or ``"outlier"``, shape (n,).
    score
        OOD score, shape (n,); larger is stranger.
    p_values
        Marginal conformal p-value of the score, shape (n,): small means unlike the calibration data.
    conditional_p_values
        P-value that is valid given the calibration set with probability 1 - delta, shape (n,).
    threshold
        Rows at or above it are outliers.
    predictions
        Predicted class, shape (n,); None where the outputs have no logits.
    sets
        Prediction sets; None where the guard has none.
    doubt, accept_below
        Score of the abstain gate, shape (n,), and the threshold from which on it abstains; None without that gate.
    selected_at
        None, or the false discovery rate at which the outliers of this batch were selected.
    confidence
        Name of the score of the abstain gate.
    class_names
        Names of the classes, in the order of their numbers; None where classes have numbers alone.

    Examples
    --------
    >>> verdicts = Verdicts(
    ...     kind=np.array(["accept", "outlier"]), score=np.array([0.2, 3.1]), p_values=np.array([0.6, 0.01]),
    ...     conditional_p_values=np.array([0.7, 0.02]), threshold=2.5,
    ... )
    >>> verdicts.counts
    {'accept': 1, 'abstain': 0, 'outlier': 1}
    >>> verdicts.reason(1)
    'Unlike the calibration data: score 3.1 is at or above the threshold 2.5 (p = 0.01).'
    """

    kind: NDArray[np.str_]
    score: NDArray[np.float64]
    p_values: NDArray[np.float64]
    conditional_p_values: NDArray[np.float64]
    threshold: float
    predictions: NDArray[np.intp] | None = None
    sets: PredictionSets | None = None
    doubt: NDArray[np.float64] | None = None
    accept_below: float | None = None
    selected_at: float | None = None
    confidence: str = "msp"
    class_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return int(self.kind.size)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows got each verdict."""
        return {kind: int((self.kind == kind).sum()) for kind in KINDS}

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Which rows are accepted, shape (n,)."""
        return np.asarray(self.kind == "accept")

    @property
    def outliers(self) -> NDArray[np.bool_]:
        """Which rows are outliers, shape (n,)."""
        return np.asarray(self.kind == "outlier")

    @property
    def reasons(self) -> list[str]:
        """Why each row got its verdict, one sentence each."""
        lists: list[Any] = [None] * len(self) if self.sets is None else self.label_lists()
        return self._sentences(self.kind.tolist(), self.score.tolist(), self.p_values.tolist(), lists)

    def _sentences(
        self, kinds: list[str], scores: list[float], p_values: list[float], lists: list[list[int] | None]
    ) -> list[str]:
        """The reasons, from columns that are lists already."""
        texts = _Texts(lambda labels: self._sentence("accept", 0.0, 0.0, None, labels))
        doubts: list[Any] = [None] * len(kinds) if self.doubt is None else self.doubt.tolist()
        return [
            texts[None if labels is None else tuple(labels)] if kind == "accept"
            else self._sentence(kind, score, p_value, doubt, labels)
            for kind, score, p_value, doubt, labels in zip(kinds, scores, p_values, doubts, lists, strict=True)
        ]  # fmt: skip

    def reason(self, i: int) -> str:
        """Why row i got its verdict.

        Parameters
        ----------
        i
            Number of the row.

        Returns
        -------
        str
            One sentence.
        """
        labels = None if self.sets is None else self.sets.labels(i).tolist()
        doubt = None if self.doubt is None else float(self.doubt[i])
        return self._sentence(str(self.kind[i]), float(self.score[i]), float(self.p_values[i]), doubt, labels)

    def _sentence(self, kind: str, score: float, p_value: float, doubt: float | None, labels: list[int] | None) -> str:
        if kind == "outlier":
            if score == OUTSIDE:
                return "Not like any calibration row: a value is in another unit, or is not a probability."
            if self.selected_at is not None:
                return (f"Selected as an outlier of this batch at a false discovery rate of {self.selected_at:g} "
                        f"(p = {p_value:.3g}).")  # fmt: skip
            return (f"Unlike the calibration data: score {score:.4g} is at or above the threshold "
                    f"{self.threshold:.4g} (p = {p_value:.3g}).")  # fmt: skip
        if kind == "abstain":
            if doubt is not None and self.accept_below is not None and doubt >= self.accept_below:
                return self._not_sure(doubt, self.accept_below)
            return "No class fits: the prediction set is empty."
        if labels is None:
            return "Like the calibration data."
        shown = ", ".join(self.names_of(labels[:_LISTED])) + (", ..." if len(labels) > _LISTED else "")
        return f"Like the calibration data. Possible classes: {shown}."

    def _not_sure(self, doubt: float, limit: float) -> str:
        if limit == -math.inf:
            return "The calibration rows carry no promise about errors, so nothing is accepted."
        if self.confidence == "msp":  # the score is minus the probability
            return f"Not sure enough: the answer has probability {-doubt:.4g}; more than {-limit:.4g} is needed."
        if self.confidence == "confidence":  # the score is minus the confidence
            return f"Not sure enough: the confidence is {-doubt:.4g}; more than {-limit:.4g} is needed."
        return f"Not sure enough: {self.confidence} is {doubt:.4g}; less than {limit:.4g} is needed."

    def names_of(self, classes: Sequence[int]) -> list[str]:
        """The names of class numbers; the numbers as text where classes have no names.

        Parameters
        ----------
        classes
            Class numbers.

        Returns
        -------
        list of str
            One name each.
        """
        return [str(c) if self.class_names is None else self.class_names[c] for c in classes]

    def label_lists(self) -> list[list[int]]:
        """The classes of each prediction set; needs ``sets``."""
        if self.sets is None:
            raise InputError("these verdicts have no prediction sets. Calibrate a Guard with sets and with labels.")
        member = self.sets.member
        classes = (member.indices if isinstance(member, csr_array) else member.nonzero()[1]).tolist()
        ends = itertools.accumulate(self.sets.sizes.tolist(), initial=0)
        return [classes[start:end] for start, end in itertools.pairwise(ends)]

    def __getitem__(self, rows: slice) -> Verdicts:
        """The verdicts on a range of rows."""
        parts = {name: column[rows] for name in _COLUMNS if (column := getattr(self, name)) is not None}
        sets = None if self.sets is None else replace(self.sets, member=self.sets.member[rows])
        return replace(self, **parts, sets=sets)

    @classmethod
    def joined(cls, parts: Sequence[Verdicts]) -> Verdicts:
        """The verdicts of one guard on several batches, one after the other.

        Parameters
        ----------
        parts
            Verdicts on each batch, at least one.

        Returns
        -------
        Verdicts
            Verdicts on all rows.
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts])
                                   for name in _COLUMNS if getattr(first, name) is not None}  # fmt: skip
        members = [part.sets.member for part in parts if part.sets is not None]
        if first.sets is None:
            return replace(first, **columns)
        member = vstack(members, format="csr") if isinstance(members[0], csr_array) else np.concatenate(members)
        return replace(first, **columns, sets=replace(first.sets, member=member))

    def rows(self, ids: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """One plain mapping per row, as a service answers.

        Parameters
        ----------
        ids
            Id of each row, with which its mapping begins; None: no ids.

        Returns
        -------
        list of dict
            ``kind``, ``prediction``, ``score``, ``p_value``, ``conditional_p_value``, ``set`` and ``reason`` of each;
            with class names also ``prediction_name`` and ``set_names``.
        """
        none: list[Any] = [None] * len(self)
        kinds, scores, p_values = self.kind.tolist(), self.score.tolist(), self.p_values.tolist()
        lists: list[Any] = none if self.sets is None else self.label_lists()
        columns = zip(
            none if ids is None else ids, kinds, none if self.predictions is None else self.predictions.tolist(),
            scores, p_values, self.conditional_p_values.tolist(), lists,
            self._sentences(kinds, scores, p_values, lists), strict=True,
        )  # fmt: skip
        rows: list[dict[str, Any]] = [
            {
                "id": key,
                "kind": kind,
                "prediction": prediction,
                "score": score,
                "p_value": p_value,
                "conditional_p_value": conditional,
                "set": labels,
                "reason": reason,
            }
            for key, kind, prediction, score, p_value, conditional, labels, reason in columns
        ]
        if ids is None:
            for row in rows:
                del row["id"]
        if self.class_names is not None:
            for row in rows:
                prediction, labels = row["prediction"], row["set"]
                row["prediction_name"] = None if prediction is None else self.class_names[prediction]
                row["set_names"] = None if labels is None else self.names_of(labels)
        return rows

    def to_frame(self) -> pd.DataFrame:
        """One row per verdict, as a pandas table (extra ``stats``)."""
        return to_frame(self.rows())

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        return f"Verdicts(n={len(self)}: {counts})"

    def _repr_html_(self) -> str:
        head = ("row", "verdict", "p-value", "reason")
        rows = [(str(i), str(self.kind[i]), f"{self.p_values[i]:.3g}", self.reason(i))
                for i in range(min(_SHOWN, len(self)))]  # fmt: skip
        return small_table(repr(self), rows, head=head)
