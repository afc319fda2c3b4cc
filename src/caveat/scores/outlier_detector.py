"""Any outlier detector with ``fit(X)`` and ``decision_function(X)`` as a score: PyOD, scikit-learn, your own.

The thirteen detectors of the ADBench table go by name: Han, Hu, Huang, Jiang and Zhao, "ADBench: Anomaly Detection
Benchmark", NeurIPS 2022, arXiv:2206.09426. Ten come from PyOD (the extra ``outlier``). COF and SOD are built in,
because PyOD's take minutes where seconds do, and DAGMM, because PyOD has none.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.arrays import widened
from caveat._internal.checks import as_able, as_kind, check_finite, check_known
from caveat._internal.params import check_params, choice
from caveat.errors import CaveatWarning, InputError, MissingExtraError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import Gathered
from caveat.scores.cof import COF
from caveat.scores.dagmm import DAGMM
from caveat.scores.sod import SOD

__all__ = ["DetectorEntry", "OutlierDetector", "detector", "detectors"]

_LARGEST = float(np.finfo(np.float64).max)
_PACKAGE = {"outlier": "pyod", "torch": "torch"}
_THEIR_ERRORS = (ValueError, IndexError, TypeError, ArithmeticError, RuntimeError, np.linalg.LinAlgError)


@final
@dataclass(frozen=True)
class DetectorEntry:
    """One detector that goes by name.

    Parameters
    ----------
    name
        Name for ``detector``.
    module, class_name
        Where the class is.
    paper
        Authors and year.
    extras
        Extras of Caveat that it needs.
    whole_batch
        Whether the score of a row depends on the other rows of the batch.

    Examples
    --------
    >>> detectors()[0].name, detectors()[0].paper
    ('iforest', 'Liu et al. 2008')
    """

    name: str
    module: str
    class_name: str
    paper: str
    extras: tuple[str, ...] = ("outlier",)
    whole_batch: bool = False


_DETECTORS = (
    DetectorEntry("iforest", "pyod.models.iforest", "IForest", "Liu et al. 2008"),
    DetectorEntry("ocsvm", "pyod.models.ocsvm", "OCSVM", "Schoelkopf et al. 1999"),
    DetectorEntry("cblof", "pyod.models.cblof", "CBLOF", "He et al. 2003"),
    DetectorEntry("cof", "caveat.scores.cof", "COF", "Tang et al. 2002", extras=(), whole_batch=True),
    DetectorEntry("copod", "pyod.models.copod", "COPOD", "Li et al. 2020", whole_batch=True),
    DetectorEntry("ecod", "pyod.models.ecod", "ECOD", "Li et al. 2022", whole_batch=True),
    DetectorEntry("hbos", "pyod.models.hbos", "HBOS", "Goldstein & Dengel 2012"),
    DetectorEntry("knn", "pyod.models.knn", "KNN", "Ramaswamy et al. 2000"),
    DetectorEntry("lof", "pyod.models.lof", "LOF", "Breunig et al. 2000"),
    DetectorEntry("pca", "pyod.models.pca", "PCA", "Shyu et al. 2003"),
    DetectorEntry("sod", "caveat.scores.sod", "SOD", "Kriegel et al. 2009", extras=(), whole_batch=True),
    DetectorEntry("deep_svdd", "pyod.models.deep_svdd", "DeepSVDD", "Ruff et al. 2018", extras=("outlier", "torch")),
    DetectorEntry("dagmm", "caveat.scores.dagmm", "DAGMM", "Zong et al. 2018", extras=()),
    DetectorEntry("sos", "pyod.models.sos", "SOS", "Janssens et al. 2012", whole_batch=True),
)


def detectors() -> tuple[DetectorEntry, ...]:
    """Every detector that ``detector`` can build: the ADBench table, and SOS.

    Returns
    -------
    tuple of DetectorEntry
        One entry per detector.

    Examples
    --------
    >>> [entry.name for entry in detectors() if entry.whole_batch]
    ['cof', 'copod', 'ecod', 'sod', 'sos']
    """
    return _DETECTORS


def detector(name: str, **params: Any) -> OutlierDetector:
    """A detector of the ADBench table by name, with parameters of its own.

    Parameters
    ----------
    name
        Name in ``detectors()``, such as ``"iforest"``.
    **params
        Arguments of the detector's own class.

    Returns
    -------
    OutlierDetector
        A score, not fitted.

    Examples
    --------
    >>> detector("iforest", n_estimators=200)
    OutlierDetector(estimator='iforest', params={'n_estimators': 200}, larger='auto')
    """
    return OutlierDetector(name, params)


@final
@dataclass(eq=False)
class OutlierDetector(Score):
    """Score of an outlier detector on the features. The larger, the stranger.

    Fitting copies the estimator and gives it the whole feature matrix; memory and time are the estimator's own.
    COF, SOD and PyOD's COPOD, ECOD and SOS judge a row by the rows it is scored with. All rows of a call are given to
    them at once, and two sets are comparable only if they were scored in one call, as ADBench does:
    ``score_together``. The same holds for a conformal p-value from one of them. A second call of ``score`` with other
    rows warns. All other detectors are scored in row blocks.

    Scores that overflow to infinity become the largest float, with a warning. A fitted estimator of another library
    cannot be saved without pickle, so ``save`` is an error.

    Parameters
    ----------
    estimator
        A name of ``detectors()``, or an object with ``fit(X)`` and ``decision_function(X)``.
    params
        Parameters of a detector given by name.
    larger
        What a larger ``decision_function`` means. ``"auto"`` knows PyOD ("stranger") and scikit-learn ("normal");
        anything else must say it.

    Examples
    --------
    >>> from sklearn.svm import OneClassSVM
    >>> train = Outputs(features=np.random.default_rng(0).normal(size=(100, 2)))
    >>> score = OutlierDetector(OneClassSVM()).fit(train)
    >>> near, far = score.score(Outputs(features=[[0.0, 0.0], [9.0, 9.0]]))
    >>> bool(far > near)
    True
    """

    estimator: Any
    params: Mapping[str, Any] | None = None
    larger: Literal["auto", "stranger", "normal"] = choice("auto", ("auto", "stranger", "normal"), "meaning of larger")

    name: ClassVar[str] = "detector"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    in_threads: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_params(self)
        if self.params is not None:
            as_kind(self.params, Mapping, "params")
        if isinstance(self.estimator, str):
            check_known(self.estimator, [entry.name for entry in _DETECTORS], "detector")
            return
        if self.params:
            raise InputError("params belong to a detector given by name; set those of an estimator on it.")
        as_able(self.estimator, ("fit", "decision_function"), "estimator",
                hint="scikit-learn's LocalOutlierFactor has them with novelty=True.")  # fmt: skip

    @property
    def whole_batch(self) -> bool:
        """Whether a row's score changes with the rows it is scored with."""
        entries = [entry for entry in _DETECTORS if entry.whole_batch]
        if isinstance(self.estimator, str):
            return self.estimator in {entry.name for entry in entries}
        return any(_is(type(self.estimator), entry) for entry in entries)

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        """Score of each sample, shape (n,). The larger, the stranger.

        Parameters
        ----------
        outputs
            Outputs of n samples, with features.

        Returns
        -------
        array of shape (n,)
            The scores.
        """
        if not self.whole_batch:
            return super().score(outputs)
        self._can_score(outputs)
        batch = zlib.crc32(np.ascontiguousarray(outputs.features).data)
        if batch != getattr(self, "batch_", batch):
            warnings.warn(f"{self._label} judges a row by the rows it is scored with, so that scores of separate calls "
                          "cannot be compared. Score all sets in one call: score_together(inlier, outlier).",
                          CaveatWarning, stacklevel=2)  # fmt: skip
        self.batch_ = batch
        return self._score(outputs)

    def score_together(self, *outputs: Outputs) -> tuple[NDArray[np.float64], ...]:
        """Scores of several sets as one batch, as ADBench scores inliers and outliers; one array for each set.

        Parameters
        ----------
        *outputs
            Outputs with features.

        Returns
        -------
        tuple of arrays
            One array of scores for each set.

        Examples
        --------
        >>> from caveat.scores.dagmm import DAGMM
        >>> inlier, outlier = Outputs(features=np.eye(3)), Outputs(features=[[9.0, 9.0, 9.0]])
        >>> score = OutlierDetector(DAGMM(epochs=1)).fit(inlier)
        >>> [part.shape for part in score.score_together(inlier, outlier)]
        [(3,), (1,)]
        """
        for part in outputs:
            self._can_score(part)
        joined = Outputs(features=np.concatenate([part.features for part in outputs]), check=False)
        values = self._score(joined) if self.whole_batch else super().score(joined)
        return tuple(np.split(values, np.cumsum([part.n for part in outputs])[:-1]))

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not possible: the fitted estimator belongs to another library.

        Parameters
        ----------
        *args, **kwargs
            Not used.
        """
        raise InputError(f"a fitted {self._label} cannot be saved without pickle, which Caveat does not use. Keep the "
                         "training outputs and fit it again, or choose a score of the catalogue.")  # fmt: skip

    def all_rows(self) -> str:
        return "hands all training rows to another library"

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        seed = gathered.seed
        estimator = self._build(int(train.features.shape[1]), seed)
        self.sign_ = self._direction(estimator)
        try:
            if isinstance(estimator, DAGMM):
                estimator.fit(widened(train.features), rng=seed)
            else:
                estimator.fit(widened(train.features))
        except _THEIR_ERRORS as error:
            raise InputError(f"{self._label} could not be fitted on {train.n} rows: {_phrase(error)}.") from error
        if np.isinf(getattr(estimator, "decision_scores_", 0.0)).all():  # what PyOD says of its own training rows
            raise InputError(f"every score of {self._label} is infinite, as with PyOD's PCA when a component has no "
                             "variance. Drop constant columns, or keep fewer components.")  # fmt: skip
        self.estimator_ = estimator
        vars(self).pop("batch_", None)

    def _score(self, block: Outputs) -> NDArray[np.float64]:
        try:
            values = self.estimator_.decision_function(widened(block.features))
        except _THEIR_ERRORS as error:
            raise InputError(f"{self._label} could not score {block.n} rows: {_phrase(error)}.") from error
        return _finite(self.sign_ * np.asarray(values, dtype=np.float64).ravel(), self._label)

    @property
    def _label(self) -> str:
        return self.estimator if isinstance(self.estimator, str) else type(self.estimator).__name__

    def _build(self, width: int, seed: int) -> Any:
        """A fresh estimator; the one that was given stays as it is."""
        if not isinstance(self.estimator, str):
            return copy.deepcopy(self.estimator)
        kind = _load(next(entry for entry in _DETECTORS if entry.name == self.estimator))
        accepted = inspect.signature(kind).parameters
        settable = accepted.keys() - ({"random_state"} if kind is DAGMM else set())  # its fit takes the seed
        own = {"random_state": seed, "n_features": width, "verbose": 0}
        params = {key: value for key, value in own.items() if key in settable} | dict(self.params or {})
        for key in params:
            check_known(key, accepted, f"parameter of detector '{self.estimator}'")
        try:
            return kind(**params)
        except _THEIR_ERRORS as error:
            raise InputError(f"{self._label} could not be built: {_phrase(error)}.") from error

    def _direction(self, estimator: Any) -> float:
        """1 where a larger decision_function is stranger, -1 where it is more normal."""
        if self.larger != "auto":
            return 1.0 if self.larger == "stranger" else -1.0
        from sklearn.base import OutlierMixin

        pyod = sys.modules.get("pyod.models.base")  # a PyOD estimator cannot exist unless this is loaded
        if isinstance(estimator, (COF, DAGMM, SOD)) or (pyod is not None and isinstance(estimator, pyod.BaseDetector)):
            return 1.0
        if isinstance(estimator, OutlierMixin):
            return -1.0
        raise InputError(f"larger must be 'stranger' or 'normal' for {self._label}, which is neither from PyOD nor an "
                         "outlier detector of scikit-learn.")  # fmt: skip


def _is(kind: type, entry: DetectorEntry) -> bool:
    modules = (entry.module, f"pyod.models.{entry.name}")  # PyOD has its own COF and SOD
    return any(base.__module__ in modules and base.__name__ == entry.class_name for base in kind.__mro__)


def _load(entry: DetectorEntry) -> Any:
    for extra in entry.extras:
        if importlib.util.find_spec(_PACKAGE[extra]) is None:
            raise MissingExtraError(f"detector '{entry.name}'", extra=extra)
    return getattr(importlib.import_module(entry.module), entry.class_name)


def _phrase(error: Exception) -> str:
    return str(error).strip().rstrip(".")


def _finite(values: NDArray[np.float64], label: str) -> NDArray[np.float64]:
    """Scores without NaN and infinity; the order stays."""
    infinite = np.isinf(values)
    if infinite.any():
        count = f"{infinite.sum()} infinite scores of {values.size}"
        warnings.warn(f"{label} gave {count}; they count as the largest float.", CaveatWarning, stacklevel=4)
        values = np.clip(values, -_LARGEST, _LARGEST)
    check_finite(values, f"score of {label}")
    return values
