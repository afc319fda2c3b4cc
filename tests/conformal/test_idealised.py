"""The idealized setting: the paper's examples, and a fine grid of tau. The theorems are tested with their study."""

import numpy as np
import pytest

from caveat.conformal.idealised import efficiency, measure, p_lines
from caveat.errors import InputError
from caveat.metrics import better

ONE = np.array([[0.2, 0.3, 0.5]])  # 004, eq. (34)
LABEL_CONDITIONAL = np.array([[0.2, 0.3, 0.2, 0.3], [0.3, 0.2, 0.3, 0.2]]) / 2  # eq. (45)
FIRST_OBJECT_LAST = np.array([[0.0] * 4, [1.0] * 4])  # object 1 conforms less than object 2, whatever the label


def two_objects(delta):
    third = 1 / 3
    return (
        np.array([[third - delta, third, third + delta], [third - 5 * delta, third + 2 * delta, third + 3 * delta]]) / 2
    )


@pytest.mark.parametrize(
    ("criterion", "epsilon", "name", "value"),
    [
        ("U", None, "cp", 0.35),
        ("U", None, "sp", 0.25),
        ("M", 0.2, "cp", 1.0),
        ("M", 0.2, "sp", 0.6),
        ("OU", None, "cp", 0.55),
        ("OU", None, "msp", 0.5),
        ("OM", 0.2, "cp", 1.0),
        ("OM", 0.2, "msp", 0.8),
    ],
)
def test_one_object_page_15(criterion, epsilon, name, value):
    assert efficiency(ONE, measure(ONE, name), epsilon=epsilon)[criterion] == pytest.approx(value)


def test_two_objects_page_15():
    q = two_objects(1e-7)
    assert efficiency(q, measure(q, "cp"))["F"] == pytest.approx(3 / 4, abs=1e-5)
    assert efficiency(q, measure(q, "mcp"))["F"] == pytest.approx(2 / 3, abs=1e-5)
    assert efficiency(q, measure(q, "cp"), epsilon=2 / 3)["E"] == pytest.approx(0.5, abs=1e-5)
    assert efficiency(q, measure(q, "mcp"), epsilon=2 / 3)["E"] == pytest.approx(0.0, abs=1e-5)


def test_label_conditional_page_26():
    q, cp = LABEL_CONDITIONAL, measure(LABEL_CONDITIONAL, "cp")
    for criterion in ("U", "OU"):
        assert efficiency(q, cp, by_label=True)[criterion] == pytest.approx(0.7)
        assert efficiency(q, FIRST_OBJECT_LAST, by_label=True)[criterion] == pytest.approx(0.55)
    for criterion in ("M", "OM"):
        assert efficiency(q, cp, by_label=True, epsilon=0.4)[criterion] == pytest.approx(1.0)
        assert efficiency(q, FIRST_OBJECT_LAST, by_label=True, epsilon=0.4)[criterion] == pytest.approx(2 / 3)


def test_label_conditional_page_26_second_example():
    q = (1 / 3 + 1e-7 * np.array([[1, -2, 1], [-1, 2, -1], [0, 0, 0]])) / 3
    cp, a = measure(q, "cp"), np.array([[3, 0, 3], [1, 4, 1], [2, 2, 5]])  # A: CP, but (3, 3) conforms most
    assert efficiency(q, cp, by_label=True)["F"] == pytest.approx(7 / 9, abs=1e-5)
    assert efficiency(q, a, by_label=True)["F"] == pytest.approx(2 / 3, abs=1e-5)
    assert efficiency(q, cp, by_label=True, epsilon=2 / 3)["E"] == pytest.approx(1 / 3, abs=1e-5)
    assert efficiency(q, a, by_label=True, epsilon=2 / 3)["E"] == pytest.approx(0, abs=1e-5)


