from __future__ import annotations

import pytest

from caveat import InputError, scores


def test_every_name_builds_its_score():
    for entry in scores.catalogue():
        assert type(scores.make(entry.name)) is entry.score


def test_names_are_unique_and_every_score_is_exported():
    entries = scores.catalogue()
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert getattr(scores, entry.score.__name__) is entry.score


def test_parameters_reach_the_score():
    assert scores.make("knn", k=7).k == 7


def test_unknown_names_get_a_suggestion():
    with pytest.raises(InputError, match="unknown score 'mahalonobis'. Did you mean 'mahalanobis'"):
        scores.make("mahalonobis")
    with pytest.raises(
        InputError, match="unknown parameter of score 'energy' 'temperatur'. Did you mean 'temperature'"
    ):
        scores.make("energy", temperatur=2)
