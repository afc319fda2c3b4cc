"""What each score of the study learns from."""

from __future__ import annotations

import os

import numpy as np
import pytest

from caveat import Head, Outputs
from caveat.metrics import augrc
from caveat.scores import GEN, MSP, TempScale
from caveat.scores.settings import tune_settings


def drawn(rng, n, labels=True):
    features = rng.normal(size=(n, 4))
    logits = features @ np.eye(4)[:, :3]
    truth = {"labels": rng.integers(3, size=n)} if labels else {}
    return Outputs(features=features, logits=logits, head=Head(np.eye(4)[:3]), **truth)


@pytest.mark.parametrize("name", ["tempscale", "mahalanobis"])
def test_a_temperature_is_fitted_on_held_out_rows_only(study, monkeypatch, name):
    """On test images of the other folds: never on training outputs, never on the fold that is measured."""
    module = study("scores_on_cnn")
    rng = np.random.default_rng(0)
    train, test = drawn(rng, 300), drawn(rng, 200)
    outliers = {"noise": drawn(rng, 100, labels=False)}
    kind = type(module.variants(train, test)[name])
    learned, fit = [], kind.fit

    def seen(self, outputs, *args, **settings):
        learned.append({tuple(row) for row in outputs.logits})
        return fit(self, outputs, *args, **settings)

    monkeypatch.setattr(kind, "fit", seen)
    rows = module.measure(name, module.NOTHING, train, test, outliers)
    assert len(rows) == module.FOLDS * 2 * 2
    tested, trained = {tuple(row) for row in test.logits}, {tuple(row) for row in train.logits}
    if name != "tempscale":
        assert learned == [trained]
        return
    assert len(learned) == module.FOLDS
    assert all(part < tested for part in learned)
    left_out = [tested - part for part in learned]
    assert set.union(*left_out) == tested  # each fold once: five disjoint parts of 40
    assert [len(part) for part in left_out] == [40] * 5


def test_only_a_temperature_is_held_out():
    assert TempScale().held_out
    assert not MSP().held_out


@pytest.mark.parametrize("tuned", ["temperature and parameters", "parameters"])
def test_settings_are_chosen_on_the_other_folds(study, monkeypatch, tuned):
    module = study("scores_on_cnn")
    rng = np.random.default_rng(0)
    train, test = drawn(rng, 300), drawn(rng, 200)
    looked_at, choose = [], module.tune_settings

    def seen(score, **data):
        looked_at.append({tuple(row) for row in data["validation"].logits})
        return choose(score, **data)

    monkeypatch.setattr(module, "tune_settings", seen)
    rows = module.measure("gen", tuned, train, test, {"noise": drawn(rng, 100, labels=False)})
    tested = {tuple(row) for row in test.logits}
    assert [len(part) for part in looked_at] == [160] * 5
    assert set.union(*(tested - part for part in looked_at)) == tested  # each fold is left out once
    assert all(("temperature" in row["settings"]) == (tuned == module.ALL) for row in rows)
    assert all("gamma=" in row["settings"] for row in rows)


@pytest.mark.slow
@pytest.mark.skipif("CAVEAT_DATA" not in os.environ, reason="needs CAVEAT_DATA")
def test_gamma_chosen_on_one_half_of_the_test_images_lowers_the_augrc_on_the_other(study):
    _, test, _ = study("scores_on_cnn").load()
    half = np.random.default_rng(0).permutation(test.n) < test.n // 2
    chosen = tune_settings(GEN(), train=None, validation=test[half], keep=("temperature",))
    other = test[~half]
    before, after = (augrc(score=score.score(other), correct=other.correct) for score in (GEN(), chosen.score))
    assert chosen.params["gamma"] == 0.5
    assert (round(1000 * before, 2), round(1000 * after, 2)) == (43.14, 40.53)
