"""All settings of a score on validation data: temperature by likelihood, the rest by AUGRC of misclassification."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from caveat import Outputs
from caveat.metrics import augrc
from caveat.scores import (
    GEN,
    KNN,
    MSP,
    NECO,
    Energy,
    KernelPCAError,
    Projected,
    Renyi,
    TempScale,
    ViM,
    fit_temperature,
    tune,
    with_temperature,
)
from caveat.scores.settings import tune_settings


@pytest.fixture
def validation(make_outputs):
    return make_outputs(seed=2, n=200)


def test_gamma_is_the_best_at_the_fitted_temperature(train, validation):
    chosen = tune_settings(GEN(), train=train, validation=validation)
    temperature = fit_temperature(validation)
    scaled = with_temperature(validation, temperature)
    values = {g: augrc(score=GEN(gamma=g).score(scaled), correct=validation.correct) for g in GEN.grid["gamma"]}
    assert chosen.params["temperature"] == temperature
    assert chosen.value == pytest.approx(min(values.values()))
    assert values[chosen.params["gamma"]] == pytest.approx(chosen.value)
    assert len(chosen.table) == 7  # four classes: every value of top is the same


def test_a_projected_score_has_its_variance_and_inner_parameters_chosen(train, validation):
    projected = Projected(Renyi(), "global")
    chosen = tune_settings(projected, train=train, validation=validation, keep=("temperature",))
    values = {}
    for variance, order in itertools.product((0.5, 0.8, 0.9, 0.95, 0.99), Renyi.grid["order"]):
        score = Projected(Renyi(order=order), "global", variance=variance).fit(train)
        values[variance, order] = augrc(score=score.score(validation), correct=validation.correct)
    assert chosen.value == pytest.approx(min(values.values()))
    assert (chosen.score.variance, chosen.score.inner.order) == (chosen.params["variance"], chosen.params["order"])
    assert values[chosen.params["variance"], chosen.params["order"]] == pytest.approx(chosen.value)


def test_the_variance_of_a_projection_shadows_that_of_the_score_inside(train, validation):
    table = tune(Projected(KernelPCAError(), "global"), train=train, validation=validation).table
    assert {trial.params["variance"] for trial in table} == {0.5, 0.8, 0.9, 0.95, 0.99}


def test_components_are_chosen_within_the_width(train, validation):
    width = train.features.shape[1]
    chosen = tune_settings(ViM(), train=train, validation=validation)
    tried = [trial.params["dimension"] for trial in chosen.table]
    assert tried[0] is None
    assert all(0 < dimension < width for dimension in tried[1:])
    assert tune_settings(NECO(), train=train, validation=validation).params["variance"] in NECO.grid["variance"]


def test_what_the_user_gave_stays(train, validation):
    chosen = tune_settings(GEN(gamma=0.3), train=train, validation=validation, keep=("gamma", "temperature"))
    assert "gamma" not in chosen.params
    assert "temperature" not in chosen.params
    assert chosen.score.gamma == 0.3


def test_without_a_parameter_only_the_temperature_is_fitted(train, validation):
    chosen = tune_settings(Energy(), train=None, validation=validation)
    assert list(chosen.params) == ["temperature"]
    scaled = with_temperature(validation, fit_temperature(validation))
    assert chosen.value == pytest.approx(augrc(score=Energy().score(scaled), correct=validation.correct))
    assert chosen.table == ()
    own = tune_settings(TempScale(), train=train, validation=validation)
    assert own.params == {}
    assert own.score.temperature_ == fit_temperature(validation)


def test_scores_of_features_get_no_temperature(train, validation):
    assert list(tune_settings(KNN(), train=train, validation=validation).params) == ["k"]


def test_with_no_error_to_learn_from_the_defaults_stay(train, make_outputs):
    outputs = make_outputs(seed=2, n=50)
    right = Outputs(logits=outputs.logits, features=outputs.features, labels=outputs.predictions, head=outputs.head)
    chosen = tune_settings(GEN(), train=train, validation=right)
    assert "All 50 answers on the tuning rows are right" in chosen.caveat
    assert chosen.params == {"temperature": 1.0}
    assert math.isnan(chosen.value)
    assert "no error that a temperature" in tune_settings(MSP(), train=None, validation=right).caveat


def test_labels_are_needed(make_outputs):
    with pytest.raises(ValueError, match="tuning rows"):
        tune_settings(GEN(), train=None, validation=Outputs(logits=np.eye(3)))
