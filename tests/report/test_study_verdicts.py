"""Who is ahead and who is tied: by ranks where there are blocks, by bands where there is one, never by less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caveat.report.study_facts import Block, Method, StudyFacts
from caveat.report.study_verdicts import (
    ERRORS,
    compared_metrics,
    complete_part,
    guaranteed,
    judge,
    mean_over,
    metric_of,
)
from caveat.results import Estimate
from caveat.stats import compare


def estimate(value: float, half: float = 0.01, level: float = 0.95) -> Estimate:
    return Estimate(value, value - half, value + half, level=level, n=1000, method="exact band")


def facts_of(values, *, metric: str = "auroc", regimes=None, seeds=(0,), half: float = 0.01) -> StudyFacts:
    """``values``: outlier set -> seed -> value of each of the methods a, b, c, ...; None is missing."""
    blocks, numbers, found = [], {}, {}
    for outlier, by_seed in values.items():
        for seed, row in zip(seeds, by_seed, strict=True):
            block = Block("net", seed, outlier)
            blocks.append(block)
            if outlier:
                found[block] = (regimes or {}).get(outlier, "")
            for name, value in zip("abcdefgh", row, strict=False):
                if value is not None:
                    numbers[block, name, metric] = estimate(value, half)
                    if metric == "auroc":
                        numbers[block, name, "conformal_auroc"] = estimate(value, 2 * half)
    names = dict.fromkeys(key[1] for key in numbers)
    metrics = tuple(dict.fromkeys(key[2] for key in numbers))
    return StudyFacts(
        "t", 0.1, 0.05, tuple(Method(n, n, "none", "logits") for n in names), tuple(blocks), metrics, numbers, found,
        {}, {}, (),
    )  # fmt: skip


def test_ranks_decide_where_there_are_blocks():
    rng = np.random.default_rng(0)
    table = {f"set{i}": [[0.9 + 0.01 * rng.random(), 0.8 + 0.01 * rng.random(), 0.6]] for i in range(8)}
    found = judge(facts_of(table), "auroc")
    expected = compare([row for (row,) in table.values()], 0.05, False, methods=["a", "b", "c"])
    assert found.by == "ranks"
    assert found.order == expected.methods == ("a", "b", "c")
    assert found.comparison.pairwise == expected.pairwise
    assert found.top == ("a",)
    assert found.alone


def test_the_direction_of_a_metric_is_known():
    table = {f"set{i}": [[0.2, 0.1 + 0.001 * i]] for i in range(8)}
    assert judge(facts_of(table, metric="augrc"), "augrc").best == "b"
    assert judge(facts_of(table, metric="auroc"), "auroc").best == "a"


def test_one_block_is_judged_by_its_bands():
    # Bands of half-width 0.02: a [0.88, 0.92], b [0.85, 0.89] overlaps, c [0.78, 0.82] does not.
    found = judge(facts_of({"svhn": [[0.90, 0.87, 0.80]]}), "auroc")
    assert (found.by, found.comparison) == ("bands", None)
    assert found.top == ("a", "b")
    assert not found.alone
    assert judge(facts_of({"svhn": [[0.90, 0.80]]}), "auroc").alone


def test_bands_make_groups_from_the_best_on():
    # Half-width 0.02: b overlaps a, c overlaps b but not a; d overlaps c.
    found = judge(facts_of({"svhn": [[0.90, 0.87, 0.84, 0.81]]}), "auroc")
    assert found.layers == (("a", "b"), ("c", "d"))


def test_one_block_without_intervals_says_nothing():
    facts = facts_of({"svhn": [[0.9, 0.5]]}, metric="aupr", half=np.nan)
    found = judge(facts, "aupr")
    assert found.by == "nothing"
    assert found.order == ("a", "b")
    assert not found.alone


def test_one_method_is_never_a_winner():
    found = judge(facts_of({"a": [[0.9]], "b": [[0.9]]}), "auroc")
    assert (found.by, found.alone) == ("nothing", False)


def test_regimes_are_judged_apart_and_errors_are_a_regime():
    values = {f"near{i}": [[0.9, 0.8 + 0.001 * i]] for i in range(6)} | {f"far{i}": [[0.7, 0.9]] for i in range(6)}
    facts = facts_of(values, regimes={name: name[:-1] for name in values})
    assert judge(facts, "auroc", regime="near").best == "a"
    assert judge(facts, "auroc", regime="far").best == "b"
    assert judge(facts, "auroc", regime="mid") is None
    assert judge(facts, "auroc", regime=ERRORS) is None
    errors = facts_of({"": [[0.03, 0.02], [0.03, 0.01]]}, metric="augrc", seeds=(0, 1))
    assert judge(errors, "augrc", regime=ERRORS).best == "b"
    assert judge(errors, "augrc", regime="all") is None


def test_a_seed_that_changes_nothing_is_no_replicate():
    facts = facts_of({"svhn": [[0.9, 0.8]] * 3, "dtd": [[0.8, 0.7]] * 3}, seeds=(0, 1, 2))
    found = judge(facts, "auroc")
    assert (len(found.blocks), found.repeated) == (2, 4)


def test_what_lacks_most_is_left_out_and_named():
    # b lacks 4 of 8 blocks: it goes, and no block is lost. In the last table set0 lacks 2 of 3: the block goes.
    table = {f"set{i}": [[0.9, None if i % 2 else 0.8, 0.7]] for i in range(8)}
    found = judge(facts_of(table), "auroc")
    assert (dict(found.left_out), found.dropped) == ({"b": 4}, 0)
    assert len(found.blocks) == 8
    table = {f"set{i}": [[0.9, 0.8, 0.7 + i / 99]] for i in range(8)} | {"poor": [[0.9, None, None]]}
    found = judge(facts_of(table), "auroc")
    assert (dict(found.left_out), found.dropped, len(found.blocks)) == ({}, 1, 8)


@pytest.mark.parametrize("seed", range(20))
def test_the_complete_part_has_no_hole_and_is_not_empty(seed):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((7, 9)) < 0.3, np.nan, 1.0)
    values[0, 0] = 1.0
    rows, columns = complete_part(values)
    assert not np.isnan(values[np.ix_(rows, columns)]).any()
    assert rows
    assert columns


def test_mean_over_blocks_by_hand():
    facts = facts_of({"x": [[0.8]], "y": [[0.9]]})
    found = mean_over(facts, facts.blocks, "a", "auroc")
    assert (found.value, found.lower, found.upper, found.n) == (pytest.approx(0.85), 0.8, 0.9, 2)
    assert found.method == "range over 2 blocks"
    one = mean_over(facts, facts.blocks[:1], "a", "auroc")
    assert one == facts.numbers[facts.blocks[0], "a", "auroc"]
    assert mean_over(facts, facts.blocks, "b", "auroc") is None


def test_equal_numbers_of_several_blocks_have_a_range_not_an_interval():
    facts = facts_of({"x": [[1.0]], "y": [[1.0]]})
    found = mean_over(facts, facts.blocks, "a", "auroc")
    assert (found.value, found.lower, found.upper) == (1.0, 1.0, 1.0)  # one interval alone reaches down to 0.99
    assert found.method == "range over 2 blocks"


def test_the_guarantee_of_a_mean_pays_once_per_draw_of_inliers():
    # One model and seed, two outlier sets: one event, 95 %. Two seeds: two events, 90 %. Equal seeds: one again.
    one = facts_of({"x": [[0.8]], "y": [[0.9]]})
    found = guaranteed(one, one.blocks, "a")
    assert found.level == pytest.approx(0.95)
    assert (found.lower, found.upper) == (pytest.approx(0.83), pytest.approx(0.87))
    two = facts_of({"x": [[0.8], [0.82]], "y": [[0.9], [0.9]]}, seeds=(0, 1))
    assert guaranteed(two, two.blocks, "a").level == pytest.approx(0.90)
    same = facts_of({"x": [[0.8], [0.8]], "y": [[0.9], [0.9]]}, seeds=(0, 1))
    assert guaranteed(same, same.blocks, "a").level == pytest.approx(0.95)
    assert guaranteed(same, same.blocks[1:2], "a").level == pytest.approx(0.95)  # the copy alone is a draw
    # Two seeds whose numbers agree by chance, as 1 and 1 do, are still two draws: another method tells.
    ends = facts_of({"x": [[1.0, 0.8], [1.0, 0.82]]}, seeds=(0, 1))
    assert guaranteed(ends, ends.blocks, "a").level == pytest.approx(0.90)


def test_a_guarantee_that_is_no_better_than_a_coin_is_not_given():
    facts = facts_of({"x": [[0.8 + 0.01 * i] for i in range(11)]}, seeds=tuple(range(11)))
    assert guaranteed(facts, facts.blocks, "a") is None  # 1 - 11 x 0.05 = 0.45
    assert guaranteed(facts, facts.blocks[:9], "a").level == pytest.approx(0.55)


def test_a_band_needs_every_block():
    facts = facts_of({"x": [[0.8]], "y": [[0.9]]})
    numbers = {key: n for key, n in facts.numbers.items() if key[0].outlier == "x" or key[2] == "auroc"}
    assert guaranteed(replace(facts, numbers=numbers), facts.blocks, "a") is None


def test_auroc_leads_and_the_unknown_is_not_compared():
    facts = facts_of({"x": [[0.8]]})
    facts = replace(facts, metrics=("aurc", "speed", "auroc", "conformal_auroc"))
    assert compared_metrics(facts) == ("auroc", "aurc")
    assert metric_of("speed").higher_is_better is None
