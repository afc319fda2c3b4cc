"""One valid call for every public name: what the fuzz test starts from, changing one argument at a time.

A name of a package that is in no call here and in no list of exceptions makes the test fail, so none can be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

import caveat
from caveat import Head, Outputs, conformal, metrics, scale, scores, stats
from caveat.conformal import idealised
from caveat.results import Intervals, PredictionSets
from caveat.scores.cof import COF
from caveat.scores.dagmm import DAGMM
from caveat.scores.sod import SOD
from caveat_lab import geometry, robust

N, D, C = 36, 6, 3


@dataclass(frozen=True)
class Call:
    """A function, valid arguments, the public names that it exercises, and what its result may hold.

    ``infinite`` and ``nan`` say why an infinity or NaN is a documented answer; empty: it is not one.
    ``work`` names arguments that say how much work to do: 2**40 of it takes for ever because it was asked for.
    """

    run: Callable[..., Any]
    arguments: Mapping[str, Any]
    names: tuple[str, ...]
    infinite: str = ""
    nan: str = ""
    work: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()  # arguments passed to an estimator of another library, which raises its own errors
    tolerance: float = 1e-6  # of a result when only the representation of an argument changes
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of Outputs arguments; default all stored


def said(seed: int, n: int = N, shift: float = 0.0) -> Outputs:
    """A Gaussian class mixture seen through a linear head, every field filled."""
    means = np.random.default_rng(99).normal(size=(C, D)) * 2
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(C), rng.integers(C, size=n - C)])
    features = np.abs(means[labels] + rng.normal(size=(n, D)) + shift)
    head = Head((means - means.mean(axis=0)) / 2, np.linspace(-0.5, 0.5, C))
    logits = head.logits(features)
    noisy = np.exp(logits + rng.normal(size=(3, n, C)))
    return Outputs(
        logits=logits, features=features, labels=labels, head=head, mc_logits=logits + rng.normal(size=(3, n, C)),
        confidence=rng.random(n), embeddings=rng.normal(size=(n, 4)),
        layers={"conv": np.abs(rng.normal(size=(n, 2, 3, 3)) + labels[:, None, None, None]), "pool": features[:, :4]},
        ease_probs=noisy / noisy.sum(axis=2, keepdims=True),
    )  # fmt: skip


TRAIN, TEST, FAR = said(1), said(2, 24), said(3, 20, shift=4.0)
_rng = np.random.default_rng(0)
INLIER, OUTLIER = _rng.normal(size=60), _rng.normal(size=40) + 1
SECOND_INLIER, SECOND_OUTLIER = _rng.normal(size=60), _rng.normal(size=40) + 0.5
SCORE, CORRECT = _rng.normal(size=50), _rng.random(50) < 0.7
PROBS, LABELS = TRAIN.probs, np.array(TRAIN.labels)
MEMBER = PROBS > 0.2
EASE = _rng.random(N)
COVERED, SIZES, RANKS = MEMBER[np.arange(N), LABELS], MEMBER.sum(axis=1), metrics.true_ranks(probs=PROBS, labels=LABELS)
MEAN, SCALE = _rng.normal(size=N), _rng.random(N) + 0.1
Y = MEAN + SCALE * _rng.normal(size=N)
X = _rng.normal(size=(N, D))
JOINT = np.array([[0.1, 0.2], [0.3, 0.4]])
TABLE = _rng.random((8, 3))
LOGIT_FIELDS = ("logits", "labels")
RNG = np.random.default_rng(0)  # every call gets a copy

CALLS: dict[str, Call] = {}


def _add(key: str, run: Callable[..., Any], *names: str, **options: Any) -> None:
    arguments = options.pop("arguments")
    assert key not in CALLS, key
    CALLS[key] = Call(run, arguments, names or (key,), **options)


def _functions(package: Any, table: Mapping[str, Mapping[str, Any]], **options: Mapping[str, Any]) -> None:
    """Functions of a package that are called as they are."""
    short = package.__name__.partition(".")[2]
    for name, arguments in table.items():
        _add(f"{short}.{name}", getattr(package, name), arguments=arguments, **options.get(name, {}))


# -- scores -----------------------------------------------------------------------------------------------------------

_SMALL = {"knn": {"k": 5}, "nnguide": {"k": 5}, "openmax": {"tail": 5}, "gram": {"orders": 3}}
_SOURCES = {"probs": ("logits",), "predictions": ("logits",), "correct": ("logits", "labels"), "head": ("head",)}


def _of_score(kind: type[scores.Score], class_scores: bool) -> Callable[..., Any]:
    def run(*, train: Any, outputs: Any, **params: Any) -> Any:
        score = kind(**params).fit(train)
        return score.score(outputs), score.class_scores(outputs) if class_scores else None

    return run


for _entry in scores.catalogue():
    _stored = {
        key: tuple(dict.fromkeys(f for name in wanted for f in _SOURCES.get(name, (name,))))
        for key, wanted in (("train", _entry.fits_on), ("outputs", _entry.needs))
    }
    _add(
        f"scores.{_entry.name}", _of_score(_entry.score, _entry.class_scores), f"scores.{_entry.score.__name__}",
        arguments={**_entry.params, **_SMALL.get(_entry.name, {}), "train": TRAIN, "outputs": TEST},
        fields=_stored,
    )  # fmt: skip


def _projected(*, inner: Any, projection: Any, variance: Any, train: Any, outputs: Any) -> Any:
    return scores.Projected(inner, projection, variance).fit(train).score(outputs)


for _inner, _projection in (("energy", "class"), ("mahalanobis", "class_pred"), ("pca_error", "global")):
    _add(
        f"scores.Projected({_inner})", _projected, "scores.Projected",
        arguments={"inner": scores.make(_inner), "projection": _projection, "variance": 0.9, "train": TRAIN,
                   "outputs": TEST},
        fields={"train": ("features", "labels", "head"), "outputs": ("features", "head")},
    )  # fmt: skip


def _tempered(*, inner: Any, temperature: Any, train: Any, outputs: Any) -> Any:
    return scores.Tempered(inner, temperature).fit(train).score(outputs)


_add(
    "scores.Tempered", _tempered, "scores.Tempered",
    arguments={"inner": scores.make("nnguide", k=3), "temperature": 2.0, "train": TRAIN, "outputs": TEST},
    fields={"train": ("features", "labels", "head"), "outputs": ("features", "head")},
)  # fmt: skip


def _detector(*, estimator: Any, params: Any, larger: Any, seed: Any, train: Any, outputs: Any) -> Any:
    score = scores.OutlierDetector(estimator, params, larger).fit(train, rng=seed)
    return score.score(outputs), score.score_together(outputs, outputs)


def _built_in(kind: Any) -> Callable[..., Any]:
    def run(*, x: Any, asked: Any, **params: Any) -> Any:
        return kind(**params).fit(x).decision_function(asked)

    return run


_add(
    "scores.OutlierDetector", _detector, "scores.OutlierDetector",
    arguments={"estimator": "cof", "params": {"n_neighbors": 5}, "larger": "auto", "seed": 0, "train": TRAIN,
               "outputs": TEST},
    fields={"train": ("features",), "outputs": ("features",)},
)  # fmt: skip
_add("scores.cof", _built_in(COF), arguments={"n_neighbors": 5, "x": X, "asked": X[:20]})
_add("scores.sod", _built_in(SOD), arguments={"n_neighbors": 8, "ref_set": 4, "alpha": 0.8, "x": X, "asked": X[:20]})
_add(
    "scores.dagmm", _built_in(DAGMM),
    arguments={"components": 2, "code": 1, "epochs": 2, "batch": 16, "learning_rate": 1e-3, "energy_weight": 0.1,
               "covariance_weight": 0.005, "dropout": 0.5, "x": X, "asked": X[:20]},
    work=("epochs",), tolerance=1e-3,
)  # fmt: skip
_functions(
    scores,
    {
        "detector": {"name": "cof"},
        "make": {"name": "knn", "k": 5},
        "projections_of": {"name": "msp"},
        "fit_temperature": {"outputs": TRAIN},
        "with_temperature": {"outputs": TRAIN, "temperature": 2.0},
        "score_all": {"train": TRAIN, "outputs": TEST, "names": ["msp", "mahalanobis"]},
        "tune": {"score": "gen", "grid": {"gamma": [0.1, 0.5]}, "validation": TEST},
    },
    fit_temperature={"fields": {"outputs": LOGIT_FIELDS}},
    with_temperature={"fields": {"outputs": ("logits", "head", "mc_logits")}},
    score_all={"fields": {"train": ("features", "labels"), "outputs": ("logits", "features")}},
    tune={"fields": {"validation": LOGIT_FIELDS}, "nan": "a point of the grid that cannot be computed has no value"},
)
_add("scores.applicable", lambda *, train, outputs: scores.applicable(train, outputs),
     arguments={"train": TRAIN, "outputs": TEST}, fields={"train": ("labels",), "outputs": ("logits",)})  # fmt: skip


# -- conformal --------------------------------------------------------------------------------------------------------

_LOOSE = "too few samples for the level: the threshold is infinite"
_SCORES_OF_SETS = {
    "lac": "lac", "aps": conformal.APS(), "raps": conformal.RAPS(0.1, 1), "saps": conformal.SAPS(),
    "margin": conformal.Margin(), "topk": conformal.TopK(),
}  # fmt: skip


def _split_sets(
    *, score: Any, alpha: Any, by: Any, delta: Any, unseen: Any, nonempty: Any, calibration: Any, test: Any, rng: Any,
    smoothed: Any,
) -> Any:  # fmt: skip
    sets = conformal.SplitSets(score, alpha=alpha, by=by, delta=delta, unseen=unseen, nonempty=nonempty)
    sets.calibrate(calibration, rng)
    return sets.predict(test, rng), sets.p_values(test, rng, smoothed=smoothed)


for _name, _score in _SCORES_OF_SETS.items():
    _add(
        f"conformal.SplitSets({_name})", _split_sets, "conformal.SplitSets",
        *([f"conformal.{type(_score).__name__}"] if not isinstance(_score, str) else ["conformal.LAC"]),
        arguments={"score": _score, "alpha": 0.2, "by": "label" if _name == "lac" else None, "delta": None,
                   "unseen": "error", "nonempty": True, "calibration": TRAIN, "test": TEST, "rng": RNG,
                   "smoothed": True},
        infinite=_LOOSE, theirs=("by",), fields={"calibration": LOGIT_FIELDS, "test": ("logits",)},
    )  # fmt: skip


def _clustered_sets(*, share: Any, clusters: Any, least: Any, clustering: Any, calibration: Any, test: Any) -> Any:
    by = conformal.LabelClusters(share, clusters, least)
    sets = conformal.SplitSets(alpha=0.2, by=by).calibrate(calibration, clustering=clustering)
    return sets.predict(test), sets.p_values(test)


def _ranked_sets(*, share: Any, alpha: Any, calibration: Any, test: Any) -> Any:
    sets = conformal.SplitSets("aps", alpha=alpha, by=conformal.LabelRanks(share)).calibrate(calibration)
    return sets.predict(test), sets.p_values(test)


def _weighted_sets(*, calibration: Any, test: Any, weights: Any, test_weights: Any) -> Any:
    sets = conformal.SplitSets(alpha=0.2).calibrate(calibration, weights=weights)
    return sets.predict(test, weights=test_weights), sets.p_values(test, weights=test_weights)


_SETS_FIELDS = {"calibration": LOGIT_FIELDS, "test": ("logits",)}
_add("conformal.SplitSets(cluster)", _clustered_sets, "conformal.LabelClusters",
     arguments={"share": 0.4, "clusters": 2, "least": 2, "clustering": RNG, "calibration": TRAIN, "test": TEST},
     infinite=_LOOSE, fields=_SETS_FIELDS)  # fmt: skip
_add("conformal.SplitSets(label_rank)", _ranked_sets, "conformal.LabelRanks",
     arguments={"share": 0.5, "alpha": 0.3, "calibration": TRAIN, "test": TEST}, infinite=_LOOSE,
     fields=_SETS_FIELDS)  # fmt: skip
_add("conformal.shift_weights",
     lambda *, at, **arguments: (found := conformal.shift_weights(**arguments), found.at(at), found.promise(0.2)),
     "conformal.shift_weights", "conformal.ShiftWeights",
     arguments={"source": X, "target": X[:20] + 0.5, "method": "density_ratio", "classifier": None, "folds": 2,
                "rng": RNG, "at": X[:5]}, theirs=("classifier",), tolerance=1e-4)  # fmt: skip
_add("conformal.shift_weights(classifier)", conformal.shift_weights, "conformal.shift_weights",
     arguments={"source": X, "target": X[:20] + 0.5, "classifier": LogisticRegression(), "folds": 2, "rng": RNG},
     theirs=("classifier",), tolerance=1e-4)  # fmt: skip
_add("conformal.label_shift_weights",
     lambda *, labels, n, **arguments: (
         found := conformal.label_shift_weights(**arguments), found.of_labels(labels), found.of_rows(n),
         found.promise(0.2)),
     "conformal.label_shift_weights", "conformal.LabelShift",
     arguments={"source": TRAIN, "target": TEST, "delta": 0.1, "resamples": 20, "rng": RNG, "labels": LABELS, "n": 3},
     infinite="a bootstrap sample without a class", work=("resamples", "n"),
     fields={"source": LOGIT_FIELDS, "target": ("logits",)})  # fmt: skip
_add("conformal.SplitSets(weights)", _weighted_sets, "conformal.SplitSets",
     arguments={"calibration": TRAIN, "test": TEST, "weights": _rng.random(N), "test_weights": _rng.random(24)},
     infinite=_LOOSE, fields=_SETS_FIELDS)  # fmt: skip


def _parametrised(kind: Any) -> Callable[..., Any]:
    return lambda **params: (
        conformal.SplitSets(kind(**params), alpha=0.2)
        .calibrate(TRAIN, np.random.default_rng(0))
        .predict(TEST, np.random.default_rng(1))
    )


for _kind, _params in (
    (conformal.RAPS, {"penalty": 0.1, "k_reg": 1, "less": 0.0}),
    (conformal.SAPS, {"weight": 0.2, "less": 0.0}),
    (conformal.APS, {"less": 0.1}),
    (conformal.LAC, {"less": 0.1}),
):
    _add(f"conformal.{_kind.__name__}", _parametrised(_kind), arguments=_params, infinite=_LOOSE)


def _difficulty_sets(
    *, score: Any, alpha: Any, bins: Any, delta: Any, calibration: Any, test: Any, binning: Any, rng: Any, ease: Any
) -> Any:
    sets = conformal.DifficultySets(score, alpha=alpha, bins=bins, delta=delta)
    sets.calibrate(calibration, rng, binning=binning)
    return sets.predict(test, rng, ease=ease), sets.p_values(test, rng, ease=ease)


_add(
    "conformal.DifficultySets", _difficulty_sets,
    arguments={"score": "lac", "alpha": 0.3, "bins": 3, "delta": None, "calibration": TRAIN, "test": TEST,
               "binning": _rng.random(30), "rng": RNG, "ease": _rng.random(24)},
    infinite=_LOOSE, fields={"calibration": (*LOGIT_FIELDS, "ease_probs"), "test": ("logits", "ease_probs")},
)  # fmt: skip


def _difficulty_intervals(
    *, score: Any, alpha: Any, bins: Any, delta: Any, y: Any, ease: Any, binning: Any, mean: Any, scale: Any
) -> Any:
    made = conformal.DifficultyIntervals(score, alpha=alpha, bins=bins, delta=delta)
    made.calibrate(y, ease=ease, binning=binning, mean=mean, scale=scale)
    return made.predict(ease=ease, mean=mean, scale=scale)


_add(
    "conformal.DifficultyIntervals", _difficulty_intervals,
    arguments={"score": "normalized", "alpha": 0.3, "bins": 3, "delta": None, "y": Y, "ease": EASE,
               "binning": _rng.random(30), "mean": MEAN, "scale": SCALE},
    infinite=_LOOSE,
)  # fmt: skip


def _split_intervals(*, score: Any, alpha: Any, delta: Any, unseen: Any, y: Any, groups: Any, **values: Any) -> Any:
    made = conformal.SplitIntervals(score, alpha=alpha, delta=delta, unseen=unseen)
    return made.calibrate(y, groups=groups, **values).predict(groups=groups, **values)


for _score, _values in (
    ("absolute", {"mean": MEAN}),
    ("normalized", {"mean": MEAN, "scale": SCALE}),
    ("cqr", {"lower": MEAN - SCALE, "upper": MEAN + SCALE}),
):
    _add(
        f"conformal.SplitIntervals({_score})", _split_intervals, "conformal.SplitIntervals",
        arguments={"score": _score, "alpha": 0.3, "delta": None, "unseen": "error", "y": Y,
                   "groups": LABELS if _score == "absolute" else None, **_values},
        infinite=_LOOSE,
    )  # fmt: skip


def _cross_sets(
    *, score: Any, alpha: Any, by: Any, unseen: Any, nonempty: Any, calibration: Any, folds: Any, test: Any, rng: Any,
    level: Any,
) -> Any:  # fmt: skip
    sets = conformal.CrossSets(score, alpha=alpha, by=by, unseen=unseen, nonempty=nonempty)
    sets.calibrate(calibration, folds, rng)
    by_model = [test] * 3
    return sets.predict(by_model, rng), sets.p_values(by_model, rng), sets.at(level).predict(by_model, rng)


def _cross_intervals(*, alpha: Any, y: Any, folds: Any, mean: Any, groups: Any, test: Any, test_groups: Any,
                     level: Any) -> Any:  # fmt: skip
    made = conformal.CrossIntervals("absolute", alpha=alpha).calibrate(y, folds, mean=mean, groups=groups)
    return made.predict(mean=test, groups=test_groups), made.at(level).predict(mean=test, groups=test_groups)


_add("conformal.CrossSets", _cross_sets,
     arguments={"score": "lac", "alpha": 0.2, "by": "label", "unseen": "error", "nonempty": False, "calibration": TRAIN,
                "folds": np.arange(N) % 3, "test": TEST, "rng": RNG, "level": 0.3},
     infinite=_LOOSE, fields={"calibration": LOGIT_FIELDS, "test": ("logits",)})  # fmt: skip
_add("conformal.CrossIntervals", _cross_intervals,
     arguments={"alpha": 0.2, "y": Y, "folds": np.arange(N) % 3, "mean": MEAN, "groups": np.arange(N) % 2,
                "test": X[:9, :3], "test_groups": np.arange(9) % 2, "level": 0.3}, infinite=_LOOSE)  # fmt: skip


def _full_knn(
    *, measure: Any, k: Any, metric: Any, x: Any, y: Any, test: Any, most: Any, alpha: Any, rng: Any, by: Any
) -> Any:
    model = conformal.FullKNN(measure, k, metric).fit(x, y, most=most)
    return (
        model.p_values(test, rng, by=by),
        model.predict(test, alpha, rng, by=by),
        list(model.path(test, [1, 2], rng=rng, by=by)),
    )


_add(
    "conformal.FullKNN", _full_knn, "conformal.FullKNN", "conformal.Euclidean",
    arguments={"measure": "ratio", "k": 1, "metric": "euclidean", "x": X, "y": LABELS, "test": X[:7] + 0.1, "most": 2,
               "alpha": 0.2, "rng": RNG, "by": None},
)  # fmt: skip


def _band(
    *, inlier: Any, delta: Any, method: Any, lower_method: Any, two_sided: Any, rng: Any, t: Any, k: Any, rate: Any
) -> Any:
    band = conformal.FPRBand(inlier, delta, method, lower_method, two_sided, rng)
    sides = (band.lower(t), band.lower_at(k), band.threshold_range(rate)) if two_sided is True else ()
    return band.count(t), band.count_both(t), band.empirical(t), band.upper(t), band.upper_at(k), sides


_add(
    "conformal.FPRBand", _band,
    arguments={"inlier": INLIER, "delta": 0.1, "method": "exact", "lower_method": None, "two_sided": True, "rng": None,
               "t": np.linspace(-2, 2, 5), "k": np.arange(5), "rate": 0.3},
    infinite="a threshold that no score reaches",
)  # fmt: skip


def _ease_bins(*, ease: Any, bins: Any, asked: Any) -> Any:
    return conformal.EaseBins.cut(ease, bins).assign(asked)


def _difficulty_model(*, regressor: Any, floor: Any, x: Any, residual: Any, loss: Any, asked: Any) -> Any:
    return conformal.DifficultyModel(regressor, floor).fit(x, residual, loss=loss).scale(asked, loss=loss)


def _ranks(*, calibration: Any, test: Any, q: Any, method: Any, threshold: Any, delta: Any) -> Any:
    ranks = conformal.RankHistogram.of(calibration=calibration, test=test)
    return (ranks + ranks).counts, ranks.largest_p(q, method, threshold=threshold, delta=delta)


_add("conformal.EaseBins", _ease_bins, arguments={"ease": EASE, "bins": 4, "asked": EASE})
_add("conformal.EaseBins(edges)", lambda *, edges, asked: conformal.EaseBins(edges).assign(asked), "conformal.EaseBins",
     arguments={"edges": np.array([0.2, 0.6]), "asked": EASE})  # fmt: skip
_add("conformal.DifficultyModel", _difficulty_model,
     arguments={"regressor": LinearRegression(), "floor": 0.05, "x": X, "residual": Y - MEAN, "loss": SCALE,
                "asked": X})  # fmt: skip
_functions(
    conformal,
    {
        "boundary": {"n": 40, "delta": 0.1, "method": "exact", "rng": None, "draws": 1000},
        "calibrate_shape": {"n": 20, "delta": 0.1, "shape": np.ones(20)},
        "conditional_p_values": {"calibration": INLIER, "test": OUTLIER, "delta": 0.1, "method": "exact"},
        "control_risk": {"losses": np.sort(_rng.random((N, 5)))[:, ::-1] / 2, "lambdas": np.arange(5.0), "alpha": 0.3,
                         "delta": 0.2, "method": "wsr", "bound": 1.0, "rng": RNG},
        "case_p_values": {"calibration": INLIER, "satisfied": INLIER < 0.5, "test": OUTLIER, "rng": RNG},
        "e_values": {"calibration": INLIER, "test": OUTLIER, "q": 0.5},
        "effective_n": {"weights": EASE},
        "shift_promise": {"weights": EASE, "alpha": 0.1},
        "weighted_p_values": {"calibration": INLIER, "test": OUTLIER, "calibration_weights": np.abs(INLIER),
                              "test_weights": np.abs(OUTLIER), "rng": RNG},
        "ease": {"probs": PROBS, "transformed": np.array(TRAIN.ease_probs)},
        "ease_of": {"outputs": TRAIN},
        "fpr_law": {"n": 40, "t": 0.3},
        "logit_noise_ease": {"outputs": TRAIN, "sigma": 1.0, "rng": RNG, "copies": 3},
        "mean_bounds": {"values": EASE, "delta": 0.1, "low": 0.0, "high": 1.0, "two_sided": False, "rng": RNG},
        "p_values": {"calibration": INLIER, "test": OUTLIER, "rng": RNG, "calibration_groups": np.arange(60) % 2,
                     "test_groups": np.arange(40) % 2, "unseen": "error"},
        "quantile": {"scores": INLIER, "alpha": 0.1},
        "rank_weights": {"n": 40, "upto": 0.2, "least": 0.05},
        "regression_ease": {"prediction": MEAN, "transformed": np.stack([MEAN + 0.1, Y])},
        "required_n": {"fpr": 0.1, "margin": 0.1, "delta": 0.05, "simultaneous": False},
        "select_by_e_values": {"e_values": 30 * _rng.random(30), "q": 0.2},
        "select_cases": {"calibration": INLIER, "satisfied": INLIER < 0.5, "test": OUTLIER, "q": 0.3, "rng": RNG},
        "select_outliers": {"p_values": _rng.random(30), "q": 0.1, "method": "bh", "threshold": 0.5},
        "select_outliers_from": {"calibration": INLIER, "test": OUTLIER, "q": 0.1, "delta": 0.1, "method": "bh"},
        "threshold_for": {"inlier": INLIER, "false_alarm": 0.2, "delta": 0.1},
        "threshold_for_risk": {"score": INLIER, "correct": INLIER < 0.5, "risk": 0.3, "delta": 0.2,
                               "thresholds": _rng.random(5), "abstention": 0.6, "abstention_delta": 0.1},
        "tune_difficulty": {"tuning": TRAIN, "ease": {"noise": EASE}, "alpha": 0.2, "rng": RNG, "criterion": "t_ss",
                            "scores": ("lac",), "bins": (3, 4), "judged_by": EASE},
        "tune_difficulty_intervals": {"y": Y, "ease": {"noise": EASE}, "alpha": 0.2, "rng": RNG, "score": "absolute",
                                      "delta": None, "bins": (3, 4), "judged_by": EASE, "judge_bins": 5, "mean": MEAN},
        "tune_raps": {"tuning": TRAIN, "alpha": 0.2, "rng": RNG, "criterion": "sscv", "penalties": (0.01, 0.1),
                      "ease": None, "source": None},
        "tune_saps": {"tuning": TRAIN, "alpha": 0.2, "rng": RNG, "criterion": "sscv", "weights": (0.1, 0.2),
                      "ease": None, "source": None},
        "violation_probability": {"b": np.linspace(0.1, 0.9, 12)},
        "weighted_quantile": {"scores": INLIER, "alpha": 0.2, "weights": np.ones(60), "test_weight": 1.0},
    },
    boundary={"work": ("n", "draws")}, calibrate_shape={"work": ("n",), "theirs": ("shape",)}, fpr_law={"work": ("n",)},
    rank_weights={"work": ("n",)}, logit_noise_ease={"work": ("copies",), "fields": {"outputs": ("logits",)}},
    ease_of={"fields": {"outputs": ("logits", "ease_probs")}},
    quantile={"infinite": _LOOSE}, weighted_quantile={"infinite": _LOOSE}, threshold_for={"infinite": _LOOSE},
    threshold_for_risk={"infinite": _LOOSE}, control_risk={"infinite": _LOOSE},
    tune_difficulty={"fields": {"tuning": LOGIT_FIELDS}, "nan": "a criterion that a candidate has no value of"},
    tune_difficulty_intervals={"nan": "a criterion that a candidate has no value of"},
    tune_raps={"fields": {"tuning": LOGIT_FIELDS}, "nan": "a criterion that a candidate has no value of"},
    tune_saps={"fields": {"tuning": LOGIT_FIELDS}, "nan": "a criterion that a candidate has no value of"},
)  # fmt: skip
_add("metrics.conformal_auroc(betting)", metrics.conformal_auroc, "metrics.conformal_auroc",
     arguments={"inlier": INLIER, "outlier": OUTLIER, "delta": 0.1, "method": "betting", "ood": "population",
                "two_sided": True, "rng": RNG})  # fmt: skip
_add("conformal.threshold_for_risk(tuning)", conformal.threshold_for_risk, "conformal.threshold_for_risk",
     arguments={"score": INLIER, "correct": INLIER < 0.5, "risk": 0.3, "delta": 0.2, "tuning": SECOND_INLIER},
     infinite=_LOOSE)  # fmt: skip
_add(
    "conformal.RankHistogram",
    _ranks,
    arguments={"calibration": INLIER, "test": OUTLIER, "q": 0.3, "method": "storey", "threshold": 0.5, "delta": 0.2},
)
_functions(
    idealised,
    {
        "measure": {"q": JOINT, "name": "cp"},
        "p_lines": {"q": JOINT, "a": JOINT, "by_label": True},
        "efficiency": {"q": JOINT, "a": JOINT, "epsilon": 0.2, "by_label": False},
    },
)


# -- metrics ----------------------------------------------------------------------------------------------------------

_PAIR = {"inlier": INLIER, "outlier": OUTLIER}
_SELECTIVE = {"score": SCORE, "correct": CORRECT}
_BOOT = {"rng": RNG, "delta": 0.1, "resamples": 20}
_JUDGED = {"probs": PROBS, "labels": LABELS}
_SETS = {"covered": COVERED, "sizes": SIZES, "alpha": 0.2}
_SURE = "the label was given probability 0"
_WORK = {"work": ("resamples",)}
_functions(
    metrics,
    {
        "accuracy": {"outputs": TRAIN, "delta": 0.1},
        "coverage_verdict": {"covered": 85, "n": 100, "n_calibration": 90, "alpha": 0.1, "delta": 0.05},
        "adaptivity": {"sets": PredictionSets(MEMBER, alpha=0.2, level=0.8), "outputs": TRAIN, "ease": EASE, "bins": 4},
        **dict.fromkeys(("augrc", "aurc", "e_augrc", "e_aurc", "risk_curve"), _SELECTIVE),
        **dict.fromkeys(("auroc", "conservative_auroc", "detection_error", "roc_curve"), _PAIR),
        **{name: {**_SELECTIVE, **_BOOT, "method": "bootstrap"}
           for name in ("augrc_interval", "aurc_interval", "misclassification")},
        "selective_intervals": {**_SELECTIVE, **_BOOT, "method": "influence", "metrics": ("aurc", "augrc")},
        "aupr": {**_PAIR, "positive": "outlier"},
        "auroc_interval": {**_PAIR, "delta": 0.1},
        "balanced_augrc": {"score": EASE, "correct": COVERED, "labels": LABELS},
        "balanced_aurc": {"score": EASE, "correct": COVERED, "labels": LABELS},
        "better": {"first": {"S": 1.0, "U": 0.2}, "second": {"S": 2.0, "U": 0.1}, "criterion": "S", "tolerance": 0.0},
        "brier": _JUDGED,
        "calibration": {"outputs": TRAIN, **_BOOT, "bins": 5},
        "conformal_auroc": {**_PAIR, "delta": 0.1, "method": "exact", "ood": "sample", "two_sided": False,
                            "rng": RNG},
        "conformal_fpr_at_tpr": {**_PAIR, "tpr": 0.9, "positive": "outlier", "delta": 0.1, "method": "exact",
                                 "ood": "sample", "two_sided": False},
        "coverage": {"covered": COVERED, "delta": 0.1},
        "coverage_at_risk": {**_SELECTIVE, "risk": 0.3},
        "covgap": {"covered": COVERED, "labels": LABELS, "alpha": 0.2},
        "deficit": {"member": MEMBER, **_JUDGED},
        "excess": {"member": MEMBER, **_JUDGED},
        "steps_short_and_over": {"member": MEMBER, **_JUDGED},
        "ece": {**_JUDGED, "bins": 5, "by": "width"},
        "reliability": {**_JUDGED, "bins": 5, "by": "width"},
        "efficiency": {"p_values": PROBS, "labels": LABELS, "epsilon": 0.2, "phi": np.square},
        "escv": _SETS,
        "sscv": {**_SETS, "edges": (0, 2, 4)},
        "fpr_at_tpr": {**_PAIR, "tpr": 0.9, "positive": "outlier"},
        "interval_adaptivity": {"intervals": Intervals(MEAN - SCALE, MEAN + SCALE, alpha=0.2, level=0.8), "y": Y,
                                "mean": MEAN, "ease": EASE, "bins": 4},
        "nll": {"labels": LABELS, "probs": PROBS, "logits": None},
        "ood_failures": {"inlier": SCORE, "correct": CORRECT, "outlier": OUTLIER},
        "ood_protocol": {"inlier": SCORE, "correct": CORRECT, "outlier": OUTLIER, **_BOOT, "method": "influence"},
        "proportion_interval": {"hits": 3, "n": 10, "delta": 0.1},
        "rank_cv": {"covered": COVERED, "ranks": RANKS, "alpha": 0.2, "edges": (1, 2, 4)},
        "rank_ss": {"sizes": SIZES, "ranks": RANKS, "edges": (1, 2, 4)},
        "risk_at_coverage": {**_SELECTIVE, "coverage": 0.5},
        "t_cv": {"covered": COVERED, "ease": EASE, "alpha": 0.2, "bins": 4},
        "t_cv_floor": {"n": 60, "alpha": 0.2, "bins": 4, "share": 0.6},
        "t_cv_interval": {"covered": COVERED, "ease": EASE, "alpha": 0.2, "bins": 4, "delta": 0.1},
        "t_ss": {"sizes": SIZES, "ranks": RANKS, "ease": EASE, "bins": 4},
        "t_ss_ceiling": {"ranks": RANKS, "ease": EASE, "bins": 4},
        "t_ss_floor": {"bins": 10, "share": 0.6},
        "t_ss_interval": {"sizes": SIZES, "ranks": RANKS, "ease": EASE, "rng": RNG, "bins": 4, "delta": 0.1,
                          "repeats": 20},
        "true_ranks": _JUDGED,
        "width_error_r2": {"widths": SCALE, "errors": np.abs(Y - MEAN), "bins": 4},
        "width_error_tau": {"widths": SCALE, "errors": np.abs(Y - MEAN)},
        "worst_slab_coverage": {"covered": COVERED, "features": X, "rng": RNG, "delta": 0.2, "directions": 10,
                                "search_share": 0.5},
    },
    **dict.fromkeys(("augrc_interval", "aurc_interval", "misclassification", "selective_intervals"), _WORK),
    ood_protocol=_WORK,
    accuracy={"fields": {"outputs": LOGIT_FIELDS}},
    coverage_verdict={"work": ("n", "n_calibration")},
    nll={"infinite": _SURE},
    calibration={"infinite": _SURE, "work": ("resamples",), "fields": {"outputs": LOGIT_FIELDS}},
    t_cv_floor={"work": ("n",)}, t_ss_ceiling={"nan": "equal ranks everywhere"},
    t_ss_interval={"nan": "equal ranks everywhere", "work": ("repeats",)},
    adaptivity={"fields": {"outputs": LOGIT_FIELDS}, "nan": "equal ranks or sizes everywhere: nothing to follow"},
    worst_slab_coverage={"work": ("directions",), "nan": "no sample in the slab: documented, with a warning"},
    ood_failures={"infinite": "scores are returned as they came"},
    risk_curve={"infinite": "the threshold above which everything is accepted"},
    interval_adaptivity={"nan": "widths that do not vary or are infinite", "infinite": "the mean of infinite widths"},
    **{name: {"nan": "equal widths, ranks or strata: documented, with a warning"}
       for name in ("width_error_r2", "width_error_tau", "t_ss", "rank_ss", "escv")},
    reliability={"nan": "a bin without samples"},
)  # fmt: skip


def _placements(*, inlier: Any, outliers: Any, second: Any, delta: Any) -> Any:
    first, other = (metrics.Placements.of(inlier=given, outliers=outliers) for given in (inlier, second))
    return metrics.mean_auroc_interval(first, delta=delta), metrics.paired_p_value(first, other)


_add("metrics.Placements", _placements, "metrics.Placements", "metrics.mean_auroc_interval", "metrics.paired_p_value",
     arguments={"inlier": INLIER, "outliers": (OUTLIER, SECOND_OUTLIER), "second": SECOND_INLIER,
                "delta": 0.1})  # fmt: skip
_add("metrics.mean_auroc_interval", metrics.mean_auroc_interval,
     arguments={"placements": metrics.Placements.of(inlier=INLIER, outliers=[OUTLIER]), "delta": 0.1})  # fmt: skip
_add("metrics.paired_p_value", metrics.paired_p_value,
     arguments={"first": metrics.Placements.of(inlier=INLIER, outliers=[OUTLIER]),
                "second": metrics.Placements.of(inlier=SECOND_INLIER, outliers=[SECOND_OUTLIER])})  # fmt: skip


# -- stats ------------------------------------------------------------------------------------------------------------

_TIED = "ranks that leave no variance: the statistic is infinite"
_functions(
    stats,
    {
        "compare": {"table": TABLE, "alpha": 0.05, "lower_is_better": True, "methods": ["a", "b", "c"],
                    "posthoc": "conover"},
        "compare_regimes": {"table": {"set": np.repeat(["near", "far"], 4), "a": TABLE[:, 0], "b": TABLE[:, 1]},
                            "regime": "set", "alpha": 0.05, "lower_is_better": True, "posthoc": "wilcoxon"},
        "critical_difference": {"k": 4, "blocks": 10, "alpha": 0.05},
        "auroc_differences": {"inlier": {"a": INLIER, "b": SECOND_INLIER},
                              "outlier": {"a": OUTLIER, "b": SECOND_OUTLIER}, "delta": 0.1, "rng": RNG},
        "delong": {"inlier": (INLIER, SECOND_INLIER), "outlier": (OUTLIER, SECOND_OUTLIER), "delta": 0.1},
        "mcnemar": {"first": CORRECT, "second": CORRECT[::-1], "delta": 0.1},
        "friedman": {"ranks": stats.mid_ranks(TABLE)},
        "holm": {"p_values": _rng.random(6)},
        "mid_ranks": {"values": TABLE, "lower_is_better": True},
        "paired_bootstrap": {"first": SCORE, "second": SCORE[::-1], "correct": CORRECT, "metric": "augrc", "rng": RNG,
                             "delta": 0.1, "resamples": 20, "stratified": False},
        "permutation": {"first": SCORE, "second": SCORE[::-1], "correct": CORRECT, "metric": "augrc", "rng": RNG,
                        "permutations": 20},
    },
    compare={"infinite": _TIED}, compare_regimes={"infinite": _TIED}, friedman={"infinite": _TIED},
    paired_bootstrap={"work": ("resamples",)}, permutation={"work": ("permutations",)},
)  # fmt: skip

_TWO = {"alpha": 0.1, "rng": RNG, "resamples": 20}
_add("stats.compare_models", lambda **given: stats.compare_models(**given).rows(),
     arguments={"a": TRAIN, "b": TRAIN, "score": "energy", "outliers_a": FAR, "outliers_b": FAR,
                "questions": ["accuracy", "aurc", "auroc"], "names": ("one", "two"), **_TWO},
     work=("resamples",), fields=dict.fromkeys(("a", "b", "outliers_a", "outliers_b"), LOGIT_FIELDS))  # fmt: skip
_add("stats.compare_models(arrays)",
     lambda *, first, second, correct, other, outside, alpha: stats.compare_models(
         (first, correct), (second, other), outliers_a=outside, outliers_b=outside, alpha=alpha, resamples=20).rows(),
     "stats.compare_models",
     arguments={"first": SCORE, "second": SCORE[::-1].copy(), "correct": CORRECT, "other": CORRECT[::-1].copy(),
                "outside": OUTLIER, "alpha": 0.1})  # fmt: skip
_add("stats.rank_models",
     lambda *, one, two, score, alpha, rng, resamples: stats.rank_models(
         {"one": one, "two": two}, score=score, alpha=alpha, rng=rng, resamples=resamples),
     arguments={"one": TRAIN, "two": TRAIN, "score": "msp", **_TWO}, work=("resamples",),
     nan="a rank on one set of samples has no statistic over blocks",
     fields=dict.fromkeys(("one", "two"), LOGIT_FIELDS))  # fmt: skip


# -- geometry ---------------------------------------------------------------------------------------------------------

_KERNEL = {"degree": 3, "gamma": None, "offset": 1.0}
_functions(
    geometry,
    {
        "buckets": {"table": {"a": [0.1, 0.2], "b": [0.5, 0.4], "c": [0.9, 0.7]}, "names": ("near", "far"), "seed": 0},
        "frechet": {"first": X, "second": X[:20] + 1},
        "mmd": {"first": X, "second": X[:20] + 1, **_KERNEL},
        "neural_collapse": {"outputs": TRAIN, "projection": "none", "variance": 0.9},
        "proximities": {"inlier": X, "outliers": {"far": X[:20] + 1}, "labels": LABELS, "text": X[:C], **_KERNEL},
        "proximity": {"inlier": TRAIN, "outlier": FAR, "labels": None, "text": None, **_KERNEL},
    },
    neural_collapse={"fields": {"outputs": ("features", "labels", "head")}},
    proximity={"fields": {"inlier": ("embeddings", "labels"), "outlier": ("embeddings",)}},
)


# -- robust -----------------------------------------------------------------------------------------------------------

_UNIT = _rng.random((N, 3))
_MIXTURE = {"weights": np.array([0.4, 0.6]), "means": np.array([[0.2, 0.3, 0.4], [0.7, 0.6, 0.5]]),
            "variances": np.array([0.01, 0.02])}  # fmt: skip
_OUTSIDE = robust.Mixture(np.ones(1), np.full((1, 3), 0.5), np.array([0.3]))
_NET = {
    "0.dense.weight": _rng.normal(size=(4, 3)), "0.dense.bias": np.zeros(4), "1.relu.args": np.zeros(0),
    "2.dense.weight": _rng.normal(size=(2, 4)), "2.dense.bias": np.zeros(2),
}  # fmt: skip
_BOUNDED = {"inlier": INLIER, "outlier_upper": OUTLIER + 1}


def _mixture(*, x: Any, **parts: Any) -> Any:
    return robust.Mixture(**parts).log_density(x)


def _density_ratio(
    *, inside: Any, outside: Any, out_weight: Any, transform: Any, x: Any, epsilon: Any, clip: Any, method: Any,
    side: Any
) -> Any:  # fmt: skip
    ratio = robust.DensityRatio(inside, outside, out_weight, transform)
    return ratio.log_ratio(x), ratio.bounds(x, epsilon, clip=clip, method=method, side=side)


def _network(*, arrays: Any, x: Any, epsilon: Any, clip: Any) -> Any:
    net = robust.Network.of(arrays)
    return net.logits(x), net.difference_bounds(x, epsilon, clip=clip), net.confidence_bounds(x, epsilon, clip=clip)


_add("robust.Mixture", _mixture, arguments={**_MIXTURE, "x": _UNIT})
_add("robust.DensityRatio", _density_ratio,
     arguments={"inside": robust.Mixture(**_MIXTURE), "outside": _OUTSIDE, "out_weight": 1.0, "transform": np.eye(3),
                "x": _UNIT, "epsilon": 0.1, "clip": (0.0, 1.0), "method": "pairs", "side": "both"},
     infinite="the side that was not asked for")  # fmt: skip
_add("robust.Network", _network, arguments={"arrays": _NET, "x": _UNIT, "epsilon": 0.1, "clip": (0.0, 1.0)})
_functions(
    robust,
    {
        "adversarial_auroc": {"inlier": INLIER, "outlier_attacked": OUTLIER, "conservative": False},
        "certified_sets": {"alpha": 0.2, "calibration": INLIER, "test_lower": PROBS, "calibration_upper": None,
                           "test": None, "labels": None, "delta": None},
        "conformal_guaranteed_auroc": {**_BOUNDED, "delta": 0.1, "method": "exact", "ood": "sample"},
        "guaranteed_auroc": {**_BOUNDED, "conservative": False},
        "guaranteed_aupr": {**_BOUNDED, "positive": "inlier"},
        "guaranteed_fpr_at_tpr": {**_BOUNDED, "tpr": 0.9},
        "two_sided_auroc": {"inlier_lower": INLIER, "outlier_upper": OUTLIER, "conservative": False},
        "eigenvalue_radius": {"epsilon": 0.1, "covariance": np.diag([1.0, 2.0])},
        "metric_radius": {"epsilon": 0.1, "d": 3, "transform": np.eye(3)},
        "fit_mixture": {"x": _UNIT, "components": 2, "rng": RNG, "covariance": "spherical", "iterations": 3,
                        "floor": 1e-4},
        "fit_density_ratio": {"inlier": _UNIT, "outlier": _UNIT + 1, "rng": RNG, "components": 2,
                              "covariance": "spherical", "out_weight": 1.0, "iterations": 3},
        "gated_log_confidence": {"log_ratio": INLIER, "n_classes": 3, "log_confidence": -np.abs(INLIER)},
        "sandwich": {"inlier": INLIER, "outlier": OUTLIER, "outlier_attacked": OUTLIER + 0.1,
                     "outlier_upper": OUTLIER + 0.2, "zero_gradient_share": 0.1, "tolerance": 1e-9},
        "smoothed_mean_bounds": {"samples": _UNIT, "sigma": 0.5, "radius": 0.1, "delta": 0.1, "kind": "soft",
                                 "together": False},
        "smoothed_quantile_bounds": {"samples": _UNIT, "sigma": 0.5, "radius": 0.1, "p": 0.5, "delta": 0.4,
                                     "together": False},
    },
    certified_sets={"infinite": _LOOSE},
    metric_radius={"work": ("d",)},
    fit_mixture={"work": ("iterations",)}, fit_density_ratio={"work": ("iterations",)},
    smoothed_quantile_bounds={"infinite": "too few samples for a bound"},
)  # fmt: skip


# -- the top of the package -------------------------------------------------------------------------------------------


def _outputs(*, rows: Any, head_weight: Any, head_bias: Any, **arrays: Any) -> Any:
    made = Outputs(head=Head(head_weight, head_bias), **arrays)
    return made[rows], made.probs, made.predictions, made.correct, made.n_classes, list(made.blocks()), repr(made)


def _probabilities(*, probs: Any, labels: Any, check: Any) -> Any:
    made = Outputs(probs=probs, labels=labels, check=check)
    return made.predictions, made.correct, made.n_classes


def _classifier(
    *, estimator: Any, score: Any, alpha: Any, by: Any, delta: Any, x: Any, y: Any, test: Any, rng: Any
) -> Any:
    model = caveat.wrap(estimator, score=score, alpha=alpha, by=by, delta=delta).calibrate(x, y, rng)
    return model.predict_set(test, rng), model.predict_labels(test, rng), model.predict_p(test, rng)


def _regressor(
    *, estimator: Any, scale: Any, alpha: Any, by: Any, delta: Any, x: Any, y: Any, test: Any
) -> Any:  # fmt: skip
    model = caveat.wrap(estimator, scale=scale, alpha=alpha, by=by, delta=delta).calibrate(x, y)
    return model.predict_interval(test)


def _cross_classifier(*, x: Any, y: Any, test: Any, rng: Any, seed: Any, **settings: Any) -> Any:
    model = caveat.wrap(LogisticRegression(), **settings).fit(x, y, rng, seed=seed)
    return model.predict_set(test, rng), model.predict_p(test, rng)


def _cross_regressor(*, x: Any, y: Any, test: Any, seed: Any, **settings: Any) -> Any:
    return caveat.wrap(LinearRegression(), **settings).fit(x, y, seed=seed).predict_interval(test)


_add("Outputs", _outputs, "Outputs", "Head",
     arguments={"logits": np.array(TEST.logits), "features": np.array(TEST.features), "labels": np.array(TEST.labels),
                "mc_logits": np.array(TEST.mc_logits), "confidence": np.array(TEST.confidence),
                "layers": {"pool": np.array(TEST.layers["pool"])}, "embeddings": np.array(TEST.embeddings),
                "ease_probs": np.array(TEST.ease_probs), "head_weight": np.array(TEST.head.weight),
                "head_bias": np.array(TEST.head.bias), "rows": np.arange(5)})  # fmt: skip
_add("Outputs(probs)", _probabilities, "Outputs", arguments={"probs": PROBS, "labels": LABELS, "check": True})
_add("Head.logits", lambda *, weight, bias, features: Head(weight, bias).logits(features), "Head",
     arguments={"weight": np.ones((C, D)), "bias": np.zeros(C), "features": X})  # fmt: skip
_add("wrap(classifier)", _classifier, "wrap",
     arguments={"estimator": LogisticRegression().fit(X, LABELS), "score": "lac", "alpha": 0.2, "by": None,
                "delta": None, "x": X, "y": LABELS, "test": X[:9], "rng": RNG},
     infinite=_LOOSE, theirs=("x", "test", "by", "scale"))  # fmt: skip
_add("wrap(cross classifier)", _cross_classifier, "wrap",
     arguments={"score": "lac", "alpha": 0.2, "by": None, "nonempty": False, "cv": 3, "x": X, "y": LABELS,
                "test": X[:9], "rng": RNG, "seed": 0},
     infinite=_LOOSE, theirs=("x", "y", "test", "by"))  # fmt: skip
_add("wrap(cross regressor)", _cross_regressor, "wrap",
     arguments={"scale": None, "alpha": 0.2, "by": None, "cv": 3, "x": X, "y": Y, "test": X[:9], "seed": 0},
     infinite=_LOOSE, theirs=("x", "y", "test", "by", "scale"))  # fmt: skip
_add("wrap(regressor)", _regressor, "wrap",
     arguments={"estimator": LinearRegression().fit(X, Y), "scale": None, "alpha": 0.2, "by": None, "delta": None,
                "x": X, "y": Y, "test": X[:9]}, infinite=_LOOSE, theirs=("x", "test", "by", "scale"))  # fmt: skip


# -- public names without a call --------------------------------------------------------------------------------------

RECORDS = {  # results: functions make them from values that they have checked
    "conformal.Tuned", "metrics.CoverageVerdict", "metrics.Calibration", "metrics.FailureDetection",
    "metrics.Reliability", "metrics.RiskCurve", "stats.Comparison", "stats.Friedman",
    "stats.ModelComparison", "stats.PairedTest",
    "geometry.NeuralCollapse", "geometry.Proximity", "robust.Sandwich", "scores.Entry", "scores.DetectorEntry",
    "scores.Trial", "scores.Tuned",
}  # fmt: skip
ELSEWHERE = {  # why there is nothing to fuzz here
    "conformal.Nonconformity": "abstract",
    "scores.Score": "abstract",
    "conformal.idealised": "a module, whose functions have calls of their own",
    "conformal.idealised.OPTIMAL": "a constant",
    "scores.catalogue": "takes no argument",
    "scores.detectors": "takes no argument",
    "scores.load": "reads a folder; damaged files are tested with the files",
}

# -- scale ------------------------------------------------------------------------------------------------------------

_HELD = scores.Energy().score(TRAIN)


def _fitted_by_ranges(*, train: Any, outputs: Any, rows_per_task: Any) -> Any:
    return scale.fit("mahalanobis", train, rows_per_task=rows_per_task).score(outputs)


def _by_ranges(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*, outputs: Any, **options: Any) -> Any:
        result = function(scores.Energy(), outputs, **options)
        return result.values if isinstance(result, scale.PValues) else result

    return run


def _bounds(*, inlier: Any, outlier: Any, reference: Any, tpr: Any) -> Any:
    parts = {name: conformal.RankHistogram.of(calibration=reference, test=part) for name, part in
             (("inlier", inlier), ("outlier", outlier))}  # fmt: skip
    return tuple(vars(scale.detection_bounds(**parts, tpr=tpr)).values())


_add("scale.fit", _fitted_by_ranges, arguments={"train": TRAIN, "outputs": TEST, "rows_per_task": 10},
     fields={"train": ("features", "labels"), "outputs": ("features",)})  # fmt: skip
for _name, _options in (
    ("score", {}),
    ("p_values", {"calibration": _HELD}),
    ("select_outliers", {"calibration": _HELD, "q": 0.1, "method": "bh"}),
):
    _add(f"scale.{_name}", _by_ranges(getattr(scale, _name)), fields={"outputs": ("logits",)},
         arguments={"outputs": TEST, "rows_per_task": 10, **_options})  # fmt: skip
_add("scale.knn_scores", scale.knn_scores, fields={"bank": ("features",), "source": ("features",)},
     arguments={"bank": TRAIN, "source": TEST, "k": 3, "rows_per_task": 10})  # fmt: skip
_add("scale.detection_bounds", _bounds,
     arguments={"inlier": INLIER, "outlier": OUTLIER, "reference": SECOND_INLIER, "tpr": 0.95})  # fmt: skip
_add("scale.sample", lambda *, outputs, rows, seed: scale.sample(outputs, rows, seed=seed).logits,
     arguments={"outputs": TEST, "rows": 10, "seed": 0}, fields={"outputs": ("logits",)})  # fmt: skip
