"""The bounds of a density ratio, against corners, grids and the misprinted constants of the paper."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError
from caveat_lab.robust.density_ratio import (
    DensityRatio,
    eigenvalue_radius,
    fit_density_ratio,
    gated_log_confidence,
    metric_radius,
)
from caveat_lab.robust.mixtures import Mixture


def random_mixture(rng, k, d, *, diagonal, low=0.01, high=0.5):
    weights = rng.dirichlet(np.ones(k)) * 0.9 + 0.1 / k
    return Mixture(weights, rng.random((k, d)), rng.uniform(low, high, size=(k, d) if diagonal else k))


def random_ratio(seed, *, d=3, diagonal=False, transform=False):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(d, d)) if transform else None
    return DensityRatio(
        random_mixture(rng, 3, d, diagonal=diagonal), random_mixture(rng, 2, d, diagonal=diagonal), 0.7, matrix
    )


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), epsilon=st.floats(0, 0.5), diagonal=st.booleans(), transform=st.booleans(),
    method=st.sampled_from(["ball", "box", "pairs"]), clip=st.booleans(),
)  # fmt: skip
def test_no_corner_and_no_grid_point_leaves_the_bounds(seed, epsilon, diagonal, transform, method, clip):
    ratio = random_ratio(seed, diagonal=diagonal and method != "ball", transform=transform)
    x = np.random.default_rng(seed + 1).random((1, 3))
    bounds = ratio.bounds(x, epsilon, clip=(0.0, 1.0) if clip else None, method=method)
    axes = [np.linspace(v - epsilon, v + epsilon, 7) for v in x[0]]
    points = np.array(list(itertools.product(*axes)))
    if clip:
        points = np.clip(points, 0, 1)
    values = ratio.log_ratio(points)
    assert values.max() <= bounds.upper[0]
    assert values.min() >= bounds.lower[0]


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), epsilon=st.floats(0, 0.5))
def test_each_bound_is_no_looser_than_the_one_before(seed, epsilon):
    ratio, x = random_ratio(seed), np.random.default_rng(seed).random((4, 3))
    ball, box, pairs = (ratio.bounds(x, epsilon, clip=None, method=m) for m in ("ball", "box", "pairs"))
    assert (pairs.upper <= box.upper + 1e-9).all()
    assert (box.upper <= ball.upper + 1e-9).all()
    assert (pairs.lower >= box.lower - 1e-9).all()


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), epsilon=st.floats(0, 0.5), diagonal=st.booleans(), swap=st.booleans())
def test_pairs_agree_with_the_formula_written_out(seed, epsilon, diagonal, swap):
    # sum_k min_l prod_j max over a fine grid of [x_j - e, x_j + e] of P_kj / Q_lj, or the box bound if that is smaller
    ratio, x = random_ratio(seed, diagonal=diagonal), np.random.default_rng(seed).random((3, 3))
    top, bottom = (ratio.outside, ratio.inside) if swap else (ratio.inside, ratio.outside)
    grid = x[:, :, None] + np.linspace(-epsilon, epsilon, 2001)
    total = np.zeros(3)
    for k in range(top.k):
        least = np.full(3, np.inf)
        for j in range(bottom.k):
            a, b = (np.broadcast_to(1 / (2 * m.variances[i]), 3)[:, None] for m, i in ((top, k), (bottom, j)))
            height = b * (grid - bottom.means[j][:, None]) ** 2 - a * (grid - top.means[k][:, None]) ** 2
            value = height.max(axis=2).sum(axis=1) + top.log_scales()[k] - bottom.log_scales()[j]
            least = np.minimum(least, value)
        total += np.exp(least)
    both = DensityRatio(top, bottom)
    box = both.bounds(x, epsilon, clip=None, method="box").upper
    found = both.bounds(x, epsilon, clip=None).upper
    np.testing.assert_allclose(found, np.minimum(np.log(total), box), atol=2e-3)
    assert (found >= np.minimum(np.log(total), box) - 1e-9).all()


def test_one_pair_is_exact_by_hand():
    # P = N(0.2, 0.01), Q = N(0.5, 0.2), x = 0.9 +- 0.1: P/Q falls beyond its peak, so 0.8 is worst.
    # log P/Q = log(sqrt(0.2/0.01)) - 0.6^2 / 0.02 + 0.3^2 / 0.4
    ratio = DensityRatio(Mixture([1.0], [[0.2]], [0.01]), Mixture([1.0], [[0.5]], [0.2]))
    want = 0.5 * np.log(20) - 0.36 / 0.02 + 0.09 / 0.4
    assert ratio.bounds([[0.9]], 0.1).upper[0] == pytest.approx(want, abs=1e-12)


def test_the_peak_inside_the_box_is_found():
    # a = 1/(2*0.01) = 50, b = 1/(2*0.2) = 2.5: peak at (50*0.2 - 2.5*0.5)/47.5 = 0.184211, height ab/(a-b) 0.3^2
    ratio = DensityRatio(Mixture([1.0], [[0.2]], [0.01]), Mixture([1.0], [[0.5]], [0.2]))
    want = 0.5 * np.log(20) + 50 * 2.5 / 47.5 * 0.09
    assert ratio.bounds([[0.3]], 0.2).upper[0] == pytest.approx(want, abs=1e-12)


def test_equal_variances_have_no_peak():
    # log P/Q is linear: 2*a*(mu - nu) z + ..., largest at the upper end
    ratio = DensityRatio(Mixture([1.0], [[0.6]], [0.1]), Mixture([1.0], [[0.2]], [0.1]))
    assert ratio.bounds([[0.5]], 0.1).upper[0] == pytest.approx(float(ratio.log_ratio([[0.6]])[0]), abs=1e-12)


def test_image_sized_inputs_survive_random_corners_and_moves_to_the_centers():
    rng = np.random.default_rng(0)
    inside = Mixture(np.full(6, 1 / 6), rng.random((6, 196)), rng.uniform(0.02, 0.05, 6))
    outside = Mixture(np.full(5, 1 / 5), rng.random((5, 196)), rng.uniform(0.08, 0.1, 5))
    ratio, x, epsilon = DensityRatio(inside, outside), rng.random((5, 196)), 0.2
    uppers = {m: ratio.bounds(x, epsilon, method=m).upper for m in ("ball", "box", "pairs")}
    moves = [np.clip(x + epsilon * rng.choice([-1, 1], x.shape), 0, 1) for _ in range(200)]
    moves += [np.clip(np.clip(m, x - epsilon, x + epsilon), 0, 1) for m in inside.means]
    found = np.max([ratio.log_ratio(move) for move in moves], axis=0)
    for upper in uppers.values():
        assert (found <= upper).all()
    assert (uppers["pairs"] < uppers["box"] - 1).all()  # and the pair bound is worth its time
    assert (uppers["box"] < uppers["ball"] - 1).all()


def test_radius_zero_gives_the_value():
    ratio, x = random_ratio(1), np.random.default_rng(0).random((5, 3))
    bounds = ratio.bounds(x, 0.0)
    np.testing.assert_allclose(bounds.upper, bounds.value, atol=1e-9)
    np.testing.assert_allclose(bounds.lower, bounds.value, atol=1e-9)
    assert (bounds.lower <= bounds.value).all()
    assert (bounds.value <= bounds.upper).all()


def test_one_side_alone_is_the_same_bound():
    ratio, x = random_ratio(2), np.random.default_rng(0).random((4, 3))
    for method in ("ball", "box", "pairs"):
        alone = ratio.bounds(x, 0.1, method=method, side="upper")
        np.testing.assert_array_equal(alone.upper, ratio.bounds(x, 0.1, method=method).upper)
        assert (alone.lower == -np.inf).all()


def test_each_row_may_have_its_own_radius():
    ratio, x = random_ratio(2), np.random.default_rng(0).random((2, 3))
    both = ratio.bounds(x, [0.1, 0.3]).upper
    assert both[0] == ratio.bounds(x[:1], 0.1).upper[0]
    assert both[1] == ratio.bounds(x[1:], 0.3).upper[0]


def test_the_printed_constant_is_no_bound_and_the_corrected_ones_are():
    # Eq. (15) of the GOOD appendix takes sqrt(d lambda_max(C)); for C with small eigenvalues a corner is farther away.
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 6)) * np.logspace(-2, 0, 6)
    covariance = base.T @ base + 1e-4 * np.eye(6)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors / np.sqrt(values) @ vectors.T
    corners = np.array(list(itertools.product([-0.3, 0.3], repeat=6)))
    farthest = np.linalg.norm(corners @ root.T, axis=1).max()
    printed = 0.3 * np.sqrt(6 * values[-1])
    tight = metric_radius(0.3, d=6, transform=root)
    assert printed < farthest  # what is printed misses
    assert farthest <= tight <= eigenvalue_radius(0.3, covariance) + 1e-12


def test_far_away_the_ratio_vanishes_if_the_outside_is_wider():
    inside, outside = Mixture([1.0], [[0.0, 0.0]], [0.1]), Mixture([1.0], [[0.0, 0.0]], [0.2])
    assert DensityRatio(inside, outside).vanishes_far_away
    assert not DensityRatio(outside, inside).vanishes_far_away
    assert DensityRatio(inside, outside).log_ratio([[1e3, -1e3]])[0] < -1e6


def test_gated_confidence_is_the_mixture_of_the_paper():
    # (12) of the GOOD appendix: (p_y p_in + p_out / K) / (p_in + p_out), here with b = p_in / p_out = 3, p_y = 0.6
    want = (0.6 * 3 + 1 / 10) / (3 + 1)
    assert np.exp(gated_log_confidence(np.log(3), 10, np.log(0.6))) == pytest.approx(want)
    # (13): at most (1/K)(1 + K b)/(1 + b)
    assert np.exp(gated_log_confidence(np.log(3), 10)) == pytest.approx((1 + 30) / 10 / 4)


def test_fitted_mixtures_tell_inside_from_outside():
    rng = np.random.default_rng(0)
    inside = rng.normal(0.5, 0.03, (200, 5))
    ratio = fit_density_ratio(inlier=inside, outlier=rng.random((200, 5)), rng=rng, components=4)
    assert ratio.log_ratio(inside).min() > ratio.log_ratio(rng.choice([0.0, 1.0], (50, 5))).max()


@pytest.mark.parametrize(("make", "what"), [
    (lambda r: r.bounds([[0.5] * 3], 0.1, method="bal"), "unknown method 'bal'. Did you mean 'ball'"),
    (lambda r: r.bounds([[1.5] * 3], 0.1), "x must lie between 0 and 1"),
    (lambda r: r.bounds([[0.5] * 3], -0.1), "epsilon must be 0 or larger"),
    (lambda r: r.bounds([[0.5] * 3], [0.1, 0.2]), r"epsilon and the rows of x must have the same shape"),
    (lambda r: r.bounds([[0.5] * 2], 0.1), "x must have 3 columns"),
    (lambda r: metric_radius(-1.0, d=3), "epsilon must be"),
    (lambda r: eigenvalue_radius(1.0, np.zeros((2, 2))), "positive definite"),
    (lambda r: DensityRatio(r.inside, Mixture([1.0], [[0.0]], [1.0])), "same width"),
    (lambda r: DensityRatio(r.inside, r.outside, 0.0), "out_weight must be a positive"),
    (lambda r: DensityRatio(r.inside, r.outside, 1.0, np.eye(2)), "same number of dimensions"),
])  # fmt: skip
def test_wrong_arguments_are_named(make, what):
    with pytest.raises(InputError, match=what):
        make(random_ratio(0))


def test_the_ball_needs_spheres():
    with pytest.raises(InputError, match="needs spherical"):
        random_ratio(0, diagonal=True).bounds([[0.5] * 3], 0.1, method="ball")


def test_squares_that_cancel_the_scales_are_rounded_up():
    # With this variance a typical log-density is near 0: a thousandth of what was added up. Against long doubles.
    d, variance = 5000, 1 / (2 * np.pi * np.e)
    rng = np.random.default_rng(0)
    means = rng.random((3, d))
    inside, outside = (Mixture(np.full(3, 1 / 3), m, np.full(3, variance)) for m in (means, means + 1e-3))
    x = means[rng.integers(3, size=150)] + rng.normal(0, np.sqrt(variance), (150, d))

    def log_density(mixture):
        squares = [np.square(x.astype(np.longdouble) - mean).sum(axis=1) for mean in mixture.means]
        exponents = -np.stack(squares, axis=1) / (2 * np.longdouble(variance))
        top = exponents.max(axis=1)
        return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))  # weights and scales are the same in both

    exact = log_density(inside) - log_density(outside)
    for method in ("ball", "box", "pairs"):
        bounds = DensityRatio(inside, outside).bounds(x, 0.0, clip=None, method=method)
        assert (bounds.lower <= exact).all()
        assert (exact <= bounds.upper).all()


@pytest.mark.parametrize("method", ["ball", "box", "pairs"])
def test_the_rounding_of_a_transform_is_paid_for(method):
    rng, d = np.random.default_rng(0), 40
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    matrix = (turn * np.geomspace(1, 100, d)) @ turn.T
    means = 1e4 + rng.random((3, d))
    inside, outside = (Mixture(np.full(3, 1 / 3), m @ matrix.T, np.full(3, v))
                       for m, v in ((means, 0.01), (means + 0.01 * rng.normal(size=(3, d)), 0.02)))  # fmt: skip
    x = means[rng.integers(3, size=300)] + 1e-4 * rng.normal(size=(300, d))
    bounds = DensityRatio(inside, outside, transform=matrix).bounds(x, 0.0, clip=None, method=method)
    backwards = np.einsum("nd,kd->nk", x[:, ::-1], matrix[:, ::-1])  # the same sums in another order
    found = inside.log_density(backwards) - outside.log_density(backwards)
    assert (bounds.lower <= found).all()
    assert (found <= bounds.upper).all()
