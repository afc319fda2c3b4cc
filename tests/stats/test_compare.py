from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caveat import InputError
from caveat.stats import compare, compare_regimes


def test_paper_003_cliques_and_layers(paper003):
    result = compare(paper003["ranks"], methods=list(paper003["rank_sums"]))
    assert result.statistic == pytest.approx(paper003["friedman"], abs=5e-5)
    assert result.p_value == pytest.approx(paper003["p_value"], rel=1e-3)
    assert [list(c) for c in result.cliques] == paper003["cliques"]
    assert [list(c) for c in result.layers] == paper003["layers"]
    assert [result.layer_rank(c) for c in result.layers] == pytest.approx(paper003["layer_ranks"], abs=5e-4)
    assert result.average_ranks["GEN"] == pytest.approx(25 / 15)
    assert result.pairwise["MSR", "GEN"] == result.pairwise["GEN", "MSR"] == pytest.approx(0.0127, abs=5e-5)
    assert result.methods == ("GEN", "Confidence", "MSR", "CTM", "fDBD", "Energy")


@settings(max_examples=40)
@given(arrays(float, (6, 4), elements=st.integers(0, 9).map(float)), st.permutations(range(4)))
def test_order_of_columns_and_rows_does_not_matter(values, order):
    names = np.array(list("abcd"))
    first = compare(values, methods=list(names))
    second = compare(values[::-1][:, order], methods=list(names[list(order)]))
    assert first.statistic == pytest.approx(second.statistic)
    assert first.average_ranks == pytest.approx(second.average_ranks)
    assert first.pairwise == pytest.approx(second.pairwise)
    assert {frozenset(c) for c in first.cliques} == {frozenset(c) for c in second.cliques}


@settings(max_examples=40)
@given(arrays(float, (5, 3), elements=st.integers(-9, 9).map(float)))
def test_only_the_order_within_a_block_counts(values):
    stretched = np.exp(values / 3) * np.arange(1, 6)[:, None] + np.arange(5)[:, None]
    assert compare(stretched).pairwise == pytest.approx(compare(values).pairwise)
    assert compare(-values, lower_is_better=False).average_ranks == pytest.approx(compare(values).average_ranks)


def test_not_significant_means_one_group():
    rng = np.random.default_rng(0)
    result = compare(rng.random((6, 4)))
    assert result.f_p_value > 0.05
    assert len(result.layers) == len(result.cliques) == 1
    assert "all are tied" in result.caveat


def test_all_methods_equal_everywhere():
    result = compare(np.ones((5, 3)))
    assert (result.statistic, result.p_value, result.kendall_w) == (0, 1, 0)
    assert len(result.layers) == 1


def test_two_methods_and_infinite_values():
    values = [[1, np.inf], [2, np.inf], [1, 3], [1, 2], [0, 1], [3, 4]]
    result = compare(values, methods=["good", "bad"])
    assert result.layers == (("good",), ("bad",))
    assert result.pairwise["good", "bad"] == pytest.approx(2 / 2**6)  # every block agrees: the sign test
    # With one block less the sign test has 2 / 2^5 = 0.0625, and nothing can be told apart at 0.05.
    assert compare(values[:5], methods=["good", "bad"]).layers == (("good", "bad"),)


def test_the_exact_p_value_is_printed_where_it_decides():
    result = compare([[1, 2]] * 4)
    assert result.exact_p_value == 0.125
    assert "Friedman 4 (p = 0.0455, exactly p = 0.125), Iman-Davenport inf (p = 0.125)" in result.summary()
    assert compare(np.random.default_rng(0).random((4, 7))).exact_p_value is None


def test_alike_methods_among_others_far_apart_get_a_caveat():
    # m0 and m1 are alike. Conover's pooled variance is that of the far others, and tells them apart in half the tables.
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(20, 6)) + np.array([0, 0, 9, 18, 27, 36]) for _ in range(60)]
    pooled = [compare(table) for table in tables]
    apart = np.array([not result.tied("method 0", "method 1") for result in pooled])
    doubted = np.array(["only by Conover's pooled variance" in result.caveat for result in pooled])
    assert apart.mean() > 0.3
    assert (apart & ~doubted).mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)  # without a caveat, the level holds
    assert not (doubted & ~apart).any()
    own = [compare(table, posthoc="wilcoxon") for table in tables]
    assert np.mean([not result.tied("method 0", "method 1") for result in own]) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)
    assert {result.caveat for result in own} == {""}


def test_dropped_blocks_are_counted_and_named():
    values = np.vstack([np.tile([1.0, 2.0, 3.0], (5, 1)), [[1.0, np.nan, 2.0]]])
    result = compare(values, methods=["a", "b", "c"])
    assert (result.n_blocks, result.dropped_blocks) == (5, 1)
    assert "1 incomplete block was dropped, for lack of b." in str(result)


def test_too_little_is_an_error_with_a_reason():
    with pytest.raises(InputError, match="at least 2 methods, got 1"):
        compare([[1.0], [2.0]])
    with pytest.raises(InputError, match="at least 2 complete blocks, got 1"):
        compare([[1.0, 2.0]])
    with pytest.raises(InputError, match="got 0. 2 blocks lacked method 1"):
        compare([[1.0, np.nan], [2.0, np.nan]])
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        compare([[1.0, 2.0], [2.0, 1.0]], alpha=2)


def test_regimes_are_compared_apart():
    table = {"bucket": ["near"] * 6 + ["far"] * 6, "a": [1.0] * 6 + [2.0] * 6, "b": [2.0] * 6 + [1.0] * 6}
    found = compare_regimes(table, "bucket")
    assert [(name, result.layers[0]) for name, result in found.items()] == [("near", ("a",)), ("far", ("b",))]


@pytest.mark.parametrize("posthoc", ["conover", "nemenyi", "wilcoxon"])
def test_false_alarms_of_the_pipeline(posthoc):
    # methods that are all alike: the first layer should hold them all in about 1 - alpha of the tables or more
    rng, trials = np.random.default_rng(3), {"conover": 400, "nemenyi": 100, "wilcoxon": 60}[posthoc]
    split = sum(len(compare(rng.random((12, 4)), posthoc=posthoc).layers) > 1 for _ in range(trials))
    assert split / trials <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)


def test_a_real_difference_is_found():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(20, 4)) + np.array([0.0, 0.0, 0.0, 4.0])
    for posthoc in ("conover", "nemenyi", "wilcoxon"):
        result = compare(values, methods=list("abcd"), posthoc=posthoc)
        assert set(result.layers[0]) == {"a", "b", "c"}
        assert result.layers[-1] == ("d",)
