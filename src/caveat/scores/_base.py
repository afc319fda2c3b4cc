"""The contract of a score. The checks and the walk over row blocks live here once; a subclass is its formula."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import worth_threads
from caveat._internal.checks import Rng, check_result
from caveat._internal.parallel import OneBlasThread, map_parts_in_threads
from caveat._internal.params import check_params
from caveat._internal.rounding import Rounding
from caveat._internal.streams import as_seed
from caveat.errors import InputError, NotFittedError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.scores._statistics import Gathered, Statistic, gather


class Score(ABC):
    """Maps outputs to one number per sample. The larger, the stranger.

    A subclass declares what it reads, learns from and comes from as class variables, turns the training statistics
    into attributes that end in ``_`` in ``_fit``, and gives its formula for one block of rows in ``_score``. Statistics
    that depend on parameters come from ``statistics``, those that need others first from ``_further``.

    Examples
    --------
    >>> class SmallNorm(Score):
    ...     name, needs = "small_norm", ("features",)
    ...     def _score(self, block):
    ...         return -np.linalg.norm(block.features, axis=1)
    >>> SmallNorm().score(Outputs(features=[[3.0, 4.0], [0.0, 1.0]]))
    array([-5., -1.])
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]  # fields of Outputs that score reads
    fits_on: ClassVar[tuple[str, ...]] = ()  # fields that fit reads; empty: nothing to learn
    learns: ClassVar[tuple[Statistic, ...]] = ()  # training statistics that fit reads
    in_threads: ClassVar[bool] = True  # blocks may be scored in parallel; not where another library does the work
    held_out: ClassVar[bool] = False  # learns from held-out inliers, where there are some, rather than training data
    walks_alone: ClassVar[str] = ""  # why fit reads rows beyond the shared walks, as a phrase
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {}  # parameter -> values that tune tries, where papers tune it

    def __post_init__(self) -> None:
        check_params(self)

    def fit(self, train: Outputs, *, rng: Rng = 0) -> Self:
        """Learn from training outputs, in at most two walks over their row blocks.

        Parameters
        ----------
        train
            Training outputs with the fields of ``fits_on``.
        rng
            Seed of the random steps, where the score has any: the rows that ``NNGuide`` draws, the frequencies of
            ``KernelPCAError``, the first directions of ``Mahalanobis``, the clusters of ``KNN(index="ivf")``, the
            ``random_state`` of a detector. A generator draws one seed for all of them.

        Returns
        -------
        Score
            The score itself, fitted.
        """
        self.can_fit(train)
        gathered = gather(train, self.statistics()).with_seed(as_seed(rng))
        return self.complete(train, gathered | gather(train, self.prepare(train, gathered)))

    def prepare(self, train: Outputs, gathered: Gathered) -> tuple[Statistic, ...]:
        """Statistics to gather in a second walk, which many scores can share.

        Parameters
        ----------
        train
            Training outputs.
        gathered
            Statistics of the first walk.

        Returns
        -------
        tuple of Statistic
            Empty where one walk is enough.
        """
        self.n_classes_ = train.n_classes
        self.n_features_ = None if train.features is None else int(train.features.shape[1])
        with OneBlasThread(), _quietly():
            return self._further(train, gathered)

    def complete(self, train: Outputs, gathered: Gathered) -> Self:
        """Learn from the statistics of both walks.

        Parameters
        ----------
        train
            Training outputs.
        gathered
            Statistics of both walks.
        """
        with OneBlasThread(), _quietly():  # the bits of products and decompositions can depend on the number
            self._fit(train, gathered)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous):
                # As a loaded copy has it: products of the same numbers in another layout may differ in the last digit.
                setattr(self, name, np.ascontiguousarray(value))
        self.fitted_ = True
        return self

    def grid_for(self, outputs: Outputs) -> Mapping[str, tuple[Any, ...]]:
        """Parameter -> values that ``tune`` tries where it is given none.

        Parameters
        ----------
        outputs
            Outputs to tune on: their width bounds a number of components, and their classes those that are looked at.

        Returns
        -------
        Mapping
            ``grid`` of the class, unless the values depend on the outputs. Empty where nothing is tuned.
        """
        return self.grid

    def without_class_scores(self) -> Score:
        """The same score, spared what it learns for ``class_scores`` alone; not fitted."""
        return self

    def all_rows(self) -> str:
        """What ``fit`` does with all training rows at once, as a phrase; empty if walks over row ranges suffice."""
        return ""

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        """Score of each sample, shape (n,). The larger, the stranger.

        Parameters
        ----------
        outputs
            Outputs of n samples, with the fields that ``needs`` names.

        Returns
        -------
        array of shape (n,)
            The scores.
        """
        self._can_score(outputs)
        return self._by_blocks(self._score, outputs)

    def rounded(self, outputs: Outputs) -> NDArray[np.float64]:
        """Score of each sample, shape (n,), rounded until equal inputs tie on every machine.

        What thresholds, p-values and drift alarms compare: calibrated on one machine, a guard is served on another.

        Parameters
        ----------
        outputs
            As for ``score``.

        Returns
        -------
        array of shape (n,)
            The scores, with 24 binary digits. Their order is that of ``score``.
        """
        return self.rounding(self.score(outputs))

    def class_scores(self, outputs: Outputs) -> NDArray[np.float64]:
        """Score of each sample as a member of each class, shape (n, C), if the score has class scores.

        Parameters
        ----------
        outputs
            Outputs of n samples, with the fields that ``needs`` names.

        Returns
        -------
        array of shape (n, C)
            The scores.
        """
        if type(self)._class_scores is Score._class_scores:
            raise InputError(f"{type(self).__name__} has no class scores: it judges a sample as a whole. "
                             "Use msp or another score whose class_scores is listed in the catalogue.")  # fmt: skip
        self._can_score(outputs)
        return self._by_blocks(self._class_scores, outputs)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted score to a folder of JSON and ``.npy`` files; ``scores.load(folder)`` reads it back.

        Parameters
        ----------
        folder
            Folder to write.
        """
        from caveat.scores._persistence import save

        save(self, folder)

    @property
    def least_rows(self) -> int:
        """How many training rows the score needs."""
        return 1

    @property
    def note(self) -> str:
        """What a reader must know about the fitted score, as a phrase: that it approximates, and how well. Or empty."""
        return ""

    @property
    def rounding(self) -> Rounding:
        """How ``rounded`` rounds this score."""
        return Rounding()

    def missing(self, *, train: Outputs | None, outputs: Outputs) -> str:
        """Why this score cannot be computed from these outputs, as a phrase; empty if it can.

        Parameters
        ----------
        train
            Training outputs, or None.
        outputs
            Outputs to score.

        Returns
        -------
        str
            A phrase such as ``"needs features"``, or empty.
        """
        if self.fits_on and train is None:
            return "needs training outputs"
        if train is not None:
            if train.n < self.least_rows:
                return f"needs at least k = {self.least_rows} training rows, got {train.n}"
            lacking = [field for field in self.fits_on if not train.has(field)]
            if lacking:
                return f"needs {' and '.join(lacking)} of the training outputs"
        lacking = [field for field in self.needs if not outputs.has(field)]
        return f"needs {' and '.join(lacking)}" if lacking else ""

    def _by_blocks(self, formula: Callable[[Outputs], NDArray[Any]], outputs: Outputs) -> NDArray[np.float64]:
        """The formula block by block, with room for one more number per class: most formulas make one."""
        extra = 8 * (outputs.n_classes or getattr(self, "n_classes_", None) or 0)

        def compute(block: Outputs) -> NDArray[np.float64]:
            with _quietly():
                return np.asarray(formula(block), dtype=np.float64)

        def blocks(at_once: int) -> Iterator[Outputs]:
            return outputs.blocks(self.needs, beside=extra, at_once=at_once)

        threads = self.in_threads and worth_threads(outputs.room(self.needs, beside=extra))
        parts = map_parts_in_threads(compute, blocks) if threads else [compute(block) for block in blocks(1)]
        return check_result(np.concatenate(parts), f"the score {self.name}")

    def statistics(self) -> tuple[Statistic, ...]:
        """Training statistics that ``_further`` and ``_fit`` read, where they depend on parameters."""
        return self.learns

    def _further(self, train: Outputs, gathered: Gathered) -> tuple[Statistic, ...]:
        """Training statistics that depend on others; what they depend on may be derived and kept here."""
        return ()

    def _fit(self, train: Outputs, gathered: Gathered) -> None:  # noqa: B027  (a hook, empty unless there is a need)
        """Derive learned attributes from the statistics of both walks; random steps start from ``gathered.seed``."""

    @abstractmethod
    def _score(self, block: Outputs) -> NDArray[Any]: ...

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        raise NotImplementedError  # never reached: class_scores asks first

    def can_fit(self, train: Outputs) -> None:
        """Raise InputError naming the first field of ``train`` that is missing.

        Parameters
        ----------
        train
            Training outputs.
        """
        demand(train, *self.fits_on, who=type(self).__name__, name="train", verb="learns from")

    def _can_score(self, outputs: Outputs) -> None:
        who = type(self).__name__
        if self.fits_on and not hasattr(self, "fitted_"):
            raise NotFittedError(f"{who} has not seen training data. Call fit(train) before score(...).")
        demand(outputs, *self.needs, who=who)
        if not self.fits_on:
            return
        if "features" in self.needs and self.n_features_ is not None:
            width = int(outputs.features.shape[1])
            if width != self.n_features_:
                raise InputError(f"features must have {self.n_features_} columns as in training, got {width}.")
        classes, reads_classes = outputs.n_classes, {"logits", "probs", "predictions"} & set(self.needs)
        if reads_classes and classes is not None and not outputs.has("probs") and self.n_classes_ is not None:
            classes = max(classes, self.n_classes_)  # of predictions alone, some classes may not occur
        if reads_classes and self.n_classes_ not in (None, classes):
            raise InputError(f"outputs must have {self.n_classes_} classes as in training, got {classes}.")


def _quietly() -> np.errstate:
    """Overflow is an error of ``check_result``, which says where; numpy's warnings say less."""
    return np.errstate(over="ignore", invalid="ignore")
