"""Domain: what the fields of the calibration rows were, and which later rows calibration cannot have seen.

A promise is about rows like the calibration rows. A large value may belong to a strange input: the score judges
it. But a confidence in percent, a vector that is not made of probabilities, or another number of columns is not a
strange input. It is another unit or another file, and a score of it means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_probabilities, probability_rows
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.outputs.float_types import in_float_types
from caveat.outputs.outputs import LAYER, SAMPLE_AXIS

__all__ = ["OUTSIDE", "Domain"]

OUTSIDE = float(np.finfo(np.float64).max)
"""Score of a row outside the domain, where such rows are called outliers: above every score of a row inside."""
_CLASS_COLUMNS = ("logits", "probs", "mc_logits", "ease_probs")
_SLACK = 1e-6  # a softmax in float32 may give 1.0000001
_FROM_CLASSES = {*_CLASS_COLUMNS, "predictions"}


@final
@dataclass(frozen=True)
class Domain:
    """What a guard can judge.

    Parameters
    ----------
    columns
        Number of columns of the fields that the guard reads; ``classes`` for all that have a column per class.
    shares
        Fields whose values lay within [0, 1] in every calibration row.
    floats
        Float types of the fields. Later rows are read in these: the float64 that a JSON body makes of a number is not
        the float32 that was calibrated.

    Examples
    --------
    >>> held = Outputs(predictions=[0, 1, 1], confidence=[0.9, 0.6, 1.0])
    >>> domain = Domain.of(held, reads={"confidence"})
    >>> domain.check(Outputs(predictions=[1], confidence=[97.0]))
    Traceback (most recent call last):
    caveat.errors.InputError: confidence must be between 0 and 1, as in every calibration row, got 97 at row 0. ...
    """

    columns: Mapping[str, int]
    shares: tuple[str, ...] = ()
    floats: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, calibration: Outputs, reads: Iterable[str]) -> Domain:
        """The domain of calibration rows.

        Parameters
        ----------
        calibration
            The rows.
        reads
            Fields that the guard reads.

        Returns
        -------
        Domain
            Their columns and units.
        """
        fields = set(reads)
        if fields & _FROM_CLASSES:
            fields |= {"classes"}
            if calibration.head is not None:
                fields |= {"features"}
        columns = {
            name: width
            for name, width in _columns(calibration).items()
            if name in fields or (name.startswith(LAYER) and "layers" in fields)
        }
        inside = "confidence" in fields and bool(_is_share(calibration.confidence).all())
        floats = {
            key: kind.name
            for key, (_, kind) in calibration.stored().items()
            if kind.kind == "f" and (key in columns or (key in _CLASS_COLUMNS and "classes" in columns))
        }
        return cls(columns, ("confidence",) if inside else (), floats)

    def check(self, outputs: Outputs, *, columns_alone: bool = False) -> None:
        """Raise an InputError that names the field and the first row outside.

        Parameters
        ----------
        outputs
            Rows to judge.
        columns_alone
            Whether rows may be outside.
        """
        for name, width in _columns(outputs).items():
            expected = self.columns.get(name, width)
            if width != expected:
                what = next((field for field in _CLASS_COLUMNS if field in outputs.stored()), "head.weight")
                raise InputError(
                    f"{what if name == 'classes' else name} must have {expected} columns, as the calibration "
                    f"rows have, got {width}. Send the outputs of the model that was calibrated."
                )
        if columns_alone:
            return
        for name in self.shares:
            inside = _is_share(getattr(outputs, name)) if outputs.has(name) else np.True_
            if not inside.all():
                row = int(np.argmin(inside))
                value = getattr(outputs, name)[row]
                raise InputError(
                    f"{name} must be between 0 and 1, as in every calibration row, got {value:.6g} at row {row}. "
                    "Divide percentages by 100; a guard with outside='outlier' calls such rows outliers."
                )
        if "classes" in self.columns and "probs" in outputs.stored():
            check_probabilities(outputs.probs, "probs")

    def read(self, outputs: Outputs) -> Outputs:
        """The rows in the float types of the calibration rows.

        Parameters
        ----------
        outputs
            Rows to judge.

        Returns
        -------
        Outputs
            The same rows; arrays that are not wider are shared.
        """
        return in_float_types(outputs, self.floats)

    def outside(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which rows are outside, shape (n,).

        Parameters
        ----------
        outputs
            Rows with the columns of the domain.

        Returns
        -------
        array of shape (n,)
            True where a value is in another unit, or a vector is not made of probabilities.
        """
        outside = np.zeros(outputs.n, dtype=np.bool_)
        for name in self.shares:
            if outputs.has(name):
                outside |= ~_is_share(getattr(outputs, name))
        if "classes" in self.columns and "probs" in outputs.stored():
            outside |= ~probability_rows(outputs.probs)
        return outside

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain values, for files and pages."""
        return {"columns": dict(self.columns), "shares": list(self.shares), "floats": dict(self.floats)}


def _columns(outputs: Outputs) -> dict[str, int]:
    """Columns of every stored array that has any; one entry for those with a column per class."""
    columns: dict[str, int] = {}
    for key, (shape, _) in outputs.stored().items():
        if key in _CLASS_COLUMNS or key == "head_weight":
            columns["classes"] = shape[0 if key == "head_weight" else -1]
        elif key.startswith(LAYER) or (key in SAMPLE_AXIS and len(shape) > 1):
            columns[key] = shape[1]
    return columns


def _is_share(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((values >= -_SLACK) & (values <= 1 + _SLACK))
