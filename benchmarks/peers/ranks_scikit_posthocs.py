"""scikit-posthocs: pairs of methods over blocks, after Friedman's test of scipy.

Documentation: https://scikit-posthocs.readthedocs.io. Its tutorial runs the pairs after the Friedman test rejects, and
adjusts them by ``p_adjust``; "conover unadjusted" is the call with its defaults.
"""

import numpy as np
import scikit_posthocs
from scipy.stats import friedmanchisquare
from turns import run

PAIRS = {
    "conover": lambda table: scikit_posthocs.posthoc_conover_friedman(table, p_adjust="holm"),
    "nemenyi": scikit_posthocs.posthoc_nemenyi_friedman,
    "wilcoxon": lambda table: scikit_posthocs.posthoc_wilcoxon(list(table.T), p_adjust="holm"),
}


def method(pairs, after_friedman=True):
    def test(_, data):
        matrices = []
        for table in data.tables:
            k = table.shape[1]
            rejected = not after_friedman or friedmanchisquare(*table.T).pvalue < data.alpha
            matrices.append(np.asarray(pairs(table)) if rejected else np.ones((k, k)))
        return matrices

    return lambda _: None, test


METHODS = {name: method(pairs) for name, pairs in PAIRS.items()} | {
    "conover unadjusted": method(scikit_posthocs.posthoc_conover_friedman, after_friedman=False),
}

if __name__ == "__main__":
    run("scikit-posthocs", METHODS)
