"""Models of a study, ranked on their shared rows or over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat.evaluation.model_ranking import rank_study_models
from caveat.evaluation.records import Answers, Block, Method, Scores
from caveat.stats import compare_models, rank_models


def model(name, strength, *, seed=0, n=600, methods=("msp", "energy"), labels="rows", outliers=("far",)):
    """Records of one model that is right more often the larger its strength."""
    rng = np.random.default_rng([seed, len(name), n])
    hard = np.random.default_rng(seed).normal(size=n)  # shared by all models
    correct = hard + rng.normal(size=n) < strength
    records = [Answers(Block(name, seed), "inlier", correct.astype(float), labels)]
    for k, method in enumerate(methods):
        values = hard + 0.5 * rng.normal(size=n) + 0.2 * k
        records.append(Scores(Block(name, seed), Method(method), "inlier", values))
        for outlier in outliers:
            far = rng.normal(strength, size=80)
            records.append(Scores(Block(name, seed, outlier), Method(method), "outlier", far))
    return records


def test_one_seed_is_paired_on_the_rows():
    records = [*model("a", 0.5), *model("bb", 2.5), *model("ccc", 2.5)]
    found = rank_study_models(records)
    assert found.method == "msp"
    assert list(found.rankings) == ["accuracy", "aurc", "augrc", "auroc_of_errors", "auroc"]
    accuracy = found.rankings["accuracy"]
    assert (accuracy.posthoc, accuracy.rank("a"), accuracy.rank("bb"), accuracy.rank("ccc")) == ("mcnemar", 3, 1, 1)
    pairs = {r.block.model: r.correct.astype(bool) for r in records if isinstance(r, Answers)}
    scores = {r.block.model: r.values for r in records
              if isinstance(r, Scores) and r.role == "inlier" and str(r.method) == "msp"}  # fmt: skip
    same = rank_models({name: (scores[name], pairs[name]) for name in pairs}, questions=["accuracy"])["accuracy"]
    assert same.pairwise == accuracy.pairwise


def test_the_numbers_are_those_of_a_comparison_of_two():
    records = [*model("a", 1.0), *model("bb", 2.0)]
    found = rank_study_models(records, method="energy")
    assert found.method == "energy"
    rows = {}
    for record in records:
        if isinstance(record, Answers):
            rows[record.block.model] = [None, record.correct, None]
    for record in records:
        if isinstance(record, Scores) and str(record.method) == "energy":
            rows[record.block.model][0 if record.role == "inlier" else 2] = record.values
    pair = compare_models(
        rows["a"][:2], rows["bb"][:2], outliers_a=rows["a"][2], outliers_b=rows["bb"][2], questions=["auroc"]
    )
    assert found.rankings["auroc"].pairwise["a", "bb"] == pytest.approx(pair["auroc"].p_value)


def test_seeds_are_blocks():
    records = [r for seed in range(6) for name, strength in (("a", 0.2), ("bb", 2.5)) for r in
               model(name, strength, seed=seed, labels=f"rows of seed {seed}")]  # fmt: skip
    found = rank_study_models(records)
    accuracy = found.rankings["accuracy"]
    assert (accuracy.n_blocks, accuracy.what, accuracy.posthoc) == (6, "models", "conover")
    assert accuracy.layers == (("bb",), ("a",))
    assert accuracy.values["bb"] > accuracy.values["a"]


def test_other_rows_are_not_compared():
    for other in (model("bb", 2.0, labels="others"), model("bb", 2.0, n=599), model("bb", 2.0, labels="")):
        found = rank_study_models([*model("a", 1.0), *other])
        assert found.rankings == {}
        assert "same rows" in found.reason
    unknown = rank_study_models([*model("a", 1.0, labels=""), *model("bb", 1.0, labels="")])
    assert "same rows" in unknown.reason


def test_without_a_common_score_accuracy_is_left():
    found = rank_study_models([*model("a", 1.0, methods=("msp",)), *model("bb", 2.0, methods=("energy",))])
    assert list(found.rankings) == ["accuracy"]
    assert found.method == ""


def test_outlier_sets_that_not_all_models_have_are_left_out():
    found = rank_study_models([*model("a", 1.0, outliers=("far", "near")), *model("bb", 2.0, outliers=("near",))])
    assert "auroc" in found.rankings
    without = rank_study_models([*model("a", 1.0, outliers=("far",)), *model("bb", 2.0, outliers=("near",))])
    assert "auroc" not in without.rankings


def test_one_model_has_nobody_to_be_compared_with():
    assert "fewer than two" in rank_study_models(model("a", 1.0)).reason


def test_a_score_that_not_all_have_is_named():
    with pytest.raises(InputError, match="unknown score that all models have 'knn'"):
        rank_study_models([*model("a", 1.0), *model("bb", 2.0)], method="knn")
