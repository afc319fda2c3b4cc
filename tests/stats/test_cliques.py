from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from caveat.stats.cliques import layers, maximal_cliques


@st.composite
def graphs(draw):
    k = draw(st.integers(1, 7))
    edges = draw(st.lists(st.booleans(), min_size=k * (k - 1) // 2, max_size=k * (k - 1) // 2))
    tied = np.eye(k, dtype=bool)
    tied[np.triu_indices(k, 1)] = edges
    ranks = np.array(draw(st.permutations(range(1, k + 1))), dtype=float)
    return tied | tied.T, ranks


def literal_cliques(tied):
    """All subsets that are mutually tied and have no larger one around them."""
    k = len(tied)
    groups = [set(g) for size in range(1, k + 1) for g in combinations(range(k), size) if tied[np.ix_(g, g)].all()]
    return {frozenset(g) for g in groups if not any(g < other for other in groups)}


@given(graphs())
def test_cliques_equal_the_literal_search(graph):
    tied, ranks = graph
    found = maximal_cliques(tied, ranks)
    assert {frozenset(c) for c in found} == literal_cliques(tied)
    assert len(found) == len(set(found))
    means = [ranks[list(c)].mean() for c in found]
    assert means == sorted(means)
    assert all(list(ranks[list(c)]) == sorted(ranks[list(c)]) for c in found)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(0, 6))
def test_ties_by_distance_give_the_cliques_of_the_literal_search(places, reach):
    ranks = np.array(places, dtype=float)
    tied = np.abs(ranks[:, None] - ranks) <= reach
    found = maximal_cliques(tied, ranks)
    assert {frozenset(c) for c in found} == literal_cliques(tied)
    assert len(found) == len(set(found))


@given(graphs())
def test_layers_cover_every_method_once_best_first(graph):
    tied, ranks = graph
    found = layers(tied, ranks)
    assert sorted(i for layer in found for i in layer) == list(range(len(ranks)))
    assert all(tied[np.ix_(layer, layer)].all() for layer in found)
    heads = [ranks[layer[0]] for layer in found]
    assert heads == sorted(heads)
    assert found[0][0] == np.argmin(ranks)


def test_a_chain():
    # 0-1, 1-2, 2-3: cliques overlap, layers do not
    tied = np.eye(4, dtype=bool)
    for i in range(3):
        tied[i, i + 1] = tied[i + 1, i] = True
    ranks = np.arange(1.0, 5.0)
    assert maximal_cliques(tied, ranks) == [(0, 1), (1, 2), (2, 3)]
    assert layers(tied, ranks) == [(0, 1), (2, 3)]