def test_measures_by_hand():
    q = np.array([[0.3, 0.1], [0.24, 0.36]])  # conditional: (.75, .25), (.4, .6)
    assert measure(q, "cp") == pytest.approx(np.array([[0.75, 0.25], [0.4, 0.6]]))
    assert measure(q, "sp") == pytest.approx(np.array([[0.75, -0.75], [-0.6, 0.6]]))
    assert measure(q, "mcp") == pytest.approx(np.array([[0.75, -0.75], [-0.6, 0.6]]))
    three = [[0.4, 0.35, 0.25]]
    assert measure(three, "msp").tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["cp", "sp", "mcp", "msp"])
@pytest.mark.parametrize("conditional", [(0.2, 0.3, 0.5), (0.15, 0.35, 0.5), (0.1, 0.2, 0.7), (1 / 3, 1 / 3, 1 / 3)])
def test_an_object_that_is_split_in_two_changes_nothing(conditional, name):
    # Both halves have the same conditional probabilities, up to the rounding of a division. At 0.35 it lifted a
    # predictability of 1/2 above 1/2.
    whole = np.array([conditional])
    expected = efficiency(whole, measure(whole, name), epsilon=0.2)
    for share in (0.05, 0.3, 0.35, 0.6):
        parts = np.outer([share, 1 - share], conditional)
        assert efficiency(parts, measure(parts, name), epsilon=0.2) == pytest.approx(expected)


def test_the_four_measures_differ_where_the_theorems_say():
    # With three labels CP is not optimal for the six criteria that are not probabilistic.
    q = two_objects(1e-4)
    cp = measure(q, "cp")
    assert better(efficiency(q, measure(q, "mcp")), efficiency(q, cp), "F") == "first"
    assert better(efficiency(ONE, measure(ONE, "sp")), efficiency(ONE, measure(ONE, "cp")), "U") == "first"


@pytest.mark.parametrize("by_label", [False, True])
def test_exact_means_agree_with_a_fine_grid_of_tau(by_label):
    rng = np.random.default_rng(1)
    q, a = rng.dirichlet(np.ones(12)).reshape(3, 4), rng.integers(0, 4, size=(3, 4)).astype(float)
    below, tied = p_lines(q, a, by_label=by_label)
    exact = efficiency(q, a, epsilon=0.3, by_label=by_label)
    taus = (np.arange(4000) + 0.5) / 4000
    p = below[None] + taus[:, None, None] * tied[None]  # (tau, x, y)
    size = (p > 0.3).sum(axis=2)
    weight = q.sum(axis=1)
    assert exact["U"] == pytest.approx((np.sort(p, axis=2)[:, :, -2] * weight).sum(axis=1).mean(), abs=1e-6)
    assert exact["M"] == pytest.approx(((size > 1) * weight).sum(axis=1).mean(), abs=2e-3)
    assert exact["E"] == pytest.approx((np.maximum(size - 1, 0) * weight).sum(axis=1).mean(), abs=2e-3)
    false_mass = sum(q[x, y] * np.delete(p[:, x], y, axis=1).max(axis=1) for x in range(3) for y in range(4))
    assert exact["OU"] == pytest.approx(false_mass.mean(), abs=1e-6)


def test_p_values_of_the_true_label_are_uniform():
    # S = OF + 1/2 and N = OE + (1 - epsilon), because p(x, y) is uniform when (x, y) ~ Q
    rng = np.random.default_rng(2)
    for by_label in (False, True):
        q, a = rng.dirichlet(np.ones(9)).reshape(3, 3), rng.normal(size=(3, 3))
        found = efficiency(q, a, epsilon=0.23, by_label=by_label)
        assert found["S"] == pytest.approx(found["OF"] + 0.5)
        assert found["N"] == pytest.approx(found["OE"] + 0.77)


def test_clear_errors():
    with pytest.raises(InputError, match=r"sum 1; got the sum 1.2"):
        efficiency([[0.6, 0.6]], [[0, 1]])
    with pytest.raises(InputError, match="row 1 has none"):
        measure([[0.5, 0.5], [0, 0]], "cp")
    with pytest.raises(InputError, match=r"a and q must have the same shape, got \(1, 3\)"):
        efficiency([[0.5, 0.5]], [[0, 1, 2]])
