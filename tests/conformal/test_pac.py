"""The PAC rank against the definition, and against the size that theory demands."""

import math

import pytest
from scipy.stats import binom

from caveat.conformal.pac import pac_rank, pac_too_few
from caveat.conformal.threshold import safe_rank
from caveat.errors import InputError


@pytest.mark.parametrize(("alpha", "delta"), [(0.1, 0.05), (0.3, 1e-5), (0.5, 0.5), (0.01, 0.2)])
def test_rank_is_the_first_whose_tail_is_small_enough(alpha, delta):
    for n in (1, 2, 10, 57, 400):
        passing = [k for k in range(1, n + 1) if binom.cdf(n - k, n, alpha) <= delta]
        assert pac_rank(n, alpha, delta) == (passing[0] if passing else n + 1)


def test_the_least_n_is_named_exactly():
    # all n scores below: (1 - .1)^n <= .05 first at n = 29
    assert pac_rank(28, 0.1, 0.05) == 29
    assert pac_rank(29, 0.1, 0.05) == 29
    assert "Calibrate on 29 samples" in pac_too_few(28, 0.1, 0.05)
    assert pac_too_few(29, 0.1, 0.05) == ""
    assert math.ceil(math.log(0.05) / math.log(0.9)) == 29


def test_ranks_depend_on_the_levels_that_were_meant():
    # n = 1 and alpha = delta = one half lie on the edge: P(Bin(1, 1/2) <= 0) = 1/2 <= delta.
    assert pac_rank(1, 0.5, 0.5) == 1
    for n in (1, 2, 7, 29, 100, 1000):
        assert pac_rank(n, 1 - 0.9, 1 - 0.95) == pac_rank(n, 0.1, 0.05)
        assert safe_rank(n, 1 - 0.9, 1 - 0.95) == safe_rank(n, 0.1, 0.05)
    # (1 - .1)^n <= .9^29: exactly reached at n = 29
    assert "Calibrate on 29 samples" in pac_too_few(28, 1 - 0.9, 0.9**29)


def test_bad_levels():
    with pytest.raises(InputError, match="delta must be strictly between 0 and 1"):
        pac_rank(10, 0.1, 0)
