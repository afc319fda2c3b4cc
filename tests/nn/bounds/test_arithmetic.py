"""What one operation can be off by, and sums of them, in each float type."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import FLOAT64, REAL, Box, arithmetic_of  # noqa: E402
from caveat_lab.bounds.box import cast_box  # noqa: E402

HALVES = (torch.float16, torch.bfloat16)


def of(dtype):
    return arithmetic_of(nn.Linear(1, 1).to(dtype))


def test_units_and_limits_by_hand():
    # significands of 53, 24, 11 and 8 bits
    assert [of(kind).unit for kind in (torch.float64, torch.float32, *HALVES)] == [2**-53, 2**-24, 2**-11, 2**-8]
    assert of(torch.float16).largest == 65504
    assert of(torch.float16).tiny == 2**-24  # half precision is not flushed to zero
    assert of(torch.float32).tiny == 2**-126  # the others may be
    assert of(torch.float64) == FLOAT64


def test_gamma_by_hand():
    # 3 u / (1 - 3 u) with u = 1/256 is 3/253; 256 products have no bound
    assert of(torch.bfloat16).lost(3) == pytest.approx(3 / 253, rel=1e-15)
    assert math.isinf(of(torch.bfloat16).lost(256))
    assert math.isinf(of(torch.bfloat16).relative(254))
    assert REAL.lost(10**9) == 0


def test_a_model_computes_in_its_coarsest_type():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).half())
    assert arithmetic_of(net).name == "float16"
    assert arithmetic_of(nn.ReLU()).name == "float32"
    whole = nn.Module()
    whole.register_buffer("count", torch.zeros((), dtype=torch.long))
    assert arithmetic_of(whole).name == "float32"


def test_float_types_of_8_bits_are_refused():
    net = nn.Linear(2, 2)
    net.weight.data = net.weight.data.to(torch.float8_e4m3fn)
    with pytest.raises(InputError, match="must be one of float64, float32, float16, bfloat16, got float8_e4m3fn"):
        arithmetic_of(net)


@pytest.mark.parametrize(("precision", "name", "unit"), [("high", "TF32", 2**-10), ("medium", "bfloat16", 2**-8)])
def test_coarser_products_that_torch_is_set_to_are_paid_for(precision, name, unit):
    plain = of(torch.float32)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        coarse = of(torch.float32)
        assert coarse.name == f"float32 with {name} products"
        assert coarse.lost(5) >= (1 + unit) ** 2 - 1 + plain.lost(5)
        assert of(torch.float64) == FLOAT64
    finally:
        torch.set_float32_matmul_precision(before)


def test_coarser_products_of_one_kind_of_layer_are_paid_for():
    try:
        torch.backends.mkldnn.conv.fp32_precision = "bf16"
        assert of(torch.float32).name == "float32 with bfloat16 products"
    finally:
        torch.backends.mkldnn.conv.fp32_precision = "none"
    assert of(torch.float32).name == "float32"


half = st.floats(-8, 8, width=16)


@given(pairs=st.lists(st.tuples(half, half), min_size=1, max_size=12), bias=half, seed=st.integers(0, 99))
def test_a_sum_in_any_order_rounded_in_each_step_is_within_gamma(pairs, bias, seed):
    # The literal sum: every product and every addition rounded to float16, in a random order, with the bias somewhere.
    slack, order = of(torch.float16), torch.randperm(len(pairs) + 1, generator=torch.Generator().manual_seed(seed))
    terms = [torch.tensor(a, dtype=torch.float16) * torch.tensor(b, dtype=torch.float16) for a, b in pairs]
    terms.append(torch.tensor(bias, dtype=torch.float16))
    total = torch.zeros((), dtype=torch.float16)
    for i in order.tolist():
        total = total + terms[i]
    exact = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(bias))
    size = sum((abs(Fraction(a) * Fraction(b)) for a, b in pairs), abs(Fraction(bias)))
    factors = torch.tensor([abs(number) for pair in pairs for number in pair])
    room = slack.lost(len(pairs) + 2) * float(size) + slack.underflow(len(pairs), factors)
    assert abs(float(Fraction(float(total)) - exact)) <= room


@settings(max_examples=40)
@given(value=st.floats(-1, 1), reach=st.floats(0, 0.5), share=st.floats(0, 1))
def test_what_becomes_of_an_input_of_a_box_when_it_is_cast_is_in_the_cast_box(value, reach, share):
    box = Box(torch.tensor([value], dtype=torch.float64), torch.tensor([reach], dtype=torch.float64))
    point = torch.tensor([value - reach + 2 * share * reach], dtype=torch.float64)
    for kind in (torch.float32, *HALVES):
        cast = cast_box(box, of(kind)).widened(1)
        for inside in (point.clamp(box.lower, box.upper), box.lower, box.upper):
            assert cast.lower <= inside.to(kind).double() <= cast.upper
            assert cast.lower <= inside <= cast.upper
    assert cast_box(box, FLOAT64) is box


def test_beyond_the_largest_number_there_is_no_bound():
    box = Box(torch.tensor([65000.0, 66000.0]).double(), torch.tensor([1.0, 1.0]).double())
    assert box.widened(1, of(torch.float16)).radius.isfinite().tolist() == [True, False]
    assert box.widened(1).radius.isfinite().all()
