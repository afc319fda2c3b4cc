"""What the library answers with: frozen, named, each number with its doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._checks import as_labels
from caveat.errors import InputError

__all__ = ["Estimate", "PredictionSets"]


@final
@dataclass(frozen=True)
class Estimate:
    """A number with its interval, the confidence of the interval, and how it was made.

    Parameters
    ----------
    value, lower, upper
        The estimate and its interval.
    level
        Confidence of the interval, 1 - delta.
    n
        How many samples it rests on.
    method
        How the interval was made.
    caveat
        A sentence where one is due, else empty.

    Examples
    --------
    >>> print(Estimate(0.91, 0.89, 0.93, level=0.95, n=1000, method="DeLong"))
    0.910 [0.890, 0.930] (95 % DeLong, n = 1000)
    """

    value: float
    lower: float
    upper: float
    level: float
    n: int
    method: str
    caveat: str = ""

    def overlaps(self, other: Estimate) -> bool:
        """Whether the two intervals share a point, so that the estimates cannot be told apart by them."""
        return self.lower <= other.upper and other.lower <= self.upper

    def __str__(self) -> str:
        interval = f"{self.value:.3f} [{self.lower:.3f}, {self.upper:.3f}]"
        made = f"({100 * self.level:g} % {self.method}, n = {self.n})"
        return f"{interval} {made}" + (f" {self.caveat}" if self.caveat else "")


@final
@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Which labels are still possible for each sample.

    Parameters
    ----------
    member
        Boolean (n, C): label c is in the set of sample i.
    alpha
        The allowed error that was asked for.
    level
        The coverage that is promised: at least 1 - alpha, over calibration set and test point together.
    caveat
        A sentence where one is due, else empty.

    Examples
    --------
    >>> print(PredictionSets(np.array([[True, False, True], [False, True, False]]), alpha=0.1, level=0.9))
    2 prediction sets over 3 classes: mean size 1.50, 1 single, 0 empty; coverage promised 0.900
    """

    member: NDArray[np.bool_]
    alpha: float
    level: float
    caveat: str = ""

    @property
    def n(self) -> int:
        return int(self.member.shape[0])

    def __len__(self) -> int:
        return self.n

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How many labels each set holds."""
        return np.asarray(self.member.sum(axis=1))

    def labels(self, i: int) -> NDArray[np.intp]:
        """The labels in the set of sample i."""
        return np.flatnonzero(self.member[i])

    def covers(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Whether each true label is in its set."""
        true = as_labels(labels, "labels", n_classes=self.member.shape[1])
        if true.size != self.n:
            raise InputError(f"labels must have one value per prediction set ({self.n}), got {true.size}.")
        return np.asarray(self.member[np.arange(self.n), true])

    def coverage(self, labels: ArrayLike) -> float:
        """Share of samples whose true label is in the set."""
        return float(self.covers(labels).mean())

    def __str__(self) -> str:
        sizes = self.sizes
        text = (
            f"{self.n} prediction sets over {self.member.shape[1]} classes: mean size {sizes.mean():.2f}, "
            f"{(sizes == 1).sum()} single, {(sizes == 0).sum()} empty; coverage promised {self.level:.3f}"
        )
        return text + (f". {self.caveat}" if self.caveat else "")
