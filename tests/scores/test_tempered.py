from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caveat import Head, InputError, Outputs, scores
from caveat.scores import GEN, KNN, MSP, Energy, MaxLogit, Projected, Tempered, TempScale, ViM, load, with_temperature
from caveat.scores.tempered import reads_logits

T = 2.5


@pytest.mark.parametrize(
    "score", [MSP(), GEN(), Energy(), ViM(), KNN(k=3), Projected(GEN(), "global"), scores.make("nnguide", k=3)]
)
def test_it_is_the_score_on_divided_logits(score, train, make_outputs):
    outputs = make_outputs(seed=9, n=60)
    tempered = Tempered(score, T)
    if score.fits_on:
        tempered.fit(train, rng=1)
        score = replace(score).fit(with_temperature(train, T), rng=1)
    np.testing.assert_allclose(tempered.score(outputs), score.score(with_temperature(outputs, T)), rtol=1e-12)
    assert tempered.name == score.name


def test_by_hand():
    # p = softmax(4/2, 0) = e^2 / (e^2 + 1)
    assert Tempered(MSP(), 2.0).score(Outputs(logits=[[4.0, 0.0]])) == pytest.approx([-(np.e**2) / (np.e**2 + 1)])


def test_class_scores_are_those_at_the_temperature(make_outputs):
    outputs = make_outputs(seed=3, n=20)
    expected = MSP().class_scores(with_temperature(outputs, T))
    np.testing.assert_array_equal(Tempered(MSP(), T).class_scores(outputs), expected)


def test_it_is_saved_and_read_back(train, make_outputs, tmp_path):
    outputs = make_outputs(seed=4, n=30)
    for score in (Tempered(GEN(), T), Tempered(Projected(Energy(), "class_pred"), T).fit(train)):
        score.save(tmp_path / "score")
        again = load(tmp_path / "score")
        assert again.temperature == T
        np.testing.assert_array_equal(again.score(outputs), score.score(outputs))


def test_what_cannot_be_tempered():
    with pytest.raises(InputError, match="such as GEN"):
        Tempered(Tempered(MSP(), 2.0), 2.0)
    with pytest.raises(InputError, match="finds its own temperature"):
        Tempered(TempScale(), 2.0)
    with pytest.raises(InputError, match="temperature"):
        Tempered(MSP(), 0.0)


def test_the_head_is_divided_too():
    head = Head([[1.0, 0.0], [0.0, 1.0]])
    features = Outputs(features=[[4.0, 0.0]], head=head)
    np.testing.assert_allclose(Tempered(MaxLogit(), 2.0).score(features), [-2.0])


def test_only_scores_of_logits_are_asked_for_a_temperature():
    assert reads_logits(Projected(GEN(), "global"))
    assert reads_logits(ViM())
    assert not reads_logits(Projected(scores.PCAError(), "global"))
