"""Caveat: which methods differ over blocks (Friedman, then all pairs)."""

import numpy as np
from turns import run

from caveat.stats import compare


def method(posthoc):
    def test(_, data):
        matrices = []
        for table in data.tables:
            result = compare(table, alpha=data.alpha, posthoc=posthoc, methods=[str(i) for i in range(table.shape[1])])
            names = [str(i) for i in range(table.shape[1])]
            groups = {name: {i for i, clique in enumerate(result.cliques) if name in clique} for name in names}
            # a pair that shares a clique is not told apart
            matrices.append(np.array([[1.0 if groups[a] & groups[b] else 0.0 for b in names] for a in names]))
        return matrices

    return lambda _: None, test


METHODS = {name: method(name) for name in ("conover", "nemenyi", "wilcoxon")}

if __name__ == "__main__":
    run("caveat", METHODS)
