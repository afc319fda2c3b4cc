"""Verdicts: which test decides, what is tied, what is left out, which differences are too small to detect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caveat.evaluation.findings import Findings
from caveat.evaluation.records import Block, Detection, Method, Selective
from caveat.report.verdicts import ERRORS, complete_part, judge, judge_all, letters_of
from caveat.report.view import View
from caveat.results import Comparison, Estimate


def number(value: float) -> Estimate:
    return Estimate(value, value - 0.01, value + 0.01, 0.95, 100, "DeLong")


def made(values: dict[str, list[float]], *, models: int = 4, sets: int = 2, regimes=("near", "far")) -> Findings:
    """AUROC of methods over blocks: model by model, outlier set by outlier set."""
    records = []
    for name, column in values.items():
        blocks = [Block(f"m{i}", 0, f"o{j}", regimes[j]) for i in range(models) for j in range(sets)]
        records += [Detection(block, Method(name), auroc=number(v)) for block, v in zip(blocks, column, strict=True)
                    if np.isfinite(v)]  # fmt: skip
    return Findings("T", records, {}, 0.1, 0.05, 0.05, 0.05)


@pytest.fixture(scope="module")
def clear() -> View:
    rng = np.random.default_rng(0)
    base = {"best": 0.95, "good": 0.9, "poor": 0.7, "worst": 0.6}
    return View(made({name: (mean + 0.01 * rng.random(8)).tolist() for name, mean in base.items()}))


def test_several_models_are_compared_by_ranks(clear):
    found = judge(clear, "auroc")
    assert found.comparison.posthoc == "conover"
    assert found.order == ("best", "good", "poor", "worst")
    assert found.top == ("best",)
    assert found.sentence() == "best is alone ahead."
    assert "smallest difference in average rank" in found.unseen(clear)


def test_a_regime_takes_its_blocks_only(clear):
    found = judge(clear, "auroc", regime="near")
    assert len(found.places) == 4
    assert "4 blocks are few" in found.unseen(clear)


def test_one_model_is_compared_by_the_paired_test(findings, evaluation):
    view = View(findings)
    found = judge(view, "auroc")
    assert found.comparison is evaluation.ranking
    assert found.paired
    assert judge(view, "augrc", regime=ERRORS).comparison is evaluation.assessment.errors
    assert judge(view, "aupr") is None


def test_a_model_of_a_study_with_one_seed_is_judged_by_its_own_paired_test(study):
    one = replace(study, records=[r for r in study.records if r.block.seed == 0])
    view = View(one)
    assert judge(view, "auroc").comparison.posthoc == "conover"
    assert judge(view, "auroc", model="vgg").comparison is study.assessments["vgg", 0].ranking


def test_equal_methods_are_all_tied():
    rng = np.random.default_rng(1)
    view = View(made({name: rng.random(8).tolist() for name in "abc"}))
    found = judge(view, "auroc")
    assert not found.tells
    assert found.sentence() == "All 3 methods are tied."
    assert "No difference was large enough" in found.unseen(view)


def test_a_method_with_holes_is_left_out_and_named():
    rng = np.random.default_rng(2)
    values = {name: (base + 0.01 * rng.random(8)).tolist() for name, base in (("a", 0.9), ("b", 0.8), ("holes", 0.99))}
    values["holes"][:6] = [np.nan] * 6
    found = judge(View(made(values)), "auroc")
    assert found.left_out == {"holes": 6}
    assert found.order == ("a", "b")


def test_a_seed_that_repeats_another_is_not_a_replicate():
    records = [Detection(Block("m", seed, f"o{j}"), Method(name), auroc=number(value + 0.01 * j))
               for seed in (0, 1) for j in range(3) for name, value in (("a", 0.9), ("b", 0.8))]  # fmt: skip
    found = judge(View(Findings("T", records, {}, 0.1, 0.05, 0.05, 0.05)), "auroc")
    assert found.repeated == 3
    assert len(found.places) == 3


def test_errors_are_compared_without_outliers():
    records = [Selective(Block(f"m{i}"), Method(name), augrc=number(value + 0.001 * i))
               for i in range(6) for name, value in (("a", 0.1), ("b", 0.2))]  # fmt: skip
    found = judge_all(View(Findings("T", records, {}, 0.1, 0.05, 0.05, 0.05)))
    assert list(found) == [("augrc", "", ERRORS)]
    assert found["augrc", "", ERRORS].order == ("a", "b")  # smaller is better


def test_more_cliques_than_letters_become_numbers():
    names = [f"m{i}" for i in range(40)]
    cliques = tuple((names[i], names[i + 1]) for i in range(39))
    comparison = Comparison(dict.fromkeys(names, 1.0), 0, 0, {}, cliques, (tuple(names),), 0, 0, 0, "conover", 0.05,
                            False, 3)  # fmt: skip
    assert letters_of(comparison)["m1"] == "1–2"


def test_the_part_without_holes_by_hand():
    assert complete_part(np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])) == ([1, 2], [0, 1])
