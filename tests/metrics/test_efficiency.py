"""The ten criteria: by hand, against a literal reference, and the identities of the binary case."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.errors import InputError
from caveat.metrics import better, efficiency

LETTERS = {"S", "U", "F", "OU", "OF", "N", "M", "E", "OM", "OE"}


def literal(p, labels, epsilon):
    rows = []
    for row, y in zip(p.tolist(), labels, strict=True):
        others = [v for i, v in enumerate(row) if i != y]
        inside = [i for i, v in enumerate(row) if v > epsilon]
        wrong = [i for i in inside if i != y]
        rows.append(
            {
                "S": sum(row),
                "U": sorted(row)[-2],
                "F": sum(row) - max(row),
                "OU": max(others),
                "OF": sum(others),
                "N": len(inside),
                "M": len(inside) > 1,
                "E": max(len(inside) - 1, 0),
                "OM": len(wrong) > 0,
                "OE": len(wrong),
                "credibility": max(row),
                "empty": len(inside) == 0,
            }
        )
    return {key: np.mean([row[key] for row in rows]) for key in rows[0]}


@settings(max_examples=80, deadline=None)
@given(n=st.integers(1, 8), classes=st.integers(2, 5), seed=st.integers(0, 2**32 - 1))
def test_against_the_definitions(n, classes, seed):
    rng = np.random.default_rng(seed)
    p, labels = rng.integers(0, 11, size=(n, classes)) / 10, rng.integers(0, classes, n)  # ties, and p equal to epsilon
    found = efficiency(p_values=p, labels=labels, epsilon=0.3)
    assert set(found) == LETTERS | {"credibility", "empty"}
    assert found == pytest.approx(literal(p, labels, 0.3))
    if classes == 2:
        for same, other in (("U", "F"), ("M", "E"), ("OU", "OF"), ("OM", "OE")):
            assert found[same] == pytest.approx(found[other])


def test_half_precision_loses_no_more_than_it_must():
    p = np.random.default_rng(0).random((500, 40)).astype(np.float16)
    exact = efficiency(p_values=p.astype(np.float64), labels=np.zeros(500, int))
    assert efficiency(p_values=p, labels=np.zeros(500, int)) == pytest.approx(exact, rel=1e-12)
    # float32(0.1) is above 0.1, but as a p-value it is 0.1: not in a set {p > 0.1}
    assert efficiency(p_values=np.array([[0.1, 0.9]], dtype=np.float32), epsilon=0.1)["N"] == 1


def test_what_is_not_known_is_left_out():
    assert set(efficiency(p_values=[[0.5, 0.2]])) == {"S", "U", "F", "credibility"}
    assert set(efficiency(p_values=[[0.5, 0.2]], epsilon=0.1)) == {"S", "U", "F", "credibility", "N", "M", "E", "empty"}


def test_s_phi_by_hand():
    p = [[0.5, 0.2], [1.0, 0.1]]  # squares: .25 + .04 and 1 + .01
    assert efficiency(p_values=p, phi=np.square)["S_phi"] == pytest.approx((0.29 + 1.01) / 2)
    identity = efficiency(p_values=p, phi=lambda values: values)
    assert identity["S_phi"] == identity["S"]
    assert "S_phi" not in efficiency(p_values=p)


def test_s_phi_refuses_what_is_not_an_increasing_function():
    with pytest.raises(InputError, match="phi must increase"):
        efficiency(p_values=[[0.5, 0.2]], phi=np.negative)
    with pytest.raises(InputError, match="phi must be a function"):
        efficiency(p_values=[[0.5, 0.2]], phi=2)
    with pytest.raises(InputError, match="same shape"):
        efficiency(p_values=[[0.5, 0.2]], phi=lambda p: p[:, :1])
    with pytest.raises(InputError, match="phi"):
        efficiency(p_values=[[0.5, 0.0]], phi=lambda p: np.where(p > 0, p, np.nan))


def test_ties_are_broken_as_in_the_paper():
    a = {"U": 0.3, "F": 0.3, "M": 0.0, "E": 0.0, "credibility": 0.6, "empty": 0.1, "S": 0.4}
    b = {"U": 0.3, "F": 0.3, "M": 0.0, "E": 0.0, "credibility": 0.7, "empty": 0.2, "S": 0.4}
    assert better(a, b, "U") == better(a, b, "F") == "first"  # smaller credibility
    assert better(a, b, "M") == better(a, b, "E") == "second"  # more empty sets
    assert better(a, b, "S") == "tied"
    assert better({"S": 0.1}, {"S": 0.2}, "S") == "first"
    with pytest.raises(InputError, match="both efficiencies must hold 'OU'"):
        better(a, b, "OU")


def test_clear_errors():
    with pytest.raises(InputError, match=r"p_values must lie between 0 and 1, got 1.5 at row 1"):
        efficiency(p_values=[[0.5, 0.2], [1.5, 0.0]])
    with pytest.raises(InputError, match=r"same length, got 1 and 2"):
        efficiency(p_values=[[0.5, 0.2]], labels=[0, 1])
    with pytest.raises(InputError, match="epsilon must be strictly between 0 and 1"):
        efficiency(p_values=[[0.5, 0.2]], epsilon=1)
