"""Known answers and blocks that have them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

KNOWN = Path(__file__).parents[1] / "known"


def blocks_with_rank_sums(sums, n):
    """Rankings without ties whose rank sums are given: swap neighbors in random blocks until the sums are met."""
    rng = np.random.default_rng(0)
    k = len(sums)
    ranks = np.tile(np.argsort(np.argsort(sums)) + 1, (n, 1))
    gap = ranks.sum(axis=0) - np.asarray(sums)
    while gap.any():
        row, rank = rng.integers(n), rng.integers(1, k)
        up, down = np.flatnonzero(ranks[row] == rank)[0], np.flatnonzero(ranks[row] == rank + 1)[0]
        after = gap.copy()
        after[up] += 1
        after[down] -= 1
        if np.square(after).sum() <= np.square(gap).sum():
            ranks[row, [up, down]] = ranks[row, [down, up]]
            gap = after
    return ranks.astype(float)


@pytest.fixture(scope="session")
def paper003():
    """Appendix C.1 of paper 003: the known answers, with rankings that have its rank sums."""
    known = json.loads((KNOWN / "paper003_c1.json").read_text(encoding="utf-8"))
    known["ranks"] = blocks_with_rank_sums(list(known["rank_sums"].values()), known["n_blocks"])
    return known
