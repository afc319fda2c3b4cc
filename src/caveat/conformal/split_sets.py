r"""Split conformal prediction sets: which labels are still possible.

$$ C(x) = \{ y : a(x, y) \le \hat q \}, \qquad \hat q = \text{the conformal quantile of } a(x_i, y_i) $$

Papadopoulos, Proedrou, Vovk and Gammerman, "Inductive Confidence Machines for Regression", ECML 2002; the nonconformity
scores a(x, y) with their papers are in ``caveat.conformal.nonconformity``. With ``by``, one quantile per group: Vovk,
Lindsay, Nouretdinov and Gammerman, "Mondrian Confidence Machine", 2003.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_able, as_labels, check_known
from caveat._internal.streams import draws_for
from caveat.conformal._probabilities import ClassScores, probability_blocks
from caveat.conformal.grouped import GroupedScores, as_groups
from caveat.conformal.nonconformity import LAC, NONCONFORMITY, Nonconformity
from caveat.conformal.p_values import check_seen
from caveat.conformal.quantile import Promise
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results.sets import PredictionSets, stack_rows

__all__ = ["SplitSets"]


@final
@dataclass(eq=False)
class SplitSets:
    """Prediction sets that hold the true label with probability at least 1 - alpha.

    The promise is marginal (over calibration set and test point together), or within each group with ``by``, and needs
    them to be exchangeable; data that trained the model, or chose a setting of it, is not calibration data.

    Parameters
    ----------
    score
        Nonconformity of a label: a name (``lac``, ``aps``, ``raps``, ``saps``, ``topk``, ``margin``), an object of
        ``caveat.conformal.nonconformity`` with its settings, or a fitted OOD score with class scores, which stands for
        ``lac`` on the pseudo-probabilities of that score.
    alpha
        Allowed error.
    by
        None: one threshold. ``"label"``: one per label. An array: the group of each calibration row; ``predict`` then
        takes ``groups``. A callable: maps outputs to the group of each row.
    source
        A fitted OOD score with class scores that gives the probabilities in place of the model.
    delta
        None: the promise holds on average over calibration sets. A number: with probability 1 - delta over the
        calibration set, the error is at most alpha (PAC). With ``by`` this is the probability for each group by itself:
        among ten groups, one may fail with probability up to 10 delta.
    unseen
        A group that calibration never saw: an ``"error"``, or ``"all"`` labels.
    joint
        Whether the promise with ``delta`` shall hold for all groups at once, with probability 1 - delta: delta is then
        shared equally by the groups, and thresholds are higher.

    Examples
    --------
    >>> calibration = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], labels=[0, 0, 1, 0])
    >>> sets = SplitSets(alpha=0.4).calibrate(calibration).predict(Outputs(probs=[[0.95, 0.05], [0.5, 0.5]]))
    >>> sets.labels(0), sets.labels(1)
    (array([0]), array([], dtype=int64))
    """

    score: str | Nonconformity | ClassScores = "lac"
    alpha: float = 0.1
    by: ArrayLike | Callable[[Outputs], ArrayLike] | None = None
    source: ClassScores | None = None
    delta: float | None = None
    unseen: Literal["error", "all"] = "error"
    joint: bool = False

    def __post_init__(self) -> None:
        Promise(self.alpha, self.delta, self.joint)
        check_known(self.unseen, ("error", "all"), "rule for unseen groups")
        if isinstance(self.score, str):
            check_known(self.score, NONCONFORMITY, "nonconformity score")
        elif not isinstance(self.score, Nonconformity):
            as_able(self.score, ("class_scores",), "a score that is neither a name nor a Nonconformity")
            if self.source is not None:
                raise InputError("give an OOD score as score or as source, not both.")
        if isinstance(self.by, str):
            check_known(self.by, ("label",), "value of by")

    @property
    def nonconformity(self) -> Nonconformity:
        """The nonconformity score with its settings."""
        if isinstance(self.score, str):
            return NONCONFORMITY[self.score]()
        return self.score if isinstance(self.score, Nonconformity) else LAC()

    def calibrate(self, outputs: Outputs, rng: Rng | None = None) -> Self:
        """Set the threshold from held-out outputs with labels. ``rng`` randomises aps, raps and saps; None: u = 1."""
        demand(outputs, "labels", who="SplitSets.calibrate")
        draws = None if rng is None else draws_for(rng, "calibrate")
        u = self._randomisation(outputs.n, draws)
        groups = self._groups(outputs, self.by if not callable(self.by) else None)
        rule, parts, classes = self.nonconformity.fine, [], 0
        for rows, probs in probability_blocks(outputs, self._source):
            classes = probs.shape[1]
            labels = as_labels(outputs.labels[rows], "labels", n_classes=classes)
            parts.append(rule.of_labels(probs, labels, u[rows]))
        scores = np.concatenate(parts)
        self.n_classes_ = classes
        self.randomised_ = rng is not None and rule.randomised
        if self._by_label:
            self.grouped_ = GroupedScores.of(scores, outputs.labels, names=np.arange(classes))
        else:
            self.grouped_ = GroupedScores.of(scores, groups)
        promise = Promise(self.alpha, self.delta, self.joint)
        self._cuts = self.grouped_.thresholds(promise.among(self.grouped_).rank)
        self.thresholds_ = self._cuts + rule.less
        if self.by is None:
            self.threshold_, self.calibration_ = float(self.thresholds_[0]), self.grouped_.scores + rule.less
        self.level_, too_few = promise.among(self.grouped_).kept_by(self.grouped_, by_group=self.by is not None)
        if too_few:
            warnings.warn(too_few, CaveatWarning, stacklevel=2)
        self.caveat_ = " ".join(filter(None, (too_few, promise.scope(self.grouped_.names.size))))
        return self

    def predict(
        self,
        outputs: Outputs,
        rng: Rng | None = None,
        *,
        groups: ArrayLike | None = None,
        sparse: bool = False,
    ) -> PredictionSets:
        """The labels whose nonconformity is at or below the threshold; ``sparse`` keeps them as a CSR matrix."""
        draws = None if rng is None else draws_for(rng, "predict")
        u, number = self._ready(outputs, draws, groups)
        rule, parts = self.nonconformity.fine, []
        per_row = None if number is None else np.append(self._cuts, np.inf)[number]  # -1, unseen: every label
        for rows, probs in probability_blocks(outputs, self._source):
            if self._by_label:
                member = rule.of_all(probs, u[rows]) <= self._cuts
            elif per_row is None:
                member = rule.within(probs, u[rows], np.full(probs.shape[0], self._cuts[0]))
            else:
                member = rule.within(probs, u[rows], per_row[rows])
            parts.append(member)
        return PredictionSets(
            stack_rows(parts, sparse=sparse), alpha=self.alpha, level=self.level_, delta=self.delta, caveat=self.caveat_
        )

    def p_values(
        self,
        outputs: Outputs,
        rng: Rng | None = None,
        *,
        groups: ArrayLike | None = None,
        smoothed: bool | None = None,
    ) -> NDArray[np.float64]:
        """P-value of every label of every sample, shape (n, C).

        Deterministic p-values (no ``rng``, or ``smoothed=False``) give the set back: label y is in it if p > alpha.
        ``rng`` draws u where calibration did, and tau for smoothing.
        """
        draws = None if rng is None else draws_for(rng, "predict")
        u, number = self._ready(outputs, draws, groups, smoothing=True)
        tau = draws.random(outputs.n) if draws is not None and smoothed in (None, True) else None
        if smoothed and draws is None:
            raise InputError("smoothed p-values need rng, a numpy.random.Generator or a seed, which is None.")
        rule, found = self.nonconformity.fine, np.empty((outputs.n, self.n_classes_))
        for rows, probs in probability_blocks(outputs, self._source):
            scores, here = rule.of_all(probs, u[rows]), None if tau is None else tau[rows]
            if self._by_label:
                found[rows] = self.grouped_.column_p_values(scores, here)
            else:
                found[rows] = self.grouped_.p_values(scores, None if number is None else number[rows], here)
        return found

    # -- the parts ----------------------------------------------------------------------------------------------------

    @property
    def _source(self) -> ClassScores | None:
        if isinstance(self.score, (str, Nonconformity)):
            return self.source
        return self.score

    @property
    def _by_label(self) -> bool:
        return isinstance(self.by, str)

    def _randomisation(self, n: int, rng: np.random.Generator | None) -> NDArray[np.float64]:
        return rng.random(n) if rng is not None and self.nonconformity.randomised else np.ones(n)

    def _groups(self, outputs: Outputs, given: Any) -> NDArray[Any] | None:
        """The group of each row: given, or from the callable; None where there are no groups of rows."""
        if self.by is None or self._by_label:
            return None
        if callable(self.by):
            given = self.by(outputs)
        if given is None:
            raise InputError("sets calibrated by an array of groups need groups=, the group of each row.")
        return as_groups(given, "groups", outputs.n)

    def _ready(
        self, outputs: Outputs, rng: np.random.Generator | None, groups: ArrayLike | None, *, smoothing: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.intp] | None]:
        """Randomisation and group number of each row, or the reason why there is no answer."""
        if not hasattr(self, "grouped_"):
            raise NotFittedError("SplitSets has no threshold yet. Call calibrate(outputs) before predict(...).")
        demand(outputs, who="SplitSets")
        if self._source is None and outputs.has("probs") and outputs.n_classes != self.n_classes_:
            raise InputError(f"outputs must have {self.n_classes_} classes as in calibration, got {outputs.n_classes}.")
        draws = rng if self.randomised_ or not smoothing else None  # without u, rng can only mean tau
        if self.nonconformity.randomised and self.randomised_ != (draws is not None):
            had, has = ("with", "without") if self.randomised_ else ("without", "with")
            raise InputError(
                f"{self.nonconformity.name} was calibrated {had} rng and is now asked {has} it: the same randomisation "
                "must hold at calibration and at test, or the sets do not cover."
            )
        if groups is not None and (self.by is None or self._by_label or callable(self.by)):
            how = "by a callable" if callable(self.by) else "by label" if self._by_label else "without groups"
            raise InputError(f"sets were calibrated {how} and are now asked with groups=, which they cannot use.")
        named = self._groups(outputs, groups)
        if named is None:
            return self._randomisation(outputs.n, draws), None
        number = self.grouped_.find(named)
        check_seen(named, number, self.unseen)
        return self._randomisation(outputs.n, draws), number
