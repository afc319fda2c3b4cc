r"""Split conformal prediction sets: which labels are still possible.

$$ C(x) = \{ y : a(x, y) \le \hat q \}, \qquad \hat q = \text{the conformal quantile of } a(x_i, y_i) $$

Papadopoulos, Proedrou, Vovk and Gammerman, "Inductive Confidence Machines for Regression", ECML 2002; the nonconformity
scores a(x, y) with their papers are in ``caveat.conformal.nonconformity``. With ``by``, one quantile per group: Vovk,
Lindsay, Nouretdinov and Gammerman, "Mondrian Confidence Machine", 2003; clusters of labels in
``caveat.conformal.label_clusters``, ranks in ``label_ranks``, weights for shifted test data in ``weighted``.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_able, as_count, as_flag, as_labels, as_vector, check_known, check_same
from caveat._internal.classes import listed
from caveat._internal.streams import draws_for
from caveat.conformal._probabilities import ClassScores, probability_blocks
from caveat.conformal._ranked import label_ranks
from caveat.conformal.grouped import GroupedScores, as_groups
from caveat.conformal.label_clusters import LabelClusters
from caveat.conformal.label_ranks import LabelRanks, RankedScores
from caveat.conformal.nonconformity import LAC, NONCONFORMITY, Nonconformity, TopK
from caveat.conformal.p_values import check_seen
from caveat.conformal.quantile import Promise
from caveat.conformal.weighted import WeightedScores, as_test_weights, as_weights, effective_n, shift_promise
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results.sets import PredictionSets, stack_rows

__all__ = ["SplitSets"]

_NO_THRESHOLD = "SplitSets has no threshold yet. Call calibrate(outputs) before predict(...)."


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
        None: one threshold. ``"label"``: one per label. ``"label_rank"`` (or ``LabelRanks``): the same promise, and a
        label far down the ranking is left out, which makes long sets of aps shorter. ``"cluster"`` (or
        ``LabelClusters``): one per cluster of labels with alike scores, for many labels with few samples each; the
        promise holds within each cluster. An array: the group of each calibration row; ``predict`` then takes
        ``groups``. A callable: maps outputs to the group of each row.
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
    nonempty
        Whether the most probable label joins a set that would be empty. Sets only grow, so every promise stays; an
        empty set, which says that no label fits, can no longer be seen. P-values stay as they are.

    Examples
    --------
    >>> calibration = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], labels=[0, 0, 1, 0])
    >>> sets = SplitSets(alpha=0.4).calibrate(calibration).predict(Outputs(probs=[[0.95, 0.05], [0.5, 0.5]]))
    >>> sets.labels(0), sets.labels(1)
    (array([0]), array([], dtype=int64))
    """

    score: str | Nonconformity | ClassScores = "lac"
    alpha: float = 0.1
    by: ArrayLike | LabelRanks | LabelClusters | Callable[[Outputs], ArrayLike] | None = None
    source: ClassScores | None = None
    delta: float | None = None
    unseen: Literal["error", "all"] = "error"
    joint: bool = False
    nonempty: bool = False

    def __post_init__(self) -> None:
        as_flag(self.nonempty, "nonempty")
        Promise(self.alpha, self.delta, self.joint)
        check_known(self.unseen, ("error", "all"), "rule for unseen groups")
        if isinstance(self.score, str):
            check_known(self.score, NONCONFORMITY, "nonconformity score")
        elif not isinstance(self.score, Nonconformity):
            as_able(self.score, ("class_scores",), "a score that is neither a name nor a Nonconformity")
            if self.source is not None:
                raise InputError("give an OOD score as score or as source, not both.")
        if isinstance(self.by, str):
            check_known(self.by, ("label", "label_rank", "cluster"), "value of by")
        if self._by == "label_rank" and self.delta is not None:
            raise InputError("by='label_rank' promises coverage on average, and delta is not None. Take by='label'.")

    @property
    def nonconformity(self) -> Nonconformity:
        """The nonconformity score with its settings."""
        if isinstance(self.score, str):
            return NONCONFORMITY[self.score]()
        return self.score if isinstance(self.score, Nonconformity) else LAC()

    def calibrate(
        self,
        outputs: Outputs,
        rng: Rng | None = None,
        *,
        weights: ArrayLike | None = None,
        clustering: Outputs | Rng = 0,
    ) -> Self:
        """Set the threshold from held-out outputs with labels.

        Parameters
        ----------
        outputs
            Held-out outputs with labels.
        rng
            Randomizes aps, raps and saps; None: u = 1.
        weights
            Likelihood ratio of test to calibration distribution at each row, shape (n,), for test data that are drawn
            otherwise (``shift_weights``, ``label_shift_weights``); ``predict`` then takes those of the test rows.
        clustering
            With clusters of labels: other outputs to cluster on, or what draws a share of these rows for it. The rows
            drawn are kept as ``clustering_rows_``; they set no threshold.
        """
        demand(outputs, "labels", who="SplitSets.calibrate")
        draws = None if rng is None else draws_for(rng, "calibrate")
        scores, ranks, labels, self.n_classes_ = self._true_scores(outputs, draws)
        self.class_names_ = getattr(outputs, "class_names", None)
        rule, by = self.nonconformity.fine, self._by
        self.randomized_ = rng is not None and rule.randomized
        self._weighted: WeightedScores | None = None
        self._ranked: RankedScores | None = None
        self._column_group: NDArray[np.intp] | None = None
        if weights is not None:
            return self._calibrate_weighted(scores, weights)
        if by in ("label", "label_rank"):
            names = self._column_group = np.arange(self.n_classes_)
        if by == "cluster":
            scores, labels = self._cluster(outputs, scores, labels, clustering, draws)
            names, self._column_group = np.unique(self.clusters_, return_inverse=True)
        if self._column_group is not None:
            self.grouped_ = GroupedScores.of(scores, names[self._column_group[labels]], names=names)
        else:
            self.grouped_ = GroupedScores.of(scores, self._groups(outputs, None if callable(self.by) else self.by))
        if by == "label_rank":
            share = (self.by if isinstance(self.by, LabelRanks) else LabelRanks()).share
            self._ranked = RankedScores(scores, ranks, labels, self.n_classes_, self.alpha, share)
        return self._set_thresholds()

    def restore(self, scores: ArrayLike, n_classes: int) -> Self:
        """Set the threshold from kept nonconformity of calibration rows, ``grouped_.scores``, without groups.

        Parameters
        ----------
        scores
            Kept nonconformity, shape (n,).
        n_classes
            Number of classes C.
        """
        if self.by is not None:
            raise InputError("sets by group cannot be restored from scores alone. Calibrate them again.")
        self.n_classes_, self.randomized_, self.class_names_ = as_count(n_classes, "n_classes"), False, None
        self._weighted, self._ranked, self._column_group = None, None, None
        self.grouped_ = GroupedScores.of(as_vector(scores, "scores", allow_infinite=True))
        return self._set_thresholds()

    def at(self, alpha: float) -> Self:
        """The sets of the same calibration rows with another allowed error.

        A smaller alpha gives larger sets, except with ``by="label_rank"``, where alpha decides how far down the ranking
        a label may be. Each promise holds by itself, for an alpha that the rows did not choose.

        Parameters
        ----------
        alpha
            The allowed error.
        """
        if not hasattr(self, "grouped_"):
            raise NotFittedError(_NO_THRESHOLD)
        if self._weighted is not None:
            raise InputError("sets with weights have one alpha. Calibrate them again with the other.")
        other = copy.copy(self)
        other.alpha = Promise(alpha).alpha
        if self._ranked is not None:
            other._ranked = replace(self._ranked, alpha=other.alpha)
        return other._set_thresholds()

    def _set_thresholds(self) -> Self:
        rule, promise = self.nonconformity.fine, Promise(self.alpha, self.delta, self.joint)
        self._cuts = self.grouped_.thresholds(promise.among(self.grouped_).rank)
        if self._ranked is not None:
            self._cuts = self._ranked.thresholds()
        self.thresholds_ = self._cuts + rule.less
        if self.by is None:
            self.threshold_, self.calibration_ = float(self.thresholds_[0]), self.grouped_.scores + rule.less
        self.level_, too_few = promise.among(self.grouped_).kept_by(self.grouped_, by_group=self.by is not None)
        if too_few:
            warnings.warn(too_few, CaveatWarning, stacklevel=3)
        within = "Coverage holds within each cluster of labels, not within each label." if self._by == "cluster" else ""
        self.caveat_ = " ".join(filter(None, (too_few, within, promise.scope(self.grouped_.names.size))))
        return self

    def predict(
        self,
        outputs: Outputs,
        rng: Rng | None = None,
        *,
        groups: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        sparse: bool = False,
    ) -> PredictionSets:
        """The labels whose nonconformity is at or below the threshold.

        Parameters
        ----------
        outputs
            Outputs of n samples.
        rng
            Randomizes aps, raps and saps, where ``calibrate`` did.
        groups
            Group of each row, where ``calibrate`` had an array of groups.
        weights
            Likelihood ratios of these rows, where ``calibrate`` had weights: shape (n,), or (n, C) where they depend on
            the label.
        sparse
            Keep the sets as a CSR matrix, for many classes.

        Returns
        -------
        PredictionSets
            ``member`` (n, C) says which labels are in each set.
        """
        draws = None if rng is None else draws_for(rng, "predict")
        u, number, own = self._ready(outputs, draws, groups, weights)
        rule, parts = self.nonconformity.fine, []
        per_row = None if number is None else np.append(self._cuts, np.inf)[number]  # -1, unseen: every label
        if own is not None and self._weighted is not None:
            per_row = self._weighted.thresholds(own, self.alpha)
        for rows, probs in probability_blocks(outputs, self._source):
            if self._ranked is not None:
                ranks = TopK()._of_all(probs, u[rows]).astype(np.intp)
                member = rule._of_all(probs, u[rows]) <= self._cuts[np.arange(self.n_classes_), ranks - 1]
            elif self._column_group is not None:
                member = rule._of_all(probs, u[rows]) <= self._cuts[self._column_group]
            elif per_row is None:
                member = rule._within(probs, u[rows], np.full(probs.shape[0], self._cuts[0]))
            elif per_row.shape[1:] in ((), (1,)):
                member = rule._within(probs, u[rows], per_row[rows].ravel())
            else:
                member = rule._of_all(probs, u[rows]) <= per_row[rows]
            if self.nonempty:
                empty = np.flatnonzero(~member.any(axis=1))
                member[empty, np.argmax(probs[empty], axis=1)] = True
            parts.append(member)
        return PredictionSets(
            stack_rows(parts, sparse=sparse), alpha=self.alpha, level=self.level_, delta=self.delta,
            caveat=self.caveat_, class_names=getattr(outputs, "class_names", None) or self.class_names_,
        )  # fmt: skip

    def p_values(
        self,
        outputs: Outputs,
        rng: Rng | None = None,
        *,
        groups: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        smoothed: bool | None = None,
    ) -> NDArray[np.float64]:
        """P-value of every label of every sample, shape (n, C).

        Deterministic p-values (no ``rng``, or ``smoothed=False``) give the set back: label y is in it if p > alpha.
        ``rng`` draws u where calibration did, and tau for smoothing.

        Parameters
        ----------
        outputs, rng, groups, weights
            As for ``predict``; ``rng`` also draws tau for smoothing.
        smoothed
            Whether to smooth; None: where there is an ``rng``.

        Returns
        -------
        array of shape (n, C)
            The p-values.
        """
        draws = None if rng is None else draws_for(rng, "predict")
        u, number, own = self._ready(outputs, draws, groups, weights, smoothing=True)
        tau = draws.random(outputs.n) if draws is not None and smoothed in (None, True) else None
        if smoothed and draws is None:
            raise InputError("smoothed p-values need rng, a numpy.random.Generator or a seed, which is None.")
        rule, p = self.nonconformity.fine, np.empty((outputs.n, self.n_classes_))
        for rows, probs in probability_blocks(outputs, self._source):
            scores, here = rule._of_all(probs, u[rows]), None if tau is None else tau[rows]
            if self._ranked is not None:
                p[rows] = self._ranked.p_values(scores, TopK()._of_all(probs, u[rows]).astype(np.intp), here)
            elif own is not None and self._weighted is not None:
                p[rows] = self._weighted.p_values(scores, own[rows], here)
            elif self._column_group is not None:
                p[rows] = self.grouped_.column_p_values(scores, self._column_group, here)
            else:
                p[rows] = self.grouped_.p_values(scores, None if number is None else number[rows], here)
        return p

    # -- the parts ----------------------------------------------------------------------------------------------------

    @property
    def _source(self) -> ClassScores | None:
        if isinstance(self.score, (str, Nonconformity)):
            return self.source
        return self.score

    @property
    def _by(self) -> str | None:
        """The name of the scheme: label, label_rank, cluster; None where rows have groups, or there are none."""
        named = {LabelClusters: "cluster", LabelRanks: "label_rank"}.get(type(self.by))
        return self.by if isinstance(self.by, str) else named

    def _true_scores(
        self, outputs: Outputs, draws: np.random.Generator | None
    ) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp], int]:
        """Nonconformity of the true label of each row, its rank where that is needed, the labels, how many classes."""
        u, rule, classes = self._randomization(outputs.n, draws), self.nonconformity.fine, 0
        scores, labels, ranks = np.empty(outputs.n), np.empty(outputs.n, dtype=np.intp), np.zeros(outputs.n, np.intp)
        for rows, probs in probability_blocks(outputs, self._source):
            classes = probs.shape[1]
            labels[rows] = as_labels(outputs.labels[rows], "labels", n_classes=classes)
            scores[rows] = rule._of_labels(probs, labels[rows], u[rows])
            if self._by == "label_rank":
                ranks[rows] = label_ranks(probs, labels[rows])
        return scores, ranks, labels, classes

    def _cluster(
        self,
        outputs: Outputs,
        scores: NDArray[np.float64],
        labels: NDArray[np.intp],
        clustering: Outputs | Rng,
        draws: np.random.Generator | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Cluster the labels on other outputs, or on a share of these; the scores and labels that calibrate."""
        rule, here = self.by if isinstance(self.by, LabelClusters) else LabelClusters(), clustering
        rng = draws_for(0 if isinstance(here, Outputs) else here, "cluster")
        if isinstance(here, Outputs):
            demand(here, "labels", who="SplitSets.calibrate(clustering=)")
            self.clustering_rows_ = np.zeros(0, dtype=np.intp)
            own_scores, _, own_labels, classes = self._true_scores(here, draws)
            check_same("number of classes", clustering=classes, outputs=self.n_classes_)
        else:
            if outputs.n < 2:
                raise InputError("by='cluster' splits the calibration rows and needs at least 2 of them, got 1.")
            self.clustering_rows_ = rule.rows(outputs.n, self.n_classes_, rng)
            own_scores, own_labels = scores[self.clustering_rows_], labels[self.clustering_rows_]
            scores, labels = np.delete(scores, self.clustering_rows_), np.delete(labels, self.clustering_rows_)
        self.clusters_ = rule.clusters_of(own_scores, own_labels, self.n_classes_, alpha=self.alpha, rng=rng)
        return scores, labels

    def _calibrate_weighted(self, scores: NDArray[np.float64], weights: ArrayLike) -> Self:
        if self.by is not None or self.delta is not None:
            raise InputError(
                "weights need by=None and delta=None: weighted sets promise coverage on average, over all."
            )
        mass = as_weights(weights, "weights", outputs=scores)
        self.promise_, self._weighted = shift_promise(mass, self.alpha), WeightedScores.of(scores, mass)
        self.grouped_, self.effective_n_ = GroupedScores.of(scores), effective_n(mass)
        self.level_ = self.promise_.bound if self.promise_.holds else 0.0
        self.caveat_ = f"The weights leave an effective n of {self.effective_n_:.1f} of {mass.size} rows."
        if not self.promise_.holds:
            self.caveat_ = str(self.promise_)
            warnings.warn(self.caveat_, CaveatWarning, stacklevel=3)
        return self

    def _randomization(self, n: int, rng: np.random.Generator | None) -> NDArray[np.float64]:
        return rng.random(n) if rng is not None and self.nonconformity.randomized else np.ones(n)

    def _groups(self, outputs: Outputs, groups: Any) -> NDArray[Any] | None:
        """The group of each row: as given, or from the callable; None where there are no groups of rows."""
        if self.by is None or self._by is not None:
            return None
        if callable(self.by):
            groups = self.by(outputs)
        if groups is None:
            raise InputError("sets calibrated by an array of groups need groups=, the group of each row.")
        return as_groups(groups, "groups", outputs.n)

    def _ready(
        self,
        outputs: Outputs,
        rng: np.random.Generator | None,
        groups: ArrayLike | None,
        weights: ArrayLike | None,
        *,
        smoothing: bool = False,
    ) -> tuple[NDArray[np.float64], NDArray[np.intp] | None, NDArray[np.float64] | None]:
        """Random number, group number and weight of each row; an error where these sets cannot judge the rows."""
        if not hasattr(self, "grouped_"):
            raise NotFittedError(_NO_THRESHOLD)
        demand(outputs, who="SplitSets")
        if self._source is None and outputs.has("probs") and outputs.n_classes != self.n_classes_:
            raise InputError(f"outputs must have {self.n_classes_} classes as in calibration, got {outputs.n_classes}.")
        names = getattr(outputs, "class_names", None)
        if names is not None and self.class_names_ not in (None, names):
            raise InputError(f"outputs must have the classes {listed(self.class_names_)} in this order as in "
                             f"calibration, got {listed(names)}. Use outputs.with_class_names(names).")  # fmt: skip
        draws = rng if self.randomized_ or not smoothing else None  # without u, rng can only mean tau
        if self.nonconformity.randomized and self.randomized_ != (draws is not None):
            had, has = ("with", "without") if self.randomized_ else ("without", "with")
            raise InputError(
                f"{self.nonconformity.name} was calibrated {had} rng and is now asked {has} it: the same randomization "
                "must hold at calibration and at test, or the sets do not cover."
            )
        if (weights is None) != (self._weighted is None):
            had, has = ("without", "with") if self._weighted is None else ("with", "without")
            raise InputError(f"sets were calibrated {had} weights and are now asked {has} them: give both, or neither.")
        if groups is not None and (self.by is None or self._by is not None or callable(self.by)):
            how = "by a callable" if callable(self.by) else f"by {self._by}" if self._by else "without groups"
            raise InputError(f"sets were calibrated {how} and are now asked with groups=, which they cannot use.")
        u, named = self._randomization(outputs.n, draws), self._groups(outputs, groups)
        if weights is not None:
            return u, None, as_test_weights(weights, "weights", (outputs.n, self.n_classes_))
        if named is None:
            return u, None, None
        number = self.grouped_.find(named)
        check_seen(named, number, self.unseen)
        return u, number, None
