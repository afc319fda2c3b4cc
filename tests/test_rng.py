"""Every public function with a random step takes a generator or an int seed."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

from caveat import Guard, Head, InputError, Outputs, conformal, evaluate, metrics, scale, scores, stats
from caveat.conformal import SplitSets
from caveat.scores import KNN, KernelPCAError, NNGuide
from caveat_lab import data

HOUSES = {
    "caveat": ("conformal", "metrics", "stats", "demo", "scores", "guard", "scale"),
    "caveat_lab": ("geometry", "robust"),
}


def with_rng():
    for package in [f"{house}.{name}" for house, names in HOUSES.items() for name in names]:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            members = [thing] if inspect.isfunction(thing) else []
            if inspect.isclass(thing):
                members = [member for key, member in inspect.getmembers(thing, inspect.isfunction) if key[0] != "_"]
            for member in members:
                if "rng" in inspect.signature(member).parameters:
                    yield pytest.param(member, id=f"{package}.{member.__qualname__}")


@pytest.mark.parametrize("function", list(with_rng()))
def test_a_seed_is_a_generator_too(function):
    assert "Rng" in str(inspect.signature(function).parameters["rng"].annotation)


LOGITS = np.random.default_rng(0).normal(size=(60, 3))
OUTPUTS = Outputs(logits=LOGITS, labels=LOGITS.argmax(axis=1))
SCORE, CORRECT = np.arange(30.0), np.arange(30) % 4 > 0
CALLS = {
    "p_values": lambda rng: conformal.p_values(calibration=SCORE, test=SCORE, rng=rng),
    "logit_noise_ease": lambda rng: conformal.logit_noise_ease(OUTPUTS, sigma=1.0, rng=rng),
    "tune_raps": lambda rng: conformal.tune_raps(OUTPUTS, alpha=0.2, rng=rng).table,
    "boundary": lambda rng: conformal.boundary(200, 0.1, "monte_carlo", rng=rng, draws=100),
    "augrc_interval": lambda rng: metrics.augrc_interval(score=SCORE, correct=CORRECT, method="bootstrap", rng=rng),
    "ood_protocol": lambda rng: metrics.ood_protocol(
        inlier=SCORE, correct=CORRECT, outlier=SCORE, method="bootstrap", rng=rng
    ),
    "calibration": lambda rng: metrics.calibration(OUTPUTS, rng=rng, resamples=50),
    "paired_bootstrap": lambda rng: stats.paired_bootstrap(first=SCORE, second=-SCORE, correct=CORRECT, rng=rng),
    "noise": lambda rng: data.noise(2, rng),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_seed_gives_what_its_generator_gives(call):
    assert repr(call(3)) == repr(call(np.random.default_rng(3)))
    with pytest.raises(InputError, match="rng must be a numpy.random.Generator"):
        call("3")


def test_the_same_seed_calibrates_and_predicts_with_different_draws():
    """Shared draws would tie each test row to a calibration row, and exchangeability would be gone."""
    same = Outputs(logits=np.zeros((5000, 4)), labels=np.random.default_rng(1).integers(4, size=5000))
    sets = SplitSets("aps", alpha=0.2).calibrate(same, 7)
    labeled = sets.p_values(same, 7, smoothed=False)[np.arange(5000), same.labels]
    # Rows are equal but for u: with shared draws a row's p-value would be its own rank among the calibration draws,
    # so that p-values would be exactly uniform on the grid, without one pair of equal values.
    assert np.unique(labeled).size < 5000


ROWS = np.random.default_rng(5).normal(size=(600, 6))
PARTS = [
    Outputs(features=ROWS[part], labels=np.arange(200) % 3, head=Head(np.eye(3, 6) + ROWS[:3]))
    for part in (slice(200), slice(200, 400), slice(400, 600))
]
FITS = {
    "score": lambda rng: NNGuide(k=2, share=0.1).fit(PARTS[0], rng=rng).score(PARTS[1]),
    "score_all": lambda rng: scores.score_all(PARTS[0], PARTS[1], "nnguide", rng=rng)["nnguide"],
    "tune": lambda rng: scores.tune(
        "nnguide", {"k": [2]}, train=PARTS[0], validation=PARTS[1], rng=rng
    ).score.score(PARTS[1]),
    "projected": lambda rng: scores.Projected(NNGuide(k=2, share=0.1), "global").fit(PARTS[0], rng=rng).score(PARTS[1]),
    "guard": lambda rng: Guard(NNGuide(k=2, share=0.1), sets=None).fit(PARTS[0], rng=rng)
    .calibrate(PARTS[1]).calibration_scores_,
    "scale": lambda rng: scale.fit(KernelPCAError(features="fourier"), PARTS[0], rng=rng).score(PARTS[1]),
    "ivf": lambda rng: KNN(k=2, index="ivf", clusters=9).fit(PARTS[0], rng=rng).centroids_,
}  # fmt: skip


@pytest.mark.parametrize("fit", FITS)
def test_a_fit_draws_from_its_rng_and_from_nothing_else(fit):
    if fit == "ivf":
        pytest.importorskip("faiss")
    first, same, other = (FITS[fit](rng) for rng in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    drawn = [FITS[fit](np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    rng = np.random.default_rng(3)
    assert not np.array_equal(FITS[fit](rng), FITS[fit](rng))


def test_the_guard_of_an_evaluation_draws_as_the_evaluation_did():
    train, calibration, inlier = PARTS
    made = evaluate(train=train, calibration=calibration, inlier=inlier, scores=["nnguide"], seed=4, risk=0.9)
    assert made.guard(train, calibration).threshold_ == made.decision.threshold
    other = evaluate(train=train, calibration=calibration, inlier=inlier, scores=["nnguide"], seed=0, risk=0.9)
    assert other.decision.threshold != made.decision.threshold
