"""Sampling of T-CV and T-SS: floors and ceilings against simulation, intervals that cover as promised."""

import numpy as np
import pytest

from caveat.metrics import t_cv, t_cv_floor, t_cv_interval, t_ss, t_ss_ceiling, t_ss_floor, t_ss_interval


@pytest.mark.parametrize(("n", "alpha", "bins"), [(5000, 0.1, 50), (5000, 0.05, 100), (1003, 0.2, 30), (60, 0.3, 7)])
def test_the_floor_is_the_quantile_of_perfect_coverage(n, alpha, bins):
    rng, trials = np.random.default_rng(0), 20_000
    sizes = np.diff(np.arange(bins + 1) * n // bins)
    values = np.abs(rng.binomial(sizes, 1 - alpha, size=(trials, bins)) / sizes - (1 - alpha)).max(axis=1)
    for share in (0.5, 0.95):
        floor, slack = t_cv_floor(n, alpha, bins=bins, share=share), 4 * np.sqrt(share * (1 - share) / trials)
        assert (values <= floor + 1e-9).mean() >= share - slack  # the smallest value with at least this share
        assert (values < floor - 1e-9).mean() < share + slack


def test_the_floor_of_the_study():
    assert t_cv_floor(5000, 0.1) == pytest.approx(0.07)


@pytest.mark.parametrize("worst", [0.0, 0.05, 0.3])
def test_the_interval_of_t_cv_covers_the_worst_violation(worst):
    """In one of 20 bins coverage is off by ``worst``, in the others by at most as much."""
    rng, n, bins, trials = np.random.default_rng(1), 1000, 20, 400
    ease = np.arange(n) / n
    chance = np.full(bins, 0.9)
    chance[3] -= worst
    chance[7] += min(worst / 2, 0.1)
    hits = rng.random((trials, n)) < np.repeat(chance, n // bins)
    found = [t_cv_interval(covered=row, ease=ease, alpha=0.1, bins=bins) for row in hits]
    held = np.mean([e.lower <= worst <= e.upper for e in found])
    assert held >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / trials)
    for row, estimate in zip(hits[:20], found, strict=False):
        assert estimate.value == t_cv(covered=row, ease=ease, alpha=0.1, bins=bins)
        assert estimate.lower <= estimate.value <= estimate.upper
    if worst == 0.3:
        assert np.mean([e.lower > 0 for e in found]) > 0.9  # a large violation is told from chance


@pytest.mark.parametrize("bins", [30, 50])
def test_unrelated_sizes_stay_below_the_floor_of_t_ss(bins):
    rng, n, trials = np.random.default_rng(2), 3000, 400
    ease = np.arange(n)
    values = [
        abs(t_ss(sizes=1 + rng.poisson(1.0, n), ranks=1 + rng.poisson(0.5, n), ease=ease, bins=bins))
        for _ in range(trials)
    ]
    for share in (0.5, 0.95):
        below = np.mean(np.array(values) <= t_ss_floor(bins, share=share))
        assert below == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / trials) + 0.01)


@pytest.mark.parametrize("bins", [10, 50, 200])
def test_the_ceiling_is_the_t_ss_of_sets_that_know_the_expected_rank(bins):
    rng, n = np.random.default_rng(3), 5000
    hard = np.linspace(1, 0, n) ** 3
    expected = 1 + 3 * hard
    drawn = 1 + rng.poisson(3 * hard, size=(60, n))
    oracle = [t_ss(sizes=expected, ranks=row, ease=-hard, bins=bins) for row in drawn]
    ceiling = [t_ss_ceiling(ranks=row, ease=-hard, bins=bins) for row in drawn]
    assert np.mean(ceiling) == pytest.approx(np.mean(oracle), abs=0.01)


def test_the_ceiling_where_there_is_nothing_to_follow():
    assert np.isnan(t_ss_ceiling(ranks=np.ones(100), ease=np.arange(100), bins=10))
    assert np.isnan(t_ss_ceiling(ranks=np.arange(1, 11), ease=np.arange(10), bins=10))  # one sample in a bin


def population(kind, n):
    hard = np.linspace(1, 0, n)
    if kind == "few errors":  # like CIFAR-10: most samples are easy
        return 2.5 * hard**4, 1 + 1.2 * hard**3
    if kind == "many classes":
        return 20 * hard**3, 1 + 10 * hard**2
    return 1.0 + 0.15 * hard, 2 + 0.3 * np.sin(9 * hard) + 0.2 * hard  # "weak": T-SS is hardly above chance


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["few errors", "many classes", "weak"])
def test_the_interval_of_t_ss_covers_its_mean_over_test_sets(kind):
    rng, n, bins, trials = np.random.default_rng(4), 1000, 20, 200
    extra, size = population(kind, n)
    ease = np.arange(n)

    def sample():
        ranks = 1 + rng.poisson(extra)
        return {"ranks": ranks, "sizes": rng.poisson(size) + 0.3 * (ranks - 1 - extra), "ease": ease, "bins": bins}

    truth = np.mean([t_ss(**sample()) for _ in range(2000)])
    found = [t_ss_interval(**sample(), rng=rng, repeats=200) for _ in range(trials)]
    held = np.mean([e.lower <= truth <= e.upper for e in found])
    assert held >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / trials)
    assert np.mean([e.upper - e.lower for e in found]) < 0.5


def test_an_undefined_t_ss_has_no_interval():
    with pytest.warns(UserWarning, match="T-SS is undefined"):
        found = t_ss_interval(sizes=np.arange(20), ranks=np.ones(20), ease=np.arange(20), rng=0, bins=4, repeats=10)
    assert np.isnan([found.value, found.lower, found.upper]).all()
