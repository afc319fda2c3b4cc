r"""What a classifier can promise about outliers under attack: AUC, AAUC and GAUC on the same samples.

$$ GAUC \le AAUC \le AUC $$

The three differ in the confidence of the outliers: as they are, as an attack within the radius makes them, and as a
bound says no attack can exceed. The confidence of inliers is that of the clean inputs. Bitterwolf, Meinke and Hein,
NeurIPS 2020, section 4. The order holds for every outlier, so it must hold for the three numbers of the same outliers;
where it does not, something is broken and an error says so. Attacks are slow and bounds are not: AAUC may be of some of
the outliers, and AUC and GAUC of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_count, as_labels, as_level, as_list, as_number, check_known, same_length
from caveat._internal.streams import stream
from caveat.errors import CaveatError, InputError
from caveat.evaluation.findings import CellFacts, Findings, versions
from caveat.evaluation.records import Block, Certificate, Histogram, ModelFacts, Record
from caveat.metrics.auroc_intervals import auroc_interval
from caveat.results import Estimate, proportion_interval
from caveat_lab.data import Images
from caveat_lab.robust import Sandwich, conformal_guaranteed_auroc, sandwich

__all__ = ["BINS", "Certification", "Gates", "SetCertificate", "certify"]

Vector = NDArray[np.float64]
Tell = Callable[[str, int, int], None]
BINS = 50  # of the confidence histograms, from 1/K to 1, as in the tables of the paper


@final
@dataclass(frozen=True, eq=False)
class Gates:
    """Effective gates (``bounds.effective_gate``) of one set of outliers, shaped as in ``SetCertificate``."""

    clean: Vector
    upper: Vector
    attacked: Vector | None = None


@final
@dataclass(frozen=True, eq=False)
class SetCertificate:
    """Log-confidence on one set of outliers: clean, attacked, and its certified upper bound.

    Parameters
    ----------
    name
        Of the set.
    clean, upper
        Shape (n,).
    attacked
        Shape (m,), or None where nothing was attacked.
    attacked_rows
        Which m of the n outliers were attacked; None: all.
    zero_gradients
        Share of attacked samples whose gradient is exactly zero, so that a plain attack cannot begin; NaN without one.
    labels, classes
        Classes of the outliers, where they have some.
    caveat
        What limits the attack, if anything.
    gates
        Of a gated classifier, the same three as effective gates, which order as confidences do and do not saturate.
    slack
        How much of ``upper`` is room for rounding (n,); infinite without a certificate, where ``upper`` is 0.
    """

    name: str
    clean: Vector
    upper: Vector
    attacked: Vector | None = None
    attacked_rows: NDArray[np.intp] | None = None
    zero_gradients: float = np.nan
    labels: NDArray[np.intp] | None = None
    classes: tuple[str, ...] = ()
    caveat: str = ""
    gates: Gates | None = None
    slack: Vector | None = None

    @property
    def uncertified(self) -> int:
        """How many outliers have no certificate, since rounding exceeds its margin."""
        return 0 if self.slack is None else int(np.isinf(self.slack).sum())

    @property
    def n(self) -> int:
        return int(self.clean.size)

    @property
    def n_attacked(self) -> int:
        return 0 if self.attacked is None else int(self.attacked.size)

    def by_class(self) -> dict[str, tuple[float, float]]:
        """Class -> mean confidence and mean upper bound, in the order of the classes; empty without labels."""
        if self.labels is None:
            return {}
        means = {}
        for label in np.unique(self.labels):
            mine = self.labels == label
            name = self.classes[label] if label < len(self.classes) else str(label)
            means[name] = float(np.exp(self.clean[mine]).mean()), float(np.exp(self.upper[mine]).mean())
        return means


@final
@dataclass(frozen=True, eq=False)
class Certification:
    """Certificates of one model at one radius.

    Parameters
    ----------
    source
        Name of the model.
    epsilon
        Radius in the largest entry of an input.
    n_classes
        K.
    inlier
        Log-confidence of the inliers (n,).
    accuracy
        Share of inliers classified rightly; NaN without labels.
    sets
        One for each set of outliers.
    delta
        Allowed failure of the guaranteed band.
    inlier_gate
        Of a gated classifier, the effective gate of the inliers (n,): areas are made from it and from ``gates``.
    arithmetic
        What the certificates hold in: ``"float32"``, ... as the model is deployed; ``"real"``: in real numbers.
    """

    source: str
    epsilon: float
    n_classes: int
    inlier: Vector
    accuracy: float
    sets: tuple[SetCertificate, ...] = field(default_factory=tuple)
    delta: float = 0.05
    inlier_gate: Vector | None = None
    arithmetic: str = "real"

    def __post_init__(self) -> None:
        for one in self.sets:
            self._areas(one, slice(None))

    def sandwich(self, one: SetCertificate) -> Sandwich:
        """The three areas on the same outliers, those that were attacked; without an attack on all of them.

        They are checked sample by sample; an order that cannot be is an error.
        """
        return self._areas(one, _rows_of(one))

    def auc(self, one: SetCertificate) -> float:
        """Chance that an inlier is answered with more confidence than an outlier. Higher is better."""
        return self._areas(one, slice(None)).clean

    def aauc(self, one: SetCertificate) -> float:
        """The same for the outliers that were attacked; NaN where none was."""
        return np.nan if one.attacked is None else self.sandwich(one).adversarial

    def gauc(self, one: SetCertificate) -> float:
        """The same with certified upper bounds: no attack within the radius can do better."""
        return self._areas(one, slice(None)).guaranteed

    def aauc_interval(self, one: SetCertificate) -> Estimate:
        """AAUC with DeLong's interval: what this attack would reach on further inliers and outliers of these kinds.

        The interval is about sampling alone. A stronger attack can bring the area below it, down to GAUC. NaN where
        nothing was attacked.
        """
        inlier, outlier = self._ordered(one)
        if outlier.attacked is None:
            return Estimate(np.nan, np.nan, np.nan, level=1 - self.delta, n=0, method="DeLong")
        attacked = np.maximum(outlier.attacked, outlier.clean[_rows_of(one)])
        return auroc_interval(inlier=-inlier, outlier=-attacked, delta=self.delta)

    def _areas(self, one: SetCertificate, rows: slice | NDArray[np.intp]) -> Sandwich:
        """The areas on some of the outliers; what was not attacked counts as it is."""
        inlier, outlier = self._ordered(one)
        attacked = outlier.clean.copy()
        if outlier.attacked is not None:
            attacked[_rows_of(one)] = outlier.attacked
        try:
            return sandwich(inlier=inlier, outlier=outlier.clean[rows], outlier_upper=outlier.upper[rows],
                            outlier_attacked=attacked[rows])  # fmt: skip
        except InputError as error:
            raise CaveatError(f"the certificate of {self.source} on {one.name} does not hold: {error}") from None

    def band(self, one: SetCertificate) -> Estimate:
        """GAUC with its guaranteed band: certificate for the outliers, finite-sample bound for the inliers."""
        inlier, outlier = self._ordered(one)
        return conformal_guaranteed_auroc(inlier=inlier, outlier_upper=outlier.upper, delta=self.delta)

    def _ordered(self, one: SetCertificate) -> tuple[Vector, SetCertificate | Gates]:
        """Inliers and outliers in the terms that areas are made from: only the order counts."""
        if self.inlier_gate is None or one.gates is None:
            return self.inlier, one
        return self.inlier_gate, one.gates

    def records(self, *, seed: int = 0) -> list[Record]:
        """Accuracy and confidence on the inliers, and one certificate per set of outliers, for tables and reports."""
        records: list[Record] = []
        here, n = Block(self.source, seed), self.inlier.size
        if not np.isnan(self.accuracy):
            records.append(ModelFacts(here, proportion_interval(round(self.accuracy * n), n, delta=self.delta)))
        records.append(Histogram(here, "confidence", *self.histogram(self.inlier)))
        for one in self.sets:
            areas, by_class = self._areas(one, slice(None)), one.by_class()
            edges, shares = self.histogram(one.upper)
            means = np.array(list(by_class.values())) if by_class else None
            records.append(Certificate(
                Block(self.source, seed, one.name), "confidence", self.epsilon, areas.clean, self.aauc(one),
                areas.guaranteed, self.band(one), self.accuracy, float(np.exp(one.clean).mean()),
                float(np.exp(one.upper).mean()), one.zero_gradients, one.n, one.n_attacked, edges, shares,
                tuple(by_class), None if means is None else means[:, 0], None if means is None else means[:, 1],
                one.caveat, areas.conservative_guaranteed, areas.guaranteed_fpr95, self.arithmetic,
                np.nan if one.slack is None else _finite_mean(one.slack), one.uncertified,
            ))  # fmt: skip
        return records

    def findings(self, *, title: str, seed: int = 0) -> Findings:
        """What a report reads."""
        cell = CellFacts("", "certificates", 0.0, versions())
        none = np.nan
        return Findings(title, self.records(seed=seed), {}, none, self.delta, none, none, cells=(cell,))

    def histogram(self, log_confidence: Vector) -> tuple[Vector, Vector]:
        """Edges (BINS + 1,) from 1/K to 1 and shares (BINS,) of a log-confidence."""
        edges = np.linspace(1 / self.n_classes, 1, BINS + 1)
        # Rounding puts a uniform answer a hair below 1/K.
        counts, _ = np.histogram(np.exp(log_confidence).clip(edges[0], 1), edges)
        return edges, counts / log_confidence.size


def certify(
    model: Any,
    *,
    inlier: Images | ArrayLike,
    labels: ArrayLike | None = None,
    outliers: Mapping[str, Images | ArrayLike],
    epsilon: float,
    points: int | None = 300,
    attack_points: int | None = None,
    refine: int = 0,
    attack: Sequence[str] = ("apgd", "monotone"),
    starts: Sequence[str] | None = None,
    steps: int = 100,
    monotone_steps: int | None = None,
    restarts: int = 1,
    tries: int = 64,
    transfer: Sequence[Any] = (),
    candidates: Images | ArrayLike | None = None,
    arithmetic: str = "model",
    delta: float = 0.05,
    source: str = "model",
    seed: int = 0,
    progress: Tell | None = None,
) -> Certification:
    """Confidence of a model on outliers: clean, attacked and certified.

    The attacks of the paper on MNIST: ``steps=500, monotone_steps=200, restarts=5, starts=("small", "contrast")`` and
    ``transfer`` with all other models.

    Parameters
    ----------
    model
        A torch classifier whose layers have bounds, or that brings its own (``bounds.confidence_bounds``).
    inlier, labels
        Held-out inputs, and their classes: images, or an array in [0, 1]. ``Images`` bring their labels.
    outliers
        Name -> images or array.
    epsilon
        Radius in the largest entry.
    points
        Maximum outliers of each set for AUC and GAUC, evenly spread over it; None: all.
    attack_points
        Maximum outliers of each set for AAUC, evenly spread over those of ``points``; None: all of them. The paper has
        10,000 points for GAUC and 1,000 for AAUC.
    refine
        Maximum outliers of each set with linear bounds: those that interval bounds leave open at the confidence that
        95 % of the inliers exceed. Tighter, about half a second each. Models that bring their own bounds have none.
    attack
        Optimizers of ``attacks.attack_confidence``; empty: no attack, and no AAUC.
    starts, steps, monotone_steps, restarts, tries
        Of the attack, as in ``attacks.attack_confidence``.
    transfer
        Other models. They are attacked in the same way, and monotone PGD on this model starts from what is found.
    candidates
        Inputs that attacks may lead to; default: the inliers. The strongest start against flat networks.
    arithmetic
        ``"model"``: of the model as it is deployed, in its own float type. ``"float64"``: of ``in_float64(model)``,
        which must then be deployed. ``"real"``: of the model in real numbers, as in the paper; no model computes so.
    delta
        Allowed failure of the guaranteed band.
    source
        Name of the model in tables.
    seed
        Of the attack; each set has a random stream of its own.
    progress
        Called with each step.
    """
    from caveat_lab.attacks import attack_confidence
    from caveat_lab.bounds import FLOAT64, REAL, arithmetic_of, confidence_bounds
    from caveat_lab.bounds.exact import deployed_gate, deployed_logits, exact_gate, exact_log_confidence, exact_logits

    check_known(arithmetic, ("model", "float64", "real"), "arithmetic")
    deployed = arithmetic == "model"
    logits_of, gate_of = (deployed_logits, deployed_gate) if deployed else (exact_logits, exact_gate)
    radius, level = as_number(epsilon, "epsilon", least=0), as_level(delta, "delta")
    as_list(outliers, "outliers")
    inputs, truth = _inputs(inlier, "inlier")
    if labels is not None:
        truth = as_labels(labels, "labels")
        same_length(inlier=inputs, labels=truth)
    tell = progress or (lambda what, done, total: None)
    tell("inliers", 0, len(outliers))
    slack = arithmetic_of(model) if deployed else FLOAT64 if arithmetic == "float64" else REAL
    logits = logits_of(model, inputs)
    inlier_confidence = exact_log_confidence(logits)
    if hasattr(model, "log_confidence_bounds"):
        refine = 0
    right = np.nan if truth is None else float(np.mean(logits.argmax(axis=1) == truth))
    others = inputs if candidates is None else _inputs(candidates, "candidates")[0]
    gated = hasattr(model, "effective_gate") and hasattr(model, "gate_upper")
    inlier_gate = gate_of(model, inputs) if gated else None
    threshold, sets = float(np.quantile(inlier_confidence, 0.05)), []
    for i, (name, images) in enumerate(outliers.items()):
        tell(name, i, len(outliers))
        x, classes = _inputs(images, f"outliers '{name}'")
        x = x[some := _spread(len(x), points, "points")]
        tried = _spread(len(x), attack_points, "attack_points")
        bounds = confidence_bounds(
            model, x, radius, refine=refine, threshold=threshold, arithmetic="model" if deployed else "float64"
        )
        bounds = bounds.exact if arithmetic == "real" and bounds.exact is not None else bounds
        attacked, reached, results = None, None, dict[str, Any]()
        if attack:
            attacked = attack_confidence(
                model, x[tried], radius, rng=stream(seed, "attack", name), optimizers=attack, starts=starts,
                steps=steps, monotone_steps=monotone_steps, restarts=restarts, tries=tries, transfer=transfer,
                candidates=others, progress=False,
            )  # fmt: skip
            worst, reached = attacked.log_confidence, attacked.gate
            if deployed:  # what the model itself answers there
                worst = np.maximum(exact_log_confidence(logits_of(model, attacked.points)), bounds.value[tried])
                reached = np.maximum(gate_of(model, attacked.points), gate_of(model, x[tried])) if gated else None
            results = {"attacked": worst, "zero_gradients": attacked.zero_gradient_share,
                       "attacked_rows": None if len(tried) == len(x) else tried, "caveat": attacked.caveat}  # fmt: skip
        if gated:
            upper = exact_gate(model, x, radius, slack=slack)
            results["gates"] = Gates(clean=gate_of(model, x), upper=upper, attacked=reached)
        if classes is not None:
            results |= {"labels": classes[some], "classes": images.classes if isinstance(images, Images) else ()}
        upper = np.minimum(bounds.upper, 0.0)  # without a certificate any confidence is possible
        sets.append(SetCertificate(name, bounds.value, upper, slack=bounds.slack, **results))
    tell("done", len(outliers), len(outliers))
    return Certification(
        source=source, epsilon=radius, n_classes=logits.shape[1], inlier=inlier_confidence, accuracy=right,
        sets=tuple(sets), delta=level, inlier_gate=inlier_gate, arithmetic=slack.name,
    )  # fmt: skip


def _finite_mean(values: Vector) -> float:
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else np.nan


def _rows_of(one: SetCertificate) -> slice | NDArray[np.intp]:
    """Which of the outliers of a set were attacked."""
    return slice(None) if one.attacked_rows is None else one.attacked_rows


def _inputs(images: Images | ArrayLike, name: str) -> tuple[NDArray[np.float32], NDArray[np.intp] | None]:
    if isinstance(images, Images):
        return images.inputs(), images.labels
    array = np.asarray(images, dtype=np.float32)
    if array.ndim < 2 or 0 in array.shape:
        raise InputError(f"{name} must be a non-empty batch of inputs (n, ...), got shape {array.shape}.")
    return array, None


def _spread(n: int, points: int | None, name: str) -> NDArray[np.intp]:
    """At most ``points`` of n rows, evenly spread: sets are often sorted by class."""
    most = n if points is None else min(n, as_count(points, name))
    return np.linspace(0, n - 1, most).round().astype(np.intp)
