from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from caveat import InputError
from caveat.stats import critical_difference, holm, mid_ranks
from caveat.stats.cliques import maximal_cliques
from caveat.stats.posthoc import doubtful_pairs, pairwise_p_values, studentized_range_tail

posthocs = pytest.importorskip("scikit_posthocs")


@given(st.lists(st.integers(0, 100).map(lambda x: x / 100), min_size=1, max_size=12), st.sampled_from([0.03, 0.1, 0.5]))
def test_holm_rejects_what_the_step_down_procedure_rejects(p, alpha):
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - step) > alpha:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p) <= alpha)) == rejected


def test_holm_by_hand():
    # sorted .01 .03 .04 times 3 2 1 = .03 .06 .04; made monotone .03 .06 .06
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]).size == 0
    with pytest.raises(InputError, match="between 0 and 1"):
        holm([1.2])


def test_paper_003_conover_holm(paper003):
    names = list(paper003["rank_sums"])
    p = pairwise_p_values(paper003["ranks"], paper003["ranks"], "conover")
    for pair, expected in paper003["conover_holm"].items():
        a, b = (names.index(name) for name in pair.split("|"))
        assert p[a, b] == pytest.approx(expected, abs=5e-5)
        assert p[b, a] == p[a, b]
    tied = {tuple(sorted(pair.split("|"))) for pair, value in paper003["conover_holm"].items() if value >= 0.05}
    found = {tuple(sorted((names[i], names[j]))) for i in range(6) for j in range(i) if p[i, j] >= 0.05}
    assert found == tied


def disjoint(cliques):
    """The layers of paper 003: cliques that share no member, from best to worst."""
    kept = []
    for clique in cliques:
        if not any(set(clique) & set(other) for other in kept):
            kept.append(clique)
    return kept


def test_paper_003_printed_its_example_without_holm(paper003):
    # Table 6 and the text of Figure 2 say Conover with Holm. From the printed rank sums, their cliques and layers are
    # those of p-values without Holm; with Holm, fDBD and Energy tie. The printed standard error gives neither.
    names, sums = list(paper003["rank_sums"]), np.array(list(paper003["rank_sums"].values()), dtype=float)
    n, k = paper003["n_blocks"], len(names)
    upper = np.triu_indices(k, 1)
    gap = np.abs(sums[upper[0]] - sums[upper[1]])
    squares = n * k * (k + 1) * (2 * k + 1) / 6  # of all ranks: no ties
    conover = np.sqrt(2 * (n * squares - np.square(sums).sum()) / ((n - 1) * (k - 1)))
    raw = 2 * stats.t.sf(gap / conover, (n - 1) * (k - 1))
    printed = 2 * stats.norm.sf(gap / n / np.sqrt(k * (k + 1) / (6 * n)))

    def cliques(p):
        tied = np.eye(k, dtype=bool)
        tied[upper] = p >= 0.05
        return maximal_cliques(tied | tied.T, sums / n)

    def named(groups):
        return [[names[i] for i in group] for group in groups]

    without = cliques(raw)
    assert named(without) == paper003["published_cliques"]
    assert named(disjoint(without)) == paper003["published_layers"]
    ranks = [np.mean([sums[i] / n for i in layer]) for layer in disjoint(without)]
    assert ranks == pytest.approx(paper003["published_layer_ranks"], abs=5e-4)
    assert raw[-1] == pytest.approx(0.0368, abs=5e-5)  # fDBD and Energy
    assert holm(raw)[-1] == pytest.approx(paper003["conover_holm"]["fDBD|Energy"], abs=5e-5)
    assert named(cliques(holm(raw))) == paper003["cliques"]
    assert named(disjoint(cliques(holm(raw)))) == paper003["layers"]
    for p in (printed, holm(printed)):
        assert named(cliques(p)) != paper003["published_cliques"]
        assert ["Energy"] not in named(cliques(p))


@pytest.mark.parametrize("seed", range(4))
def test_conover_and_nemenyi_equal_scikit_posthocs(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 6, size=(9, 5)).astype(float) + np.arange(5) * 0.7  # with ties
    ranks = mid_ranks(values)
    expected = posthocs.posthoc_conover_friedman(values, p_adjust="holm").to_numpy()
    np.testing.assert_allclose(pairwise_p_values(values, ranks, "conover"), expected, rtol=1e-9)
    expected = posthocs.posthoc_nemenyi_friedman(values).to_numpy()
    np.testing.assert_allclose(pairwise_p_values(values, ranks, "nemenyi"), expected, atol=2e-3)


