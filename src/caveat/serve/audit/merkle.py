"""Merkle tree over the records of a chain, as in RFC 6962: that a record is in the trail is proved by a few digests.

A leaf is the digest of a record. The tree of the first n records needs log2(n) digests in memory and two hashes for
each new record. Laurie, Langley and Kasper, "Certificate Transparency", RFC 6962, section 2.1; the check of a path is
that of RFC 9162, section 2.1.3.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, final

__all__ = ["Tree", "inclusion", "root_of"]


@final
class Tree:
    """The tree over the digests so far: the roots of its complete parts, from the largest to the smallest.

    Examples
    --------
    >>> tree = Tree()
    >>> tree.root().hex()[:8]
    'e3b0c442'
    >>> tree.add(bytes(32))
    >>> tree.size, tree.root() == hashlib.sha256(bytes(33)).digest()
    (1, True)
    """

    def __init__(self) -> None:
        self.size = 0
        self.last = b""  # the newest digest
        self.nodes: list[bytes] = []

    def add(self, digest: bytes) -> None:
        """The next leaf."""
        node, size = _leaf(digest), self.size
        while size & 1:
            node = _inner(self.nodes.pop(), node)
            size >>= 1
        self.nodes.append(node)
        self.size, self.last = self.size + 1, digest

    def root(self) -> bytes:
        """The root over all leaves so far."""
        if not self.nodes:
            return hashlib.sha256(b"").digest()
        root = self.nodes[-1]
        for node in reversed(self.nodes[:-1]):
            root = _inner(node, root)
        return root

    def state(self) -> dict[str, Any]:
        """What changes as leaves are added, as plain values."""
        return {"size": self.size, "last": self.last.hex(), "nodes": [node.hex() for node in self.nodes]}

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Go on from a ``state``."""
        self.size, self.last = int(state["size"]), bytes.fromhex(state["last"])
        self.nodes = [bytes.fromhex(node) for node in state["nodes"]]
        if len(self.nodes) != self.size.bit_count():
            raise ValueError("a tree of that size has another number of parts")
        return self


def inclusion(base: Tree, digests: Iterable[bytes], index: int) -> tuple[list[bytes], bytes]:
    """The path from leaf ``index`` to the root, and the root, of ``base`` with more leaves; ``base`` is left as it is.

    >>> path, root = inclusion(Tree(), [b"a", b"b", b"c"], 2)
    >>> root_of(b"c", index=2, size=3, path=path) == root
    True
    """
    path: list[bytes] = []

    def merged(left: tuple[bytes, bool], right: tuple[bytes, bool]) -> tuple[bytes, bool]:
        if left[1] or right[1]:
            path.append(right[0] if left[1] else left[0])
        return _inner(left[0], right[0]), left[1] or right[1]

    nodes, size = [(node, False) for node in base.nodes], base.size
    for digest in digests:
        node, rest = (_leaf(digest), size == index), size
        while rest & 1:
            node = merged(nodes.pop(), node)
            rest >>= 1
        nodes.append(node)
        size += 1
    root = nodes.pop()
    while nodes:
        root = merged(nodes.pop(), root)
    return path, root[0]


def root_of(digest: bytes, *, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root of a tree of ``size`` leaves in which the path leads from the leaf ``index``; None where none can."""
    if not 0 <= index < size:
        return None
    node, place, last = _leaf(digest), index, size - 1
    for other in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            node = _inner(other, node)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            node = _inner(node, other)
        place, last = place >> 1, last >> 1
    return node if last == 0 else None


def _leaf(digest: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + digest).digest()


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
