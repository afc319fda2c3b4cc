"""Sentences say what the verdicts say: best, tied with whom, and what cannot be said."""

from __future__ import annotations

import pytest

from caveat.report import study_words as say
from caveat.report.study import all_verdicts, read_study
from caveat.study import StudyResults


@pytest.fixture(scope="module")
def read(study_store, tmp_path_factory):
    def made(**options):
        store = study_store(tmp_path_factory.mktemp("words") / "run", **options)
        facts = read_study(StudyResults(store))
        return facts, all_verdicts(facts)

    return made


SETS = {f"set{i}": regime for i, regime in enumerate(["near", "near", "far", "far", "far"])}


def test_a_winner_is_called_one(read):
    facts, verdicts = read(scores={"knn": 3.0, "msp": 0.3, "energy": 1.5}, sets=SETS, seeds=(0, 1, 2))
    assert say.measured(facts) == (
        "3 scores were measured on 1 model against 5 outlier sets with 3 seeds. The model is right on 92.3\xa0% of the "
        "inliers."
    )
    said = say.verdict_sentence(facts, verdicts["auroc", "", "all"])
    assert said.startswith(
        "Over all 15 blocks of model, seed and outlier set, knn has the best average rank (1.00 of 3;"
    )
    assert said.endswith("It is ahead of every other by more than chance explains (Conover-Holm, 5\xa0% level).")
    assert say.regime_sentence(facts, verdicts["auroc", "", "near"]).startswith("knn (mean AUROC 0.98")


def test_a_tie_names_the_others(read):
    facts, verdicts = read(scores={"knn": 1.0, "vim": 1.0, "msp": 0.2}, sets=SETS, seeds=(0, 1))
    found = verdicts["auroc", "", "all"]
    assert set(found.top) == {"knn", "vim"}
    other = next(name for name in found.top if name != found.best)
    assert f"It cannot be told apart from {other} (Conover-Holm" in say.verdict_sentence(facts, found)


def test_one_block_says_why_there_is_no_test(read):
    facts, verdicts = read(scores={"knn": 2.0, "msp": 0.2}, sets={"svhn": ""})
    said = say.verdict_sentence(facts, verdicts["auroc", "", "all"])
    assert said.startswith("knn has the largest value: AUROC 0.9")
    assert "On this one block it is ahead of every other: its band does not overlap theirs." in said
    cannot = say.cannot_be_said(facts, verdicts, "auroc")
    assert any(s.startswith("Friedman's test needs at least two blocks") for s in cannot)
    assert any(s.startswith("No outlier set has a regime") for s in cannot)
    assert any(s.startswith("One model was measured") for s in cannot)


def test_one_method_is_not_the_best_of_anything(read):
    facts, verdicts = read(scores={"knn": 2.0}, sets=SETS)
    assert say.measured(facts).startswith("1 score was measured on 1 model against 5 outlier sets.")
    assert "nothing can be said about which method is best" in say.verdict_sentence(facts, verdicts["auroc", "", "all"])


def test_a_regime_with_one_block_and_few_blocks_are_said(read):
    facts, verdicts = read(scores={"knn": 2.0, "msp": 0.2}, sets={"a": "near", "b": "far", "c": "far"})
    cannot = say.cannot_be_said(facts, verdicts, "auroc")
    assert any(s.startswith("For near there is one block") for s in cannot)
    assert any(s.startswith("Fewer than 6 blocks stand behind far and all:") for s in cannot)


def test_repeated_seeds_and_failures_are_said(read):
    facts, verdicts = read(scores={"knn": 2.0, "msp": 0.2}, sets=SETS, seeds=(0, 1), same_for_all_seeds=True,
                           failures=[("net/nnguide", "no head.")])  # fmt: skip
    cannot = say.cannot_be_said(facts, verdicts, "auroc")
    assert any(s.startswith("5 blocks repeat another seed number for number.") for s in cannot)
    assert "1 cell failed; see Failures." in cannot


def test_the_sandwich_is_asserted(read):
    facts, _ = read(scores={"knn": 2.0, "msp": 0.2}, sets=SETS, certificates=True)
    assert say.sandwich(facts) == (True, "GAUC ≤ AAUC ≤ AUC holds in all 2 comparisons, as it must.")
    from dataclasses import replace

    rows = [
        replace(row, estimate=replace(row.estimate, value=0.95))
        if row.metric == "gauc" and row.outlier == "uniform"
        else row
        for row in facts.rows
    ]
    holds, said = say.sandwich(replace(facts, rows=tuple(rows)))
    assert not holds
    assert "is violated: resnet20 on uniform (AUC 0.990, AAUC 0.930, GAUC 0.950)" in said
    # AAUC of fewer samples is not compared: it may lie outside by chance
    rows = [
        replace(row, estimate=replace(row.estimate, value=0.5, n=7)) if row.metric == "aauc" else row
        for row in facts.rows
    ]
    assert say.sandwich(replace(facts, rows=tuple(rows)))[0]
