from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import Outputs
from caveat.scores._statistics import gather
from caveat.scores.react import ActivationQuantiles

LEVELS = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


def gathered(values, exact_up_to=2**20):
    wanted = ActivationQuantiles(exact_up_to)
    return gather(Outputs(features=values), [wanted])[wanted]


def test_small_data_is_exact():
    values = np.random.default_rng(0).normal(size=(100, 7))
    for q in LEVELS:
        assert gathered(values).quantile(q) == np.quantile(values, q)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", ["normal", "relu", "wide", "negative"])
def test_the_histogram_is_within_its_bin(shape, dtype):
    rng = np.random.default_rng(1)
    values = {
        "normal": rng.normal(size=(4000, 10)),
        "relu": np.maximum(rng.normal(size=(4000, 10)), 0),
        "wide": np.exp(rng.normal(scale=12, size=(4000, 10))),
        "negative": -rng.exponential(size=(4000, 10)),
    }[shape].astype(dtype)
    found = gathered(values, exact_up_to=0)
    for q in LEVELS:
        exact = np.quantile(values.astype(np.float64), q)
        # the two order statistics that a quantile lies between may each be off by 2^-12 of their value
        near = np.quantile(values, q, method="lower"), np.quantile(values, q, method="higher")
        assert abs(found.quantile(q) - exact) <= 2**-12 * max(map(abs, near)) + 1e-37


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", np.longdouble])
def test_other_float_types_and_byte_orders(dtype):
    values = np.random.default_rng(2).normal(size=(500, 10)).astype(np.float16).astype(dtype)
    native = gathered(values.astype(np.float32), exact_up_to=0)
    for q in LEVELS:
        assert gathered(values, exact_up_to=0).quantile(q) == native.quantile(q)


@settings(max_examples=25, deadline=None)
@given(
    parts=st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=9), min_size=2, max_size=4),
    limit=st.sampled_from([0, 5, 100]),
)
def test_parts_add_up_to_one_walk_over_all(parts, limit):
    each = [gathered(np.array([part]).T, limit) for part in parts]
    forward, backward = each[0], each[-1]
    for one in each[1:]:
        forward = forward + one
    for one in each[-2::-1]:
        backward = backward + one
    once = gathered(np.concatenate(parts)[:, None], limit)
    assert forward.n == once.n
    for q in LEVELS:
        assert forward.quantile(q) == once.quantile(q) == backward.quantile(q)


def test_blocks_make_no_difference(monkeypatch):
    values = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    whole = gathered(values, exact_up_to=1000).quantile(0.9)
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 1024)
    assert gathered(values, exact_up_to=1000).quantile(0.9) == whole


def test_memory_does_not_grow_with_the_data():
    found = gathered(np.random.default_rng(0).normal(size=(5000, 100)), exact_up_to=100)
    assert found._counts.nbytes == 2**21 * 8
    assert found._values == []
