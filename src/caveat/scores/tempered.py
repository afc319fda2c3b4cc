"""A score at a temperature: it reads logits that are divided by T.

Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", appendix E, tune one
temperature on validation data and give it to every score that reads logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import check_params, positive
from caveat._internal.rounding import Rounding
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import Gathered
from caveat.scores.msp import with_temperature
from caveat.scores.projected import Projected

__all__ = ["Tempered", "reads_logits"]


@final
@dataclass(eq=False)
class Tempered(Score):
    """A score on logits divided by a temperature, in training and later. The larger, the stranger.

    The head is divided as well (``with_temperature``), so scores that make logits from features see the temperature
    too. It keeps the name of the score inside. Scores that read no logits do not change.

    Parameters
    ----------
    inner
        The score, with its parameters; it is copied, not fitted itself.
    temperature
        T, as ``fit_temperature`` gives it on held-out inliers.

    Examples
    --------
    >>> from caveat.scores import Entropy
    >>> sure = Outputs(logits=[[4.0, 0.0]])
    >>> Tempered(Entropy(), 2.0).score(sure) == Entropy().score(Outputs(logits=[[2.0, 0.0]]))
    array([ True])
    """

    inner: Score
    temperature: float = positive(1.0)

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Score) or isinstance(self.inner, Tempered):
            raise InputError(f"a temperature is given to a score such as GEN(), got {type(self.inner).__name__}.")
        if self.inner.held_out:
            raise InputError(f"score '{self.inner.name}' finds its own temperature or exponent. Use it as it is.")
        check_params(self)

    # These follow from the score inside.

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.inner.needs

    @property
    def fits_on(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.inner.fits_on

    @property
    def in_threads(self) -> bool:  # type: ignore[override]
        return self.inner.in_threads

    @property
    def least_rows(self) -> int:
        return self.inner.least_rows

    @property
    def note(self) -> str:
        return self._fitted.note

    def grid_for(self, outputs: Outputs) -> Mapping[str, tuple[Any, ...]]:
        return self.inner.grid_for(outputs)

    def missing(self, *, train: Outputs | None, outputs: Outputs) -> str:
        return self.inner.missing(train=train, outputs=outputs)

    def without_class_scores(self) -> Score:
        return replace(self, inner=self.inner.without_class_scores())

    def all_rows(self) -> str:
        return "learns from logits at a temperature" if self.fits_on else ""

    def class_scores(self, outputs: Outputs) -> NDArray[np.float64]:
        self._can_score(outputs)
        return self._fitted.class_scores(with_temperature(outputs, self.temperature))

    @property
    def _fitted(self) -> Score:
        fitted: Score = getattr(self, "inner_", self.inner)
        return fitted

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.inner_ = replace(self.inner).fit(with_temperature(train, self.temperature), rng=gathered.seed)  # type: ignore[type-var]

    @property
    def rounding(self) -> Rounding:
        return self._fitted.rounding

    def _score(self, block: Outputs) -> NDArray[Any]:
        return self._fitted._score(with_temperature(block, self.temperature))


def reads_logits(score: Score) -> bool:
    """Whether a temperature may change a score: it reads logits, probabilities or the head.

    >>> from caveat.scores import GEN, KNN
    >>> reads_logits(GEN()), reads_logits(KNN())
    (True, False)
    """
    inner = score.inner if isinstance(score, Projected) else score
    return bool({*inner.needs, *inner.fits_on} & {"logits", "probs", "mc_logits", "head"})
