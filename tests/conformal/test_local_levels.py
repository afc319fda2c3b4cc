from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betaincinv

from caveat.conformal import local_levels as module
from caveat.conformal import violation_probability
from caveat.conformal.local_levels import equal_levels, local_level, quick_level

# Equal-local-level eta, 5 digits.
KNOWN = [
    (100, 0.01, 3.8696e-4), (100, 0.05, 2.4609e-3),
    (1000, 0.01, 1.8517e-4), (1000, 0.05, 1.2170e-3),
    (3000, 0.01, 1.4437e-4), (3000, 0.05, 9.5436e-4),
]  # fmt: skip


@pytest.mark.parametrize(("n", "delta", "eta"), KNOWN)
def test_known_answers(n, delta, eta):
    assert local_level(n, delta)[0] == pytest.approx(eta, rel=5e-5)


def test_by_hand():
    assert local_level(1, 0.1)[0] == pytest.approx(0.1, rel=1e-6)  # one rank: all of delta is its own
    # Two ranks: b_1 = 1 - sqrt(eta), b_2 = sqrt(1 - eta); P(both stay) = b_1^2 + 2 b_1 (b_2 - b_1).
    eta = local_level(2, 0.1)[0]
    first, second = 1 - np.sqrt(eta), np.sqrt(1 - eta)
    assert first**2 + 2 * first * (second - first) == pytest.approx(0.9, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 50, 700])
@pytest.mark.parametrize("delta", [1e-6, 0.001, 0.05, 0.5, 0.99])
def test_spends_delta_and_never_more(n, delta):
    eta, spent = local_level(n, delta)
    again = violation_probability(equal_levels(n, eta))
    assert spent == pytest.approx(again, rel=1e-9)
    assert delta * (1 - 1e-5) <= again <= delta * (1 + 1e-12)


def test_every_rank_is_crossed_alike():
    b = equal_levels(7, 0.02)
    i = np.arange(1, 8)
    assert betaincinv(i, 8 - i, 0.98) == pytest.approx(b)


def test_falls_with_n_and_grows_with_delta():
    etas = [[local_level(n, delta)[0] for n in (10, 40, 160, 640)] for delta in (0.01, 0.1)]
    assert (np.diff(etas, axis=1) < 0).all()
    assert (np.array(etas[0]) < etas[1]).all()


@pytest.mark.parametrize(("n", "eta"), [(20_000, 1e-4), (60_000, 0.05)])
def test_spline_stands_in_for_the_beta_quantile(n, eta):
    i = np.arange(1, n + 1)
    exact = betaincinv(i, n + 1 - i, 1 - eta)
    spread = np.sqrt(exact * (1 - exact) / n)
    assert (np.abs(equal_levels(n, eta) - exact) / spread).max() < 1e-8


def test_extrapolation_is_close_and_on_the_safe_side(monkeypatch):
    monkeypatch.setattr(module, "NODES", (750, 1500, 3000))
    for delta in (0.01, 0.1):
        for n in (6000, 12_000):
            guessed, exact = quick_level(n, delta), local_level(n, delta)[0]
            assert 0.97 < guessed / exact < 0.985


def test_above_a_million_the_level_is_extrapolated(monkeypatch):
    monkeypatch.setattr(module, "NODES", (500, 1000, 2000))  # seconds instead of minutes
    local_level.cache_clear()
    try:
        eta, spent = local_level(2_000_000, 0.05)
    finally:
        local_level.cache_clear()
    assert np.isnan(spent)
    assert 3.5e-4 < eta < local_level(3000, 0.05)[0]  # 4.17e-4 at 1,000,000, falling slowly


def test_kept_on_disk_per_n_and_delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CAVEAT_CACHE", str(tmp_path))
    local_level.cache_clear()
    first = local_level(77, 0.03)
    (path,) = (tmp_path / "bands").iterdir()
    assert json.loads(path.read_text())["values"]["eta"] == first[0]
    local_level.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(module, "safe_theta", None)  # a second computation would fail
        assert local_level(77, 0.03) == first
    path.write_text("{")
    local_level.cache_clear()
    assert local_level(77, 0.03) == first
