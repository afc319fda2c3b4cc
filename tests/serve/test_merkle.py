"""The Merkle tree of RFC 6962: known roots, a literal reference, paths that lead to the root and no others."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat.serve.audit.merkle import Tree, inclusion, root_of

# Test vectors of the Certificate Transparency project (merkle tree of these eight leaves), as RFC 6962 defines them.
LEAVES = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def grown(leaves):
    tree = Tree()
    for leaf in leaves:
        tree.add(leaf)
    return tree


def reference(leaves):
    """The definition, word by word: the largest power of two below n splits the leaves."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + reference(leaves[:k]) + reference(leaves[k:])).digest()


def reference_path(m, leaves):
    """PATH(m, D[n]) of RFC 6962, section 2.1.1."""
    if len(leaves) == 1:
        return []
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    if m < k:
        return [*reference_path(m, leaves[:k]), reference(leaves[k:])]
    return [*reference_path(m - k, leaves[k:]), reference(leaves[:k])]


@pytest.mark.parametrize("n", range(1, 9))
def test_known_roots(n):
    assert grown(LEAVES[:n]).root().hex() == ROOTS[n - 1]


@given(n=st.integers(0, 70), cut=st.integers(0, 70))
def test_a_tree_grows_as_it_is_defined_also_after_a_restart(n, cut):
    leaves = [bytes([i]) for i in range(n)]
    assert grown(leaves).root() == reference(leaves)
    cut = min(cut, n)
    again = Tree().restore(grown(leaves[:cut]).state())
    for leaf in leaves[cut:]:
        again.add(leaf)
    assert (again.root(), again.size, again.last) == (reference(leaves), n, leaves[-1] if n else b"")


@given(data=st.data(), n=st.integers(1, 70))
def test_a_path_is_the_one_of_the_definition_also_where_the_beginning_is_pruned(data, n):
    leaves = [bytes([i]) for i in range(n)]
    index = data.draw(st.integers(0, n - 1))
    cut = data.draw(st.integers(0, index))
    path, root = inclusion(grown(leaves[:cut]), leaves[cut:], index)
    assert root == reference(leaves)
    assert path == reference_path(index, leaves)
    assert root_of(leaves[index], index=index, size=n, path=path) == root


@given(data=st.data(), n=st.integers(1, 40))
def test_no_other_path_leads_to_the_root(data, n):
    leaves = [bytes([i]) for i in range(n)]
    index = data.draw(st.integers(0, n - 1))
    path, root = inclusion(Tree(), leaves, index)
    other = data.draw(st.integers(-1, n))
    if other != index:
        assert root_of(leaves[index], index=other, size=n, path=path) != root
    assert root_of(b"other", index=index, size=n, path=path) != root
    assert root_of(leaves[index], index=index, size=n, path=[*path, root]) != root
    if path:
        assert root_of(leaves[index], index=index, size=n, path=path[:-1]) != root
        changed = data.draw(st.integers(0, len(path) - 1))
        bad = [hashlib.sha256(node).digest() if i == changed else node for i, node in enumerate(path)]
        assert root_of(leaves[index], index=index, size=n, path=bad) != root


def test_a_leaf_is_no_inner_node():
    """Without the first byte, two leaves could pass for one: RFC 6962, section 2.1."""
    left, right = (hashlib.sha256(b"\x00" + leaf).digest() for leaf in LEAVES[:2])
    assert grown([left + right]).root() != grown(LEAVES[:2]).root()


def test_a_damaged_state_is_refused():
    state = grown(LEAVES).state()
    with pytest.raises(ValueError, match="another number of parts"):
        Tree().restore(state | {"size": 7})
