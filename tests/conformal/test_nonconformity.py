"""Nonconformity scores: by hand, against a literal reference, and the short ways against the long one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.conformal.nonconformity import APS, LAC, NONCONFORMITY, RAPS, SAPS, Margin, TopK
from caveat.errors import InputError

PROBS = np.array([[0.1, 0.6, 0.3]])
HALF = np.array([0.5])
ALL = [LAC(), APS(), RAPS(penalty=0.1, k_reg=1), SAPS(weight=0.15), TopK(), Margin()]
EVERY = [*ALL, *(rule.fine for rule in ALL if rule.fine != rule)]


def named(rule):
    return f"{rule.name}{' less 1' if rule.less else ''}"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (LAC(), [0.9, 0.4, 0.7]),
        # ranks: label 1 first, 2 second, 0 third; above them lie 0, 0.6, 0.9; half of the own probability is added
        (APS(), [0.95, 0.3, 0.75]),
        # one rank is free: +0.1 for the second, +0.2 for the third
        (RAPS(penalty=0.1, k_reg=1), [1.15, 0.3, 0.85]),
        # first: 0.5 * 0.6; second: 0.6 + (0 + 0.5) * 0.2; third: 0.6 + (1 + 0.5) * 0.2
        (SAPS(weight=0.2), [0.9, 0.3, 0.7]),
        (TopK(), [3.0, 1.0, 2.0]),
        # best other minus own: 0.6 - 0.1, 0.3 - 0.6, 0.6 - 0.3
        (Margin(), [0.5, -0.3, 0.3]),
    ],
)
def test_by_hand(rule, expected):
    assert rule.of_all(PROBS, HALF)[0] == pytest.approx(expected)


def test_one_price_of_a_rank_without_randomization():
    # u = 1: the top label costs p_max, the next p_max + w, then p_max + 2 w
    assert SAPS(weight=0.2).of_all(PROBS, np.ones(1))[0] == pytest.approx([1.0, 0.6, 0.8])
    assert APS().of_all(PROBS, np.ones(1))[0] == pytest.approx([1.0, 0.6, 0.9])


def literal(rule, p, u):
    """Each score from its definition, one row and one label at a time."""
    order = sorted(range(p.size), key=lambda y: (-p[y], y))
    found = []
    for y in range(p.size):
        rank = order.index(y) + 1
        above = sum(p[order[r]] for r in range(rank - 1))
        found.append(
            {
                "lac": 1 - p[y],
                "aps": above + u * p[y],
                "raps": above + u * p[y] + 0.1 * max(0, rank - 1),
                "saps": u * p.max() if rank == 1 else p.max() + (rank - 2 + u) * 0.15,
                "topk": rank,
                "margin": max(p[z] for z in range(p.size) if z != y) - p[y],
            }[rule.name]
        )
    return found


@st.composite
def tables(draw):
    n, classes = draw(st.integers(1, 6)), draw(st.sampled_from([2, 3, 10, 40, 70]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        raw = rng.integers(0, 4, size=(n, classes)) + (np.arange(classes) == 0)  # many ties
    else:
        raw = np.exp(rng.normal(size=(n, classes)) * rng.choice([0.1, 1, 5]))
    probs = (raw / raw.sum(axis=1, keepdims=True)).astype(draw(st.sampled_from([np.float32, np.float64])))
    return probs, rng.random(n), rng.integers(0, classes, size=n)


@pytest.mark.parametrize("rule", EVERY, ids=named)
@settings(max_examples=40, deadline=None)
@given(table=tables())
def test_against_the_definition(rule, table):
    probs, u, _ = table
    expected = [literal(rule, row.astype(np.float64), v) for row, v in zip(probs, u, strict=True)]
    # The mass up to a label is 1 less the mass that remains: the same where a row sums to 1, and off by what it lacks.
    lacking = np.abs(1 - probs.sum(axis=1, dtype=np.float64)).max()
    np.testing.assert_allclose(rule.of_all(probs, u) + rule.less, expected, rtol=0, atol=1e-12 + lacking)


@pytest.mark.parametrize("rule", EVERY, ids=named)
@settings(max_examples=60, deadline=None)
@given(table=tables(), pick=st.integers(0, 10**6))
def test_short_ways_equal_the_long_one_bit_by_bit(rule, table, pick):
    probs, u, labels = table
    scores = rule.of_all(probs, u)
    rows = np.arange(labels.size)
    np.testing.assert_array_equal(rule.of_labels(probs, labels, u), scores[rows, labels])
    # Thresholds that are scores themselves: an inequality the wrong way round, or one rounding apart, would show.
    threshold = scores[rows, (labels + pick) % probs.shape[1]]
    for cut in (threshold, np.full(labels.size, np.inf), np.full(labels.size, -1.5), np.nextafter(threshold, -np.inf)):
        np.testing.assert_array_equal(rule.within(probs, u, cut), scores <= cut[:, None])


@pytest.mark.parametrize("rule", EVERY, ids=named)
def test_the_steps_of_the_short_ways_meet_bit_by_bit(rule):
    # Ranks 32 and 256 are where the next step begins, with sums that are rounded otherwise.
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(300, 0.2), size=200).astype(np.float32)
    u, rows, order = rng.random(200), np.arange(200), np.argsort(-probs, axis=1, kind="stable")
    scores = rule.of_all(probs, u)
    for rank in (31, 32, 33, 255, 256, 257, 300):
        labels = order[:, rank - 1]
        threshold = scores[rows, labels]
        np.testing.assert_array_equal(rule.of_labels(probs, labels, u), threshold)
        np.testing.assert_array_equal(rule.within(probs, u, threshold), scores <= threshold[:, None])


@pytest.mark.parametrize("rule", EVERY, ids=named)
@pytest.mark.parametrize("classes", [40, 1000])
def test_a_row_scores_the_same_alone(rule, classes):
    rng = np.random.default_rng(0)
    probs, u = rng.dirichlet(np.ones(classes), size=50).astype(np.float32), rng.random(50)
    together = rule.of_all(probs, u)
    for i in range(50):
        np.testing.assert_array_equal(rule.of_all(probs[i : i + 1], u[i : i + 1])[0], together[i])


def test_a_tiny_probability_is_still_told_from_a_tinier_one():
    # In float32, 1 - 1e-9 and 1 - 1e-10 are both 1: the comparison must not be made there.
    probs = np.array([[1.0, 1e-9, 1e-10]], dtype=np.float32)
    cut = LAC().of_labels(probs, np.array([1]), np.ones(1))
    assert LAC().within(probs, np.ones(1), cut).tolist() == [[True, True, False]]


def test_a_sure_row_is_told_from_a_surer_one():
    # Without u the top label scores 1 less what remains. 1 - 3e-10 is 1 in float32, and 1 - 3e-20 in float64 too.
    for dtype, left in ((np.float32, [1e-10, 1e-12]), (np.float64, [1e-20, 1e-22]), (np.float32, [1e-20, 1e-30])):
        probs = np.array([[1.0, 2 * r, r] for r in left], dtype=dtype)
        for rule in (APS(), RAPS(), SAPS()):
            found = rule.fine.of_all(probs, np.ones(2))[:, 0]
            np.testing.assert_allclose(found, [-3 * r for r in left], rtol=1e-6)
            np.testing.assert_array_equal(rule.of_all(probs, np.ones(2))[:, 0], 1 + found)


def test_every_name_is_known_and_bad_settings_are_named():
    assert sorted(NONCONFORMITY) == ["aps", "lac", "margin", "raps", "saps", "topk"]
    with pytest.raises(InputError, match=r"penalty must be .* at least 0, got -1"):
        RAPS(penalty=-1)
    with pytest.raises(InputError, match=r"weight must be .* at least 0, got nan"):
        SAPS(weight=float("nan"))
    with pytest.raises(InputError, match="k_reg must be a whole number"):
        RAPS(k_reg=1.5)


SURE = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])


@pytest.mark.parametrize("name", NONCONFORMITY)
@pytest.mark.parametrize(("probs", "u", "words"), [
    ([0.7, 0.3], [1.0], "probs must be a non-empty matrix"),
    ([["a", "b"]], [1.0], "probs must hold real numbers"),
    ([[0.7, np.nan, 0.3]], [1.0], "probs has NaN"),
    ([[3.0, 1.0, 0.0]], [1.0], "probs"),
    (SURE, [1.0], "2 and 1|probs and u|length"),
    (SURE, [0.5, 1.5], "u must lie between 0 and 1"),
    (SURE, [[1.0, 1.0]], "u must be a vector"),
])  # fmt: skip
def test_what_are_no_probabilities_or_no_randomization_is_named(name, probs, u, words):
    rule = NONCONFORMITY[name]()
    for call in (
        lambda: rule.of_all(probs, u),
        lambda: rule.of_labels(probs, [0, 1], u),
        lambda: rule.within(probs, u, [1.0, 1.0]),
    ):
        with pytest.raises(InputError, match=words):
            call()


@pytest.mark.parametrize("name", NONCONFORMITY)
def test_labels_and_thresholds_are_checked_and_lists_will_do(name):
    rule, u = NONCONFORMITY[name](), np.ones(2)
    for labels in ([0], [0, 3], [0.5, 1.0], ["a", "b"], [[0, 1]]):
        with pytest.raises(InputError, match="labels"):
            rule.of_labels(SURE, labels, u)
    for threshold in ([0.5], [np.nan, 0.5], 0.5, ["a", "b"]):
        with pytest.raises(InputError, match="threshold"):
            rule.within(SURE, u, threshold)
    scores = rule.of_all(SURE.tolist(), [1, 1])
    assert np.array_equal(scores, rule.of_all(SURE, u))
    assert rule.of_labels(SURE.tolist(), [0, 1], u).tolist() == scores[[0, 1], [0, 1]].tolist()
    assert rule.within(SURE, u, [np.inf, -np.inf]).tolist() == [[True] * 3, [False] * 3]
