from __future__ import annotations

import pytest

from caveat import InputError
from caveat.scores import catalogue, make

LOGIT_SCORES = {
    "msp", "tempscale", "max_logit", "energy", "entropy", "gen", "renyi", "guessing", "collision", "kl_matching",
    "openmax", "confidence", "mc_msp", "mc_entropy", "mc_expected_entropy", "mc_mutual_information", "mc_variance",
}  # fmt: skip


def test_the_logit_scores_are_all_there():
    assert {entry.name for entry in catalogue()} >= LOGIT_SCORES


def test_names_are_unique():
    names = [entry.name for entry in catalogue()]
    assert len(set(names)) == len(names)


def test_parameters_with_their_defaults():
    gen = next(entry for entry in catalogue() if entry.name == "gen")
    assert dict(gen.params) == {"gamma": 0.1, "top": 100}
    assert set(gen.grid) == {"gamma", "top"}


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
def test_make_builds_with_the_listed_defaults(entry):
    score = make(entry.name, **entry.params)
    assert type(score) is entry.score
    assert {key: getattr(score, key) for key in entry.params} == dict(entry.params)


def test_messages():
    with pytest.raises(InputError, match=r"unknown score 'enrgy'. Did you mean 'energy'\?"):
        make("enrgy")
    with pytest.raises(InputError, match="score 'entropy' takes no parameters, got 'gamma'"):
        make("entropy", gamma=1)
