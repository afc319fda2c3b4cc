r"""Cross-conformal prediction sets: every row trains some models and calibrates the one that did not see it.

With $a_k$ the nonconformity by the model trained without fold k, of n rows $i$ in folds $k(i)$:

$$ p(x, y) = \frac{1 + \#\{i : a_{k(i)}(x_i, y_i) \ge a_{k(i)}(x, y)\}}{n + 1}, \qquad
   C(x) = \{y : p(x, y) > \alpha\} $$

Vovk, "Cross-conformal predictors", Annals of Mathematics and Artificial Intelligence 74, 2015; as CV+ sets: Romano,
Sesia and Candes, "Classification with Valid and Adaptive Coverage", NeurIPS 2020, section 2.3, arXiv:2006.02544. What
is proven is in ``caveat.conformal._folds``: about 1 - 2 alpha for any model, where 1 - alpha is typical.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_kind, as_labels, as_list, check_known, check_same
from caveat._internal.streams import draws_for
from caveat.conformal._folds import allowed_misses, as_folds, cross_caveat, cross_level
from caveat.conformal._probabilities import probability_blocks
from caveat.conformal.grouped import GroupedScores, as_groups, count_above, count_at_least
from caveat.conformal.nonconformity import Nonconformity
from caveat.conformal.p_values import check_seen
from caveat.conformal.quantile import Promise
from caveat.conformal.split_sets import SplitSets
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results.sets import PredictionSets

__all__ = ["CrossSets"]

_HERE = "CrossSets.calibrate"


@final
@dataclass(eq=False)
class CrossSets:
    """Prediction sets from cross-validation: no row is held out from training.

    The sets hold the true label with probability of about 1 - alpha where the models of the folds are alike; the level
    that is proven for any model, at least 1 - 2 alpha for leave-one-out, is the ``level`` of the sets. The test row and
    all others must be exchangeable, and folds must be drawn without a look at the rows.

    Parameters
    ----------
    score
        Nonconformity of a label, a name or an object, as for ``SplitSets``.
    alpha
        Allowed error.
    by
        None: all rows are compared. ``"label"``: rows of the same label only. An array: the group of each row;
        ``predict`` then takes ``groups``.
    unseen, nonempty
        As for ``SplitSets``. The label that joins an empty set has the largest mean probability over the folds.

    Examples
    --------
    >>> held_out = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], labels=[0, 0, 1, 0])
    >>> sets = CrossSets(alpha=0.4).calibrate(held_out, folds=[0, 0, 1, 1])
    >>> by_model = [Outputs(probs=[[0.95, 0.05]]), Outputs(probs=[[0.65, 0.35]])]  # of the same row
    >>> sets.p_values(by_model)
    array([[0.8, 0.2]])
    >>> print(sets.predict(by_model).labels(0))
    [0]
    """

    score: str | Nonconformity = "lac"
    alpha: float = 0.1
    by: ArrayLike | Literal["label"] | None = None
    unseen: Literal["error", "all"] = "error"
    nonempty: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.score, str):
            as_kind(self.score, Nonconformity, "score", what="the name of a nonconformity score or a Nonconformity")
        if isinstance(self.by, str):
            check_known(self.by, ("label",), "value of by")
        SplitSets(self.score, alpha=self.alpha, unseen=self.unseen, nonempty=self.nonempty)

    def calibrate(self, outputs: Outputs, folds: ArrayLike, rng: Rng | None = None) -> Self:
        """Keep the nonconformity of every row by the model that did not see it.

        Parameters
        ----------
        outputs
            Outputs with labels; each row by the model of its own fold, which was trained on the other folds.
        folds
            Fold of each row, shape (n,).
        rng
            Randomizes aps, raps and saps; None: u = 1.
        """
        demand(outputs, "labels", who=_HERE)
        self.folds_, self._fold = as_folds(folds, outputs.n)
        rule, u = self._rule, self._draws(outputs.n, None if rng is None else draws_for(rng, "calibrate"))
        self.randomized_ = rng is not None and rule.randomized
        scores, labels = np.empty(outputs.n), np.empty(outputs.n, dtype=np.intp)
        for rows, probs in probability_blocks(outputs):
            self.n_classes_ = probs.shape[1]
            labels[rows] = as_labels(outputs.labels[rows], "labels", n_classes=self.n_classes_)
            scores[rows] = rule._of_labels(probs, labels[rows], u[rows])
        if isinstance(self.by, str):
            self._names, self._group = np.arange(self.n_classes_), labels
        elif self.by is None:
            self._names, self._group = np.zeros(1, dtype=np.intp), np.zeros(outputs.n, dtype=np.intp)
        else:
            self._names, self._group = np.unique(as_groups(self.by, "groups", outputs.n), return_inverse=True)
        cells = np.arange(self.folds_.size * self._names.size)
        self._cells = GroupedScores.of(scores, self._fold * self._names.size + self._group, names=cells)
        self._sizes = np.bincount(self._group, minlength=self._names.size)
        return self._set_promise()

    def at(self, alpha: float) -> Self:
        """The sets of the same rows with another allowed error; smaller alpha, larger sets.

        Parameters
        ----------
        alpha
            The allowed error.
        """
        self._demand_calibrated()
        other = copy.copy(self)
        other.alpha = Promise(alpha).alpha
        return other._set_promise()

    def predict(
        self, outputs: Sequence[Outputs], rng: Rng | None = None, *, groups: ArrayLike | None = None
    ) -> PredictionSets:
        """The labels with p > alpha.

        Parameters
        ----------
        outputs
            Outputs of the same rows by the model of each fold, in the order of ``folds_``.
        rng
            Randomizes aps, raps and saps, where calibration did.
        groups
            Group of each row, where rows were calibrated by group.

        Returns
        -------
        PredictionSets
            ``member`` (m, C) says which labels are in each set.
        """
        draws = None if rng is None else draws_for(rng, "predict")
        by_model = self._checked(outputs, randomized=draws is not None)
        _, at_least, group = self._counts(by_model, draws, groups)
        allowed = np.array([allowed_misses(int(n), self.alpha) for n in (*self._sizes, 0)])  # the last: unseen
        member = at_least >= allowed[group]
        if self.nonempty:
            empty = np.flatnonzero(~member.any(axis=1))
            member[empty, np.argmax(sum(part.probs[empty] for part in by_model), axis=1)] = True
        return PredictionSets(member, alpha=self.alpha, level=self.level_, caveat=self.caveat_)

    def p_values(
        self, outputs: Sequence[Outputs], rng: Rng | None = None, *, groups: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """P-value of every label of every row, shape (m, C). Twice such a p-value is valid for any model, about.

        Deterministic p-values (no ``rng``) give the set back: label y is in it if p > alpha. ``rng`` draws u where
        calibration did, and tau for smoothing.

        Parameters
        ----------
        outputs, rng, groups
            As for ``predict``; ``rng`` also draws tau for smoothing.

        Returns
        -------
        array of shape (m, C)
            The p-values.
        """
        self._demand_calibrated()
        draws = None if rng is None else draws_for(rng, "predict")
        by_model = self._checked(outputs, randomized=self.randomized_ and draws is not None)
        above, at_least, group = self._counts(by_model, draws if self.randomized_ else None, groups)
        tau = 1.0 if draws is None else draws.random((above.shape[0], 1))
        return np.asarray((above + tau * (1 + at_least - above)) / (np.append(self._sizes, 0)[group] + 1))

    # -- the parts ----------------------------------------------------------------------------------------------------

    @property
    def _rule(self) -> Nonconformity:
        return SplitSets(self.score).nonconformity.fine

    def _draws(self, n: int, draws: np.random.Generator | None) -> NDArray[np.float64]:
        return draws.random(n) if draws is not None and self._rule.randomized else np.ones(n)

    def _set_promise(self) -> Self:
        self.level_ = cross_level(self._fold, self._group, self.alpha)
        grouped = GroupedScores(self._names, np.append(0, np.cumsum(self._sizes)), self._cells.scores)
        _, too_few = Promise(self.alpha).kept_by(grouped, by_group=self.by is not None)
        if too_few:
            warnings.warn(too_few, CaveatWarning, stacklevel=3)
        self.caveat_ = " ".join(filter(None, (too_few, cross_caveat(self.level_, self.alpha))))
        return self

    def _demand_calibrated(self) -> None:
        if not hasattr(self, "level_"):
            raise NotFittedError("CrossSets has seen no rows yet. Call calibrate(outputs, folds) first.")

    def _checked(self, outputs: Sequence[Outputs], *, randomized: bool) -> list[Outputs]:
        """Outputs of each model; an error where these sets cannot judge them."""
        self._demand_calibrated()
        by_model: list[Outputs] = as_list([outputs] if isinstance(outputs, Outputs) else outputs, "outputs")
        for part in by_model:
            demand(part, "probs", who="CrossSets")
            check_same("number of classes", outputs=part.n_classes, calibration=self.n_classes_)
            check_same("length", **{"outputs of one model": part.n, "those of another": by_model[0].n})
        if len(by_model) != self.folds_.size:
            raise InputError(f"outputs must be a list with one entry per fold ({self.folds_.size}), got "
                             f"{len(by_model)}.")  # fmt: skip
        if self._rule.randomized and self.randomized_ != randomized:
            had, has = ("with", "without") if self.randomized_ else ("without", "with")
            raise InputError(f"{self._rule.name} was calibrated {had} rng and is now asked {has} it: the same "
                             "randomization must hold for all rows.")  # fmt: skip
        return by_model

    def _counts(
        self, by_model: list[Outputs], draws: np.random.Generator | None, groups: ArrayLike | None
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
        """Rows stranger than each label, rows at least as strange, both (m, C), and the group of each."""
        n, width = by_model[0].n, self._names.size
        group = self._group_of(n, groups)
        u, rule = self._draws(n, draws), self._rule
        above, at_least = (np.zeros((n, self.n_classes_), dtype=np.intp) for _ in range(2))
        for k, outputs in enumerate(by_model):
            for rows, probs in probability_blocks(outputs):
                scores = rule._of_all(probs, u[rows])
                for g, cells in _cells_by_group(group if len(group) == 1 else group[rows]):
                    calibration = self._cells.of_group(k * width + g)
                    above[rows][cells] += count_above(calibration, scores[cells])
                    at_least[rows][cells] += count_at_least(calibration, scores[cells])
        return above, at_least, group

    def _group_of(self, n: int, groups: ArrayLike | None) -> NDArray[Any]:
        """The number of the group of each label of each row, shape (1, 1), (1, C) or (m, 1); -1 where it is unseen."""
        if (groups is None) == (self.by is not None and not isinstance(self.by, str)):
            raise InputError("sets calibrated by an array of groups need groups=, the group of each row; others take "
                             "none.")  # fmt: skip
        if groups is None:
            return np.atleast_2d(np.arange(self._names.size))
        named = as_groups(groups, "groups", n)
        number = GroupedScores(self._names, np.zeros(1, dtype=np.intp), np.zeros(0)).find(named)
        check_seen(named, number, self.unseen)
        return number[:, None]


def _cells_by_group(group: NDArray[Any]) -> Iterator[tuple[int, Any]]:
    """Each group with an index of its cells in a block (m, C): all, one column, or some rows."""
    if group.shape == (1, 1):
        yield 0, slice(None)
    elif len(group) == 1:
        yield from ((g, (slice(None), g)) for g in range(group.size))
    else:
        yield from ((int(g), np.flatnonzero(group[:, 0] == g)) for g in np.unique(group[group >= 0]))
