"""The metric validation of the adaptivity study: the vectorized form against a plain loop, and what it must find."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from caveat import metrics
from caveat.errors import InputError


@pytest.fixture
def validation(study):
    return study("adaptivity", "validation")


def population(n=3000, seed=0, least=1):
    rng = np.random.default_rng(seed)
    hard = rng.random(n)
    ranks = 1 + rng.poisson(3 * hard)
    sizes = least + rng.poisson(3 * hard)
    covered = ranks <= sizes
    short, over = np.maximum(ranks - sizes, 0), np.maximum(sizes - ranks, 0)
    return {"covered": covered, "sizes": sizes, "ranks": ranks, "ease": 1 - hard, "short": short, "over": over}


@pytest.mark.parametrize("least", [0, 1])  # with and without empty sets
def test_every_value_equals_that_of_the_plain_metric(validation, least):
    data, seed, trials, sample = population(least=least), 5, 12, 400
    found = validation.validate_metrics(
        **data, alpha=0.3, rng=np.random.default_rng(seed), trials=trials, sample=sample, m=20, pairs=200, bins=10
    )
    rng = np.random.default_rng(seed)
    for t in range(trials):
        rows = rng.permutation(3000)[:sample]
        part = {key: value[rows] for key, value in data.items()}
        assert found.values["Deficit"][t] == pytest.approx(part["short"].mean())
        assert found.values["Excess"][t] == pytest.approx(part["over"].mean())
        for name, metric in (("SSCV", metrics.sscv), ("ESCV", metrics.escv)):
            value = metric(covered=part["covered"], sizes=part["sizes"], alpha=0.3)
            assert found.values[name][t] == pytest.approx(value)
        value = metrics.t_ss(sizes=part["sizes"], ranks=part["ranks"], ease=part["ease"], bins=10)
        assert found.values["T-SS"][t] == pytest.approx(value)
    for name, values in found.values.items():
        if np.ptp(values) == 0:  # ESCV is stuck at 1 - alpha by a size that one uncovered sample has
            assert np.isnan(found.correlation[name])
            continue
        assert found.correlation[name] == pytest.approx(spearmanr(found.rates, values).statistic)


def test_the_rate_against_a_plain_loop(validation):
    data = population(200)
    sizes, ranks = data["sizes"], data["ranks"]
    rng = np.random.default_rng(1)
    holds = []
    for _ in range(20_000):
        a, b = rng.choice(200, 10, replace=False), rng.choice(200, 10, replace=False)
        d1, d2, s1, s2 = ranks[a].mean(), ranks[b].mean(), sizes[a].mean(), sizes[b].mean()
        holds.append((d1 <= d2 and s1 <= s2) or (d1 > d2 and s1 > s2))
    found = validation.property_rate(sizes=sizes, difficulty=ranks, rng=rng, m=10, pairs=20_000)
    assert found == pytest.approx(np.mean(holds), abs=4 * np.sqrt(0.25 / 20_000 * 2))


def test_sets_that_follow_difficulty_have_a_higher_rate_than_sets_that_do_not(validation):
    rng = np.random.default_rng(2)
    ranks = 1 + rng.poisson(2, 1000)
    follow = validation.property_rate(sizes=ranks + rng.poisson(1, 1000), difficulty=ranks, rng=rng, m=50, pairs=2000)
    ignore = validation.property_rate(sizes=1 + rng.poisson(2, 1000), difficulty=ranks, rng=rng, m=50, pairs=2000)
    against = validation.property_rate(sizes=20 - ranks, difficulty=ranks, rng=rng, m=50, pairs=2000)
    assert follow > 0.7
    assert abs(ignore - 0.5) < 0.1
    assert against < 0.1


def test_order_puts_the_strongest_first_and_errors_are_clear(validation):
    data = population()
    small = {"trials": 60, "sample": 500, "m": 50, "pairs": 500, "bins": 10}
    found = validation.validate_metrics(**data, alpha=0.3, rng=np.random.default_rng(0), **small)
    strengths = [abs(found.correlation[name]) for name in found.order]
    assert strengths == sorted(strengths, reverse=True)
    with pytest.raises(InputError, match=r"sample must be .* at most 3000, got 9000"):
        validation.validate_metrics(**data, alpha=0.3, rng=np.random.default_rng(0), **(small | {"sample": 9000}))
    with pytest.raises(InputError, match=r"m must be .* at most 2, got 5"):
        validation.property_rate(sizes=[1, 2], difficulty=[1, 2], rng=np.random.default_rng(0), m=5)
