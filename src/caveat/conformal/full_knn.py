r"""Full (transductive) conformal prediction with nearest neighbors: no calibration split, every example counts.

For each tentative label y of a test object the conformity of all examples of the bag is compared with its own:

$$ p^y = \frac{\#\{i : \alpha_i^y < \alpha^y\} + \tau\,\#\{i : \alpha_i^y = \alpha^y\}}{n + 1} $$

counting the test example itself among the ties. Conformity (larger = more typical) of an example with label y:

- ``ratio``  sum of its K smallest distances to other labels over sum of its K smallest distances to the own label
- ``cp``     share of the own label among its K nearest
- ``sp``     the largest share of a label among its K nearest, negative unless that label is the own

Vovk, Nouretdinov, Fedorova, Petej and Gammerman, "Criteria of Efficiency for Conformal Prediction", COPA 2016, eqs.
(2), (42) and section 7. The neighbor lists of the training bag are computed once; a test object changes few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import (
    Rng,
    as_able,
    as_count,
    as_labels,
    as_matrix,
    as_rng,
    check_known,
    exact_level,
    same_length,
)
from caveat._internal.params import check_params, choice, count
from caveat.conformal._bag import Bag, Changes, Euclidean, Metric
from caveat.errors import InputError, NotFittedError
from caveat.results import PredictionSets

__all__ = ["FullKNN"]

Measure = Literal["ratio", "cp", "sp"]

_MEASURES: tuple[Measure, ...] = ("ratio", "cp", "sp")
_TEST_BYTES = 8 * 2**20  # of distances from a block of test objects to all training objects


@final
@dataclass(eq=False)
class FullKNN:
    """Transductive conformal classifier on nearest neighbors.

    P(p <= t) = t for the smoothed p-value of the true label, if training and test examples are exchangeable. Ties in
    distance go to the own label first, then by label number; equally frequent labels count as the own where it is one
    of them. Both rules look at the bag only, not at which example is the test example, so the promise holds. It holds
    for every metric: each of two objects is compared at its own distance from the other.

    Parameters
    ----------
    measure
        ``"ratio"``, ``"cp"`` or ``"sp"``.
    k
        Number of neighbors.
    metric
        ``"euclidean"``, or an object with ``prepare`` and ``distances``, as ``Euclidean`` has them. To the last bit, a
        distance must depend on its two objects only.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.5]]), [0, 0, 0, 1, 1, 1]
    >>> FullKNN("ratio", k=1).fit(x, y).p_values([[1.5], [5.0]]).round(2)
    array([[0.86, 0.14],
           [0.14, 0.14]])
    """

    measure: Literal["ratio", "cp", "sp"] = choice("ratio", _MEASURES, "conformity measure")
    k: int = count(1)
    metric: Literal["euclidean"] | Metric = "euclidean"

    def __post_init__(self) -> None:
        check_params(self)
        if isinstance(self.metric, str):
            check_known(self.metric, ("euclidean",), "metric")
        else:
            as_able(self.metric, ("prepare", "distances"), "metric")

    def fit(self, x: ArrayLike, y: ArrayLike, *, most: int | None = None) -> Self:
        """Compute the neighbor lists of the training bag.

        Parameters
        ----------
        x
            Training objects, shape (n, d).
        y
            Their labels, shape (n,).
        most
            The largest k that ``path`` will be asked for; None: ``self.k``.
        """
        rows, labels = as_matrix(x, "x"), as_labels(y, "y")
        most = self.k if most is None else max(self.k, as_count(most, "most"))
        same_length(x=rows, y=labels)
        counts = np.bincount(labels)
        if counts.size < 2:
            raise InputError("y must hold at least two classes, got one.")
        if (few := counts <= most).any():
            c = int(np.argmax(few))
            raise InputError(f"every class must have more than k = {most} objects, but class {c} has {counts[c]}.")
        self._space: Metric = Euclidean() if isinstance(self.metric, str) else self.metric
        self._state = self._space.prepare(rows)
        self.bag_ = Bag(self._state, labels, counts.size, self._space, most)
        self.n_features_ = rows.shape[1]
        return self

    def p_values(
        self, x: ArrayLike, rng: Rng | None = None, *, by: Literal["label"] | None = None
    ) -> NDArray[np.float64]:
        """P-value of every label of every test object.

        Parameters
        ----------
        x
            Test objects, shape (m, d).
        rng
            Smooths the p-values; None: no smoothing.
        by
            ``"label"``: label-conditional p-values (eq. 42).

        Returns
        -------
        array of shape (m, C)
            The p-values.
        """
        return next(self.path(x, [self.k], measures=[self.measure], rng=rng, by=by))[2]

    def predict(
        self, x: ArrayLike, alpha: float = 0.1, rng: Rng | None = None, *, by: Literal["label"] | None = None
    ) -> PredictionSets:
        """The labels whose p-value exceeds alpha.

        Parameters
        ----------
        x
            Test objects, shape (m, d).
        alpha
            Allowed error.
        rng, by
            As for ``p_values``.

        Returns
        -------
        PredictionSets
            ``member`` (m, C) says which labels are in each set.
        """
        alpha = float(exact_level(alpha, "alpha"))  # p-values are fractions: 1/10 must not exceed 1 - 0.9
        return PredictionSets(self.p_values(x, rng, by=by) > alpha, alpha=alpha, level=1 - alpha)

    def path(
        self,
        x: ArrayLike,
        ks: Iterable[int],
        *,
        measures: Iterable[Measure] = _MEASURES,
        rng: Rng | None = None,
        by: Literal["label"] | None = None,
    ) -> Iterator[tuple[Measure, int, NDArray[np.float64]]]:
        """P-values of several measures and numbers of neighbors from one pass over the distances.

        Parameters
        ----------
        x
            Test objects, shape (m, d).
        ks
            Numbers of neighbors.
        measures
            Conformity measures.
        rng, by
            As for ``p_values``.

        Yields
        ------
        tuple
            Measure, k and p-values (m, C). The same tau serves them all.
        """
        rng = None if rng is None else as_rng(rng)
        if not hasattr(self, "bag_"):
            raise NotFittedError("FullKNN has no neighbor lists yet. Call fit(x, y) before p_values(...).")
        rows = as_matrix(x, "x", width=self.n_features_)
        if by is not None:
            check_known(by, ("label",), "value of by")
        sizes = [as_count(k, "k", most=self.bag_.k) for k in ks]  # an iterator would be empty for the second measure
        wanted = [(check_known(m, _MEASURES, "conformity measure"), k) for m in measures for k in sizes]
        tau = np.asarray(np.ones(rows.shape[0]) if rng is None else rng.random(rows.shape[0]))
        p_values = {key: np.empty((rows.shape[0], self.bag_.classes)) for key in wanted}
        state = self._space.prepare(rows)
        for block in row_blocks(rows.shape[0], row_bytes=8 * self.bag_.labels.size, block_bytes=_TEST_BYTES):
            test, train = tuple(part[block] for part in state), self._state
            near = self.bag_.neighbors(self._space.distances(test, train), self._space.distances(train, test).T)
            for measure, k in wanted:
                if measure == "ratio":
                    changes = self.bag_.ratio_changes(near, k)
                else:
                    changes = self.bag_.count_changes(near, k, signed=measure == "sp")
                p_values[measure, k][block] = self._compare(changes, tau[block], by_label=by == "label")
        for (measure, k), p in p_values.items():
            yield measure, k, p  # type: ignore[misc]

    def _compare(self, changes: Changes, tau: NDArray[np.float64], *, by_label: bool) -> NDArray[np.float64]:
        """Count the examples below and level with the test example: the bag as it was, then what the test changes."""
        labels, classes, own = self.bag_.labels, self.bag_.classes, changes.own
        below, level = np.empty(own.shape), np.empty(own.shape)
        every = np.sort(changes.base)
        for c in range(classes):
            base = np.sort(changes.base[labels == c]) if by_label else every
            below[:, c] = np.searchsorted(base, own[:, c], side="left")
            level[:, c] = np.searchsorted(base, own[:, c], side="right")
        level -= below
        if changes.test.size:
            starts = np.flatnonzero(np.diff(changes.test, prepend=-1))
            mine, base = own[changes.test], changes.base[changes.train, None]
            counted: Any = labels[changes.train, None] == np.arange(classes) if by_label else np.True_
            for total, compare in ((below, np.less), (level, np.equal)):
                gain = (compare(changes.new, mine) & counted).astype(np.int8) - (compare(base, mine) & counted)
                total[changes.test[starts]] += np.add.reduceat(gain, starts, axis=0, dtype=np.int64)
        size = np.bincount(labels, minlength=classes) if by_label else labels.size
        return np.asarray((below + tau[:, None] * (level + 1)) / (size + 1))