def test_nemenyi_agrees_with_its_critical_difference():
    # a pair differs at alpha exactly where the average ranks are further apart than the critical difference
    rng = np.random.default_rng(5)
    values = rng.normal(size=(12, 6)) + np.arange(6) * 0.6
    ranks = mid_ranks(values)
    p, apart = pairwise_p_values(values, ranks, "nemenyi"), np.abs(np.subtract.outer(*[ranks.mean(axis=0)] * 2))
    limit = critical_difference(6, 12, 0.05)
    assert ((p < 0.05) == (apart > limit)).all()
    assert (p < 0.05).any()


@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_the_tail_of_the_studentized_range_is_that_of_scipy(k):
    q = np.linspace(0, 12, 25)
    tail = studentized_range_tail(q, k)
    np.testing.assert_allclose(tail, np.clip(stats.studentized_range.sf(q, k, np.inf), 0, 1), rtol=0, atol=1e-12)
    assert (np.diff(tail) <= 1e-15).all()
    if k == 2:  # the difference of two normal numbers
        np.testing.assert_allclose(tail, 2 * stats.norm.sf(q / np.sqrt(2)), rtol=0, atol=1e-15)


def test_demsar_critical_difference():
    # Demsar, JMLR 7, 2006, section 3.2.4: k = 4 classifiers, 14 data sets: CD = 2.569 sqrt(4 * 5 / (6 * 14)) = 1.25
    assert critical_difference(4, 14, 0.05) == pytest.approx(2.569 * np.sqrt(20 / 84), abs=1e-3)


def test_wilcoxon_holm_is_scipy_and_holm():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(15, 4)) + np.arange(4) * 0.5
    values[:, 3] = values[:, 2]  # never differ: p = 1, where scipy gives none
    p = pairwise_p_values(values, mid_ranks(values), "wilcoxon")
    upper = np.triu_indices(4, 1)
    raw = [1.0 if (i, j) == (2, 3) else stats.wilcoxon(values[:, i], values[:, j]).pvalue
           for i, j in zip(*upper, strict=True)]  # fmt: skip
    np.testing.assert_allclose(p[upper], holm(raw))
    with pytest.raises(InputError, match="wilcoxon needs finite values"):
        pairwise_p_values(np.array([[np.inf, 1.0], [1.0, 2.0]]), np.array([[2.0, 1.0], [1.0, 2.0]]), "wilcoxon")


def test_complete_agreement_is_as_sure_as_the_number_of_blocks():
    # each block has three orders of (1, 2.5, 2.5), and five of six must repeat the first: 3^-5
    ranks = np.tile([1.0, 2.5, 2.5], (6, 1))
    p = pairwise_p_values(ranks, ranks, "conover")
    assert p[0, 1] == p[0, 2] == pytest.approx(3.0**-5)
    assert p[1, 2] == 1


def test_pairs_that_only_the_pooled_variance_tells_apart():
    # The first two of four methods change places in 3 of 16 blocks, the others never. R = (19, 29, 48, 64): the
    # residual is 16 * 480 - 7602 = 78, the pooled variance 2 * 78 / 45 = 3.47, that of two alike methods 16.
    # gap 10: t = 5.4 pooled (p < 1e-5), 2.5 by the variance 16 with 45 degrees of freedom: p = 0.016.
    ranks = np.tile([1.0, 2.0, 3.0, 4.0], (16, 1))
    ranks[:3, :2] = [2.0, 1.0]
    p = pairwise_p_values(ranks, ranks, "conover")
    assert p[0, 1] == pytest.approx(2 * stats.t.sf(10 / np.sqrt(156 / 45), 45))
    assert doubtful_pairs(ranks, p, 0.05) == 0
    assert doubtful_pairs(ranks, p, 0.01) == 1


def test_a_critical_difference_needs_methods_blocks_and_a_level():
    with pytest.raises(InputError, match="k must be a whole number, at least 2"):
        critical_difference(1, 14, 0.05)
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        critical_difference(4, 14, 5)


def test_unknown_test_is_named():
    with pytest.raises(InputError, match="unknown post-hoc test 'conver'. Did you mean 'conover'"):
        pairwise_p_values(np.ones((2, 2)), np.ones((2, 2)), "conver")
