from __future__ import annotations

import pytest

from caveat import InputError, scores
from caveat.scores.catalogue import ALIASES

LOGIT_SCORES = {
    "msp", "tempscale", "max_logit", "energy", "entropy", "gen", "renyi", "guessing", "collision", "kl_matching",
    "openmax", "confidence", "mc_msp", "mc_entropy", "mc_expected_entropy", "mc_mutual_information", "mc_variance",
}  # fmt: skip


def test_the_logit_scores_are_all_there():
    assert {entry.name for entry in scores.catalogue()} >= LOGIT_SCORES


def test_names_are_unique_and_every_score_is_exported():
    entries = scores.catalogue()
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert getattr(scores, entry.score.__name__) is entry.score


def test_parameters_with_their_defaults():
    gen = next(entry for entry in scores.catalogue() if entry.name == "gen")
    assert dict(gen.params) == {"gamma": 0.1, "top": 100}
    assert set(gen.grid) == {"gamma", "top"}


@pytest.mark.parametrize("entry", scores.catalogue(), ids=lambda entry: entry.name)
def test_make_builds_with_the_listed_defaults(entry):
    score = scores.make(entry.name, **entry.params)
    assert type(score) is entry.score
    assert {key: getattr(score, key) for key in entry.params} == dict(entry.params)


def test_parameters_reach_the_score():
    assert scores.make("knn", k=7).k == 7


def test_unknown_names_get_a_suggestion():
    with pytest.raises(InputError, match="unknown score 'mahalonobis'. Did you mean 'mahalanobis'"):
        scores.make("mahalonobis")
    with pytest.raises(
        InputError, match="unknown parameter of score 'energy' 'temperatur'. Did you mean 'temperature'"
    ):
        scores.make("energy", temperatur=2)
    with pytest.raises(InputError, match="score 'entropy' takes no parameters, got 'gamma'"):
        scores.make("entropy", gamma=1)


def test_scores_that_ask_the_model_are_named_with_their_place():
    with pytest.raises(InputError, match=r"score 'odin' runs the model itself.* Use caveat.nn.ODIN\(model\)"):
        scores.make("odin")


def test_names_from_elsewhere_find_the_score():
    names = {entry.name for entry in scores.catalogue()}
    for alias, name in ALIASES.items():
        assert name in names
        assert alias not in names
        assert repr(scores.make(alias)) == repr(scores.make(name))
    mahalanobis = next(entry for entry in scores.catalogue() if entry.name == "mahalanobis")
    assert "mds" in mahalanobis.also_known_as


@pytest.mark.parametrize(
    ("written", "name"),
    [("MSP", "msp"), ("KNN", "knn"), ("ViM", "vim"), ("MDS", "mahalanobis"), ("DICE", "dice"), ("max softmax", "msp"),
     ("KLMatching", "kl_matching"), ("max-logit", "max_logit"), ("Energy", "energy"), ("CTMMean", "ctm_mean")],
)  # fmt: skip
def test_capitals_and_class_names_find_the_score(written, name):
    assert scores.make(written).name == name


def test_every_name_finds_its_own_score_however_it_is_written():
    for entry in scores.catalogue():
        for written in (entry.name, entry.name.upper(), type(entry.score()).__name__, *entry.also_known_as):
            assert scores.make(written).name == entry.name
    with pytest.raises(InputError, match="runs the model itself"):
        scores.make("ODIN")


def test_a_projection_takes_the_name_of_a_score():
    assert repr(scores.Projected("energy", "global")) == repr(scores.Projected(scores.make("energy"), "global"))
