"""What an evaluation measures: typed, frozen records, one kind of fact each.

``measure`` makes them, a study stores them, ranking, decision and report read them and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from caveat.results import Estimate, proportion_interval

__all__ = [
    "RECORDS",
    "REGIMES",
    "Answers",
    "Block",
    "Certificate",
    "ClassFacts",
    "Collapse",
    "Curve",
    "Data",
    "Detection",
    "EmptySets",
    "File",
    "Histogram",
    "Left",
    "Method",
    "ModelFacts",
    "Note",
    "Proximity",
    "Record",
    "Run",
    "Scores",
    "Selective",
    "SetFacts",
    "Tuning",
    "long_rows",
]

Floats = NDArray[np.float64]
Scalar = str | int | float | bool
Role = Literal["train", "tuning", "calibration", "inlier", "outlier", "confirm"]
REGIMES = ("near", "mid", "far")


@final
@dataclass(frozen=True)
class Method:
    """What is measured: a score with its parameters and projection.

    >>> print(Method("knn", (("k", 10),), "global"))
    knn(k=10) global
    """

    score: str
    params: tuple[tuple[str, Scalar], ...] = ()
    projection: str = "none"

    @classmethod
    def of(cls, score: str, params: Mapping[str, Scalar] | None = None, projection: str = "none") -> Method:
        return cls(score, tuple((params or {}).items()), projection or "none")

    def __str__(self) -> str:
        values = ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
                           for key, value in self.params)  # fmt: skip
        name = f"{self.score}({values})" if values else self.score
        return name if self.projection == "none" else f"{name} {self.projection}"


@final
@dataclass(frozen=True, order=True)
class Block:
    """On what: one model and seed, and the outlier set with its regime where there is one."""

    model: str
    seed: int = 0
    outlier: str = ""
    regime: str = ""


@final
@dataclass(frozen=True)
class Data:
    """One data set in its role."""

    block: Block
    role: Role
    n: int
    n_classes: int
    fields: str


@final
@dataclass(frozen=True)
class ModelFacts:
    """The model on the inliers: how often it is right, and how far its probabilities can be trusted."""

    block: Block
    accuracy: Estimate | None = None
    ece: Estimate | None = None
    brier: Estimate | None = None
    nll: Estimate | None = None


@final
@dataclass(frozen=True, eq=False)
class SetFacts:
    """Prediction sets by one method. On an outlier set nothing is promised, and only the sizes are there."""

    block: Block
    set_method: str
    alpha: float
    mean_size: float
    sizes: Floats  # share of samples with a set of size 0, 1, ..., C
    n: int
    promised: float = np.nan
    coverage: Estimate | None = None
    verdict: str = ""  # of the coverage: as chance allows, below, above
    n_calibration: int = 0
    sscv: float = np.nan
    t_cv: float = np.nan
    t_ss: float = np.nan
    caveat: str = ""

    @property
    def empty(self) -> float:
        """Share of empty sets."""
        return float(self.sizes[0])


@final
@dataclass(frozen=True, eq=False)
class ClassFacts:
    """The inliers class by class: how often the model is right, and how often the prediction set holds the class."""

    block: Block
    names: tuple[str, ...]  # class names, or class numbers as text
    n: Floats  # samples of each class
    right: Floats  # of which the answer is right
    delta: float = 0.05  # allowed failure of each interval
    set_method: str = ""
    covered: Floats | None = None  # of which the prediction set holds the class; None without sets

    def shares(self) -> Iterator[tuple[str, str, Estimate]]:
        """Class, metric and share with its exact interval, for classes that have samples.

        >>> facts = ClassFacts(Block("net"), ("cat", "dog"), np.array([4.0, 0.0]), np.array([3.0, 0.0]))
        >>> [(name, metric, share.value) for name, metric, share in facts.shares()]
        [('cat', 'class_accuracy', 0.75)]
        """
        for i, name in enumerate(self.names):
            for metric, hits in (("class_accuracy", self.right), ("class_coverage", self.covered)):
                if hits is not None and self.n[i]:
                    yield name, metric, proportion_interval(int(hits[i]), int(self.n[i]), delta=self.delta)


@final
@dataclass(frozen=True)
class Detection:
    """One score against one outlier set. A metric that was not asked for is None."""

    block: Block
    method: Method
    auroc: Estimate | None = None
    auroc_guaranteed: Estimate | None = None  # holds for any n: over the draw of the inliers, for these outliers
    fpr95_outlier_positive: Estimate | None = None  # share of inliers rejected when 95 % of the outliers are caught
    fpr95_inlier_positive: Estimate | None = None  # share of outliers accepted when 95 % of the inliers are kept
    aupr: Estimate | None = None


@final
@dataclass(frozen=True)
class Selective:
    """One score as a warning of failures: outliers with wrong answers dropped, or, without an outlier set, errors."""

    block: Block
    method: Method
    aurc: Estimate | None = None
    augrc: Estimate | None = None
    auroc_of_errors: Estimate | None = None


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """A curve as few points as a picture needs. ``name`` is the method, or the method of prediction sets.

    ``kind``: ``roc``, ``risk``, ``reliability``, ``size_by_difficulty``, ``rank_by_difficulty`` or
    ``coverage_by_difficulty``. ``lower`` and ``upper`` are NaN where there is no band.
    """

    block: Block
    name: str
    kind: str
    x: Floats
    y: Floats
    lower: Floats
    upper: Floats


@final
@dataclass(frozen=True, eq=False)
class Histogram:
    """Shares per bin of one sample; all samples of a method share their edges. Without an outlier: the inliers."""

    block: Block
    name: str
    edges: Floats
    shares: Floats


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """Every score of one sample, kept because paired tests and thresholds need them."""

    block: Block
    method: Method
    role: Role
    values: Floats


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """Whether each answer of the model is right."""

    block: Block
    role: Role
    correct: Floats  # 0 or 1
    labels: str = ""  # fingerprint of the true classes in their order: models with the same one answered the same rows


@final
@dataclass(frozen=True, eq=False)
class EmptySets:
    """Which rows have an empty prediction set: no class fits, so that the guard of the decision abstains."""

    block: Block
    role: Role
    set_method: str
    empty: Floats  # 0 or 1


@final
@dataclass(frozen=True)
class Collapse:
    """One quantity of neural collapse of the training features."""

    block: Block
    projection: str
    quantity: str
    value: float
    n: int
    caveat: str = ""


@final
@dataclass(frozen=True)
class Proximity:
    """Distance of an outlier set from the training data; ``block.regime`` is where that puts it."""

    block: Block
    frechet: float
    mmd: float
    centroid: float
    space: str
    n: int
    caveat: str = ""
    text: float = np.nan  # from the nearest text prototype, where text embeddings are given


@final
@dataclass(frozen=True, eq=False)
class Certificate:
    """What a model can promise about one outlier set under attack: AUC, AAUC and GAUC on the same samples."""

    block: Block
    method: str
    epsilon: float
    auc: float
    aauc: float
    gauc: float
    gauc_guaranteed: Estimate
    accuracy: float
    mean_confidence: float
    mean_bound: float
    zero_gradients: float
    n: int
    n_attacked: int
    edges: Floats  # of the histogram of upper bounds
    shares: Floats
    classes: tuple[str, ...] = ()
    class_confidence: Floats | None = None
    class_bound: Floats | None = None
    caveat: str = ""
    gauc_conservative: float = np.nan  # ties count against the model
    gfpr95: float = np.nan  # share of outliers whose bound exceeds the confidence that 95 % of the inliers have
    arithmetic: str = ""  # that the bounds hold in: of the deployed model, float64, or real numbers
    slack: float = np.nan  # mean room for rounding in the bounds of the log-confidence
    uncertified: int = 0  # outliers without a certificate, since rounding exceeds its margin


@final
@dataclass(frozen=True)
class Tuning:
    """Settings of a method, chosen on tuning rows. The name of the method does not say them: it is one over all models.

    >>> Tuning(Block("net"), Method("gen"), (("temperature", 2.5), ("gamma", 0.9)), 0.039, 200).text
    'temperature = 2.5, gamma = 0.9'
    """

    block: Block
    method: Method
    chosen: tuple[tuple[str, Any], ...]
    augrc: float  # of misclassification on the tuning rows with these settings; NaN without any error or right answer
    n: int
    tried: int = 0  # combinations of parameters
    caveat: str = ""

    @property
    def text(self) -> str:
        """The settings as a phrase."""
        parts = (f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
                 for name, value in self.chosen)  # fmt: skip
        return ", ".join(parts) or "nothing to choose"


@final
@dataclass(frozen=True)
class Left:
    """A score that was left out, and why."""

    block: Block
    method: Method
    reason: str


@final
@dataclass(frozen=True)
class Note:
    """A warning that was given while this was measured."""

    block: Block
    text: str


@final
@dataclass(frozen=True)
class File:
    """A file that was read, by its role; ``sha256`` is that of its bytes, empty where it was not computed."""

    block: Block
    role: Role
    path: str
    n: int
    sha256: str = ""


@final
@dataclass(frozen=True)
class Run:
    """The command that measured, and the day."""

    block: Block
    command: str
    date: str


Record = (
    Data | ModelFacts | SetFacts | Detection | Selective | Curve | Histogram | Scores | Answers | Collapse | Proximity
    | Certificate | Left | ClassFacts | Tuning | EmptySets
    | Note | File | Run
)  # fmt: skip
COLUMNS = ("model", "seed", "outlier", "regime", "method", "metric", "value", "lower", "upper", "level", "n",
           "interval", "caveat")  # fmt: skip
RECORDS: Mapping[str, Any] = {kind.__name__: kind for kind in get_args(Record)}


def long_rows(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """One row per number: model, outlier set, method, metric, value and interval.

    >>> number = Estimate(0.9, 0.8, 1.0, level=0.95, n=100, method="DeLong")
    >>> row = next(long_rows([Detection(Block("net", outlier="svhn"), Method("msp"), auroc=number)]))
    >>> row["method"], row["outlier"], row["metric"], row["value"], row["lower"]
    ('msp', 'svhn', 'auroc', 0.9, 0.8)
    """
    for record in records:
        if isinstance(record, (Curve, Histogram, Scores, Answers, EmptySets, Data, Left, Note, File, Run)):
            continue
        named = getattr(record, "method", getattr(record, "set_method", ""))
        common = {
            "model": record.block.model, "seed": record.block.seed, "outlier": record.block.outlier,
            "regime": record.block.regime, "method": str(named),
        }  # fmt: skip
        if isinstance(record, Tuning):
            for name, value in record.chosen:
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    yield _row(common, f"tuned_{name}", float(value), record.n)
            if not np.isnan(record.augrc):
                yield _row(common, "tuning_augrc", record.augrc, record.n)
            continue
        if isinstance(record, Collapse):
            yield _row(common | {"method": record.projection}, record.quantity, record.value, record.n)
            continue
        if isinstance(record, ClassFacts):
            for name, metric, share in record.shares():
                yield _estimate_row(common | {"method": name}, metric, share)
            continue
        for field in fields(record):
            value = getattr(record, field.name)
            if isinstance(value, Estimate):
                yield _estimate_row(common, field.name, value)
            elif type(value) is float and not np.isnan(value):
                attacked = field.name in ("aauc", "zero_gradients")
                yield _row(common, field.name, value, getattr(record, "n_attacked" if attacked else "n", 0))


def _estimate_row(common: dict[str, Any], metric: str, value: Estimate) -> dict[str, Any]:
    return common | {
        "metric": metric, "value": value.value, "lower": value.lower, "upper": value.upper, "level": value.level,
        "n": value.n, "interval": value.method, "caveat": value.caveat,
    }  # fmt: skip


def _row(common: dict[str, Any], metric: str, value: float, n: int) -> dict[str, Any]:
    none = float("nan")
    return common | {
        "metric": metric, "value": value, "lower": none, "upper": none, "level": none, "n": n, "interval": "",
        "caveat": "",
    }  # fmt: skip
