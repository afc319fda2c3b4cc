from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.stats import compare_models, holm, rank_models


def said(rng, strength, labels):
    return Outputs(logits=strength * np.eye(4)[labels] + rng.normal(size=(labels.size, 4)), labels=labels)


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(1)
    labels = rng.integers(4, size=1500)
    return {name: said(rng, strength, labels) for name, strength in (("weak", 1), ("good", 3), ("fine", 3))}


def test_every_pair_is_tested_as_by_itself(models):
    ranked = rank_models(models, questions=["accuracy", "auroc_of_errors"])
    pairs = [("weak", "good"), ("weak", "fine"), ("good", "fine")]
    for question, ranking in ranked.items():
        alone = [compare_models(models[a], models[b], questions=[question])[question].p_value for a, b in pairs]
        for (a, b), adjusted in zip(pairs, holm(alone), strict=True):
            assert ranking.pairwise[a, b] == ranking.pairwise[b, a] == pytest.approx(adjusted)


def test_ties_share_a_rank_and_a_letter(models):
    for question, ranking in rank_models(models).items():
        assert {ranking.rank(name) for name in ("good", "fine")} == {1}, question
        assert ranking.rank("weak") == 3
        assert ranking.what == "models"
        assert ranking.values is not None
        assert "3 models on the same samples" in ranking.summary()
    assert rank_models(models)["augrc"].lower_is_better


def test_outliers_add_the_question_of_detection(models):
    rng = np.random.default_rng(1)
    outliers = {name: said(rng, 0.0, np.zeros(300, int)) for name in models}
    ranked = rank_models(models, outliers=outliers, score={"weak": "energy", "good": "energy", "fine": "msp"})
    assert ranked["auroc"].posthoc == "delong"
    with pytest.raises(InputError, match="outliers must name the models"):
        rank_models(models, outliers={"weak": outliers["weak"]})


def test_a_ranking_needs_two_models(models):
    with pytest.raises(InputError, match="at least 2 models"):
        rank_models({"weak": models["weak"]})
