"""Which arrays a guard needs of each request, and the outputs that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError
from caveat.guard import Guard
from caveat.outputs import Head, Outputs
from caveat.outputs.outputs import LAYER, SAMPLE_AXIS
from caveat.serve.bodies import EXACT, too_large
from caveat.serve.problems import Problem
from caveat.serve.tensors import Tensor

__all__ = ["Fields", "check_head"]

_FROM_LOGITS = {"logits", "probs", "predictions"}
_ONE_NUMBER = ("confidence", "predictions")  # per row


def check_head(guard: Guard, head: Head | None) -> None:
    """Raise InputError where a score of the guard reads the last layer and it is missing: every request would fail."""
    scores = [*guard.scores_, *([guard.confidence_] if "confidence" in guard.watched_ else [])]
    reader = next((score.name for score in scores if "head" in score.needs), None)
    if reader is not None and head is None:
        raise InputError(f"the score {reader} of this guard reads the last linear layer, which the guard does not "
                         "keep. Give its file: --head FILE, or head= in Python.")  # fmt: skip


@final
class Fields:
    """The fields of ``Outputs`` that a guard reads.

    Parameters
    ----------
    guard
        A calibrated guard.
    head
        Last linear layer of the model, where clients send features alone and logits are computed from them.

    Examples
    --------
    >>> from caveat import Outputs
    >>> guard = Guard("energy").calibrate(Outputs(logits=np.eye(3)[[0, 1, 2] * 200] * 4, labels=[0, 1, 2] * 200))
    >>> Fields(guard).widths
    {'logits': 3}
    """

    def __init__(self, guard: Guard, head: Head | None = None) -> None:
        needs = {field for score in guard.scores_ for field in score.needs}
        if "confidence" in guard.watched_:
            needs |= set(guard.confidence_.needs)
        if guard.sets_ is not None or "class" in guard.watched_:
            needs |= {"predictions"}
        self._exact = "logits" in needs  # probabilities do not give logits
        # A guard that was calibrated on predictions with a confidence alone has seen no logits.
        answers = {"predictions"} & needs & set(guard.splits_.get("calibration", {}).get("sha256", {}))
        from_logits = bool(needs & _FROM_LOGITS - answers)
        needs -= {*_FROM_LOGITS, "head"} - answers
        self.head = head
        if from_logits and head is not None:
            needs |= {"features"}
        elif from_logits:
            needs |= {"logits"}
        self.widths: dict[str, int | None] = {
            name: self._width(name, guard) for name in (*SAMPLE_AXIS, "layers") if name in needs
        }

    def _width(self, name: str, guard: Guard) -> int | None:
        """Columns of a field, where the guard knows them."""
        if name == "features":
            widths = [score.n_features_ for score in guard.scores_ if score.fits_on and "features" in score.needs]
            return widths[0] if widths else self.head.n_features if self.head is not None else None
        return guard.sets_.n_classes_ if name == "logits" and guard.sets_ is not None else None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What a client sends; inner layers are not listed, since the guard does not know their shapes."""
        return tuple(
            Tensor(name, "FP32", _axes(name, width)) for name, width in self.widths.items() if name != "layers"
        )

    @property
    def predicts(self) -> bool:
        """Whether verdicts say which class was predicted."""
        return bool({"logits", "predictions"} & set(self.widths)) or (
            self.head is not None and "features" in self.widths
        )

    def reads(self, name: str) -> bool:
        """Whether an array of this name is used, alone or in place of another."""
        if name.startswith(LAYER):
            return "layers" in self.widths
        return name in self.widths or (name == "probs" and "logits" in self.widths and not self._exact)

    @property
    def only(self) -> str | None:
        """Name of the array of a body that holds one array without a name; None where the guard needs several."""
        return next(iter(self.widths)) if len(self.widths) == 1 and "layers" not in self.widths else None

    def outputs(self, arrays: Mapping[str, NDArray[Any]]) -> Outputs:
        """The arrays of a request as outputs; labels and what the guard does not read are left out."""
        kept = self._kept(arrays)
        for name, array in kept.items():
            if not name.startswith(LAYER) and array.ndim == 1 and name not in _ONE_NUMBER:
                width = self.widths.get(name) or array.size
                raise Problem(422, f"{name} must have a row per input, shape (n, {width}), got {array.shape}. "
                              "Send one row as shape (1, ...).")  # fmt: skip
            kept[name] = _as_floats(array, name)
        layers = {name.removeprefix(LAYER): kept.pop(name) for name in list(kept) if name.startswith(LAYER)}
        fields: dict[str, Any] = dict(kept)
        try:
            outputs = Outputs(**fields, head=self.head, layers=layers)
            for name, columns in self.widths.items():
                if name in kept and columns is not None and getattr(outputs, name).shape[-1] != columns:
                    raise InputError(f"{name} must have {columns} columns, got {kept[name].shape[-1]}.")
            return outputs
        except (InputError, OverflowError) as error:
            raise Problem(422, str(error)) from None

    def _kept(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        kept: dict[str, NDArray[Any]] = {}
        for name in self.widths:
            if name == "layers":
                kept |= {key: array for key, array in arrays.items() if key.startswith(LAYER)}
            elif name in arrays:
                kept[name] = arrays[name]
            elif name == "logits" and "probs" in arrays and self.reads("probs"):
                kept["probs"] = arrays["probs"]
            else:
                raise Problem(422, f"the guard needs {_listed(self.widths)}, got {_listed(arrays) or 'nothing'}.")
        return kept


def _axes(name: str, width: int | None) -> tuple[int, ...]:
    if name in _ONE_NUMBER:
        return (-1,)
    return (*[-1] * (SAMPLE_AXIS[name] + 1), width or -1)


def _as_floats(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Floats as they are, whole numbers as float64 where they stay what they are."""
    if array.dtype.kind == "f":
        return array
    wrong = (array > EXACT) | (array < -EXACT)
    if wrong.any():
        place = np.unravel_index(int(wrong.argmax()), array.shape)
        raise too_large(name, int(place[0]), int(array[place]))
    return array.astype(np.float64)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(str(name)[:50] for name, _ in zip(names, range(10), strict=False))
