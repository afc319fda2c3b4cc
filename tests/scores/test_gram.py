"""Gram: channel correlations outside the range of the predicted class."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import Gram
from caveat.scores._statistics import gather
from caveat.scores.gram import ClassRanges, correlations

SHAPES = [
    {"n": 120, "width": 8, "classes": 4},
    {"n": 20, "width": 60, "classes": 4},
    {"n": 60, "width": 8, "classes": 2},
    {"n": 150, "width": 12, "classes": 100},
]
ORDERS = 3


def gram_rows(layer, order):
    """Row sums of (F^p F^p^T), then the p-th root with its sign, for one sample."""
    power = layer.reshape(layer.shape[0], -1) ** order
    sums = (power @ power.T).sum(axis=1)
    return np.sign(sums) * np.abs(sums) ** (1 / order)


def deviation(values, rows, floor):
    """Relative excess over the smallest and largest of the rows, summed."""
    low, high = np.min(rows, axis=0), np.max(rows, axis=0)
    below = np.maximum(low - values, 0) / np.maximum(np.abs(low), floor)
    above = np.maximum(values - high, 0) / np.maximum(np.abs(high), floor)
    return (below + above).sum()


def reference(train, test):
    """Class deviations (n, C) summed over layers, each layer divided by its leave-one-out mean; NaN: class not seen."""
    total = np.zeros((test.n, train.n_classes))
    for name in train.layers:
        known = np.array([np.concatenate([gram_rows(f, p) for p in range(1, ORDERS + 1)]) for f in train.layers[name]])
        new = np.array([np.concatenate([gram_rows(f, p) for p in range(1, ORDERS + 1)]) for f in test.layers[name]])
        groups = {c: known[train.predictions == c] for c in range(train.n_classes)}
        floor = 1e-6 * np.abs(known).max()
        left_out = [
            deviation(rows[i], np.delete(rows, i, axis=0), floor)
            for rows in groups.values() if len(rows) > 1 for i in range(len(rows))
        ]  # fmt: skip
        expected = sum(left_out) / train.n
        for c, rows in groups.items():
            total[:, c] += [deviation(v, rows, floor) / expected if len(rows) else np.nan for v in new]
    return total


def test_correlations_by_hand():
    # F = [[1, 2], [3, 0]]. Order 1: F F^T = [[5, 3], [3, 9]], row sums 8 and 12.
    # Order 2: squares [[1, 4], [9, 0]]: [[17, 9], [9, 81]], roots of 26 and 90.
    found = correlations(np.array([[[1.0, 2.0], [3.0, 0.0]]]), 2)
    np.testing.assert_allclose(found, [[8, 12, np.sqrt(26), np.sqrt(90)]], rtol=1e-14)


def test_by_hand():
    # One channel, one position, order 1: the correlation is F^2. Class 0 saw 1, 4, 9, so [1, 9].
    # Leave one out: 1 against [4, 9] is 3/4 below, 9 against [1, 4] is 5/4 above, 4 is inside: mean 2/3.
    # F = 6: 36 is 27/9 = 3 above, 3 / (2/3) = 4.5. F = 0.5: 0.25 is 0.75/1 below: 1.125. F = 2: inside.
    train = Outputs(layers={"only": [[1.0], [2.0], [3.0]]}, logits=[[1.0, 0.0]] * 3)
    said = Outputs(layers={"only": [[6.0], [0.5], [2.0]]}, logits=[[1.0, 0.0]] * 3)
    np.testing.assert_allclose(Gram(orders=1).fit(train).score(said), [4.5, 1.125, 0], rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, shift=0.3, **(shape | {"n": 20}))
    expected = reference(train, test)
    worst = np.nanmax(expected, axis=1, keepdims=True)
    expected = np.where(np.isnan(expected), worst, expected)
    score = Gram(orders=ORDERS).fit(train)
    np.testing.assert_allclose(score.class_scores(test), expected, rtol=1e-9)
    np.testing.assert_allclose(score.score(test), expected[np.arange(20), test.predictions], rtol=1e-9)


def test_training_rows_do_not_deviate(train):
    np.testing.assert_array_equal(Gram().fit(train).score(train), 0)


def test_high_orders_neither_overflow_nor_depend_on_the_unit(make_outputs):
    train, test = make_outputs(seed=1), make_outputs(seed=2)
    plain = Gram().fit(train).score(test)
    for scale in (1e-15, 1e30):  # 1e30 to the power 20 would be 1e600

        def scaled(outputs, scale=scale):
            return Outputs(layers={k: v * scale for k, v in outputs.layers.items()}, logits=outputs.logits)

        np.testing.assert_allclose(Gram().fit(scaled(train)).score(scaled(test)), plain, rtol=1e-6)


def test_two_halves_add_up_to_the_whole(make_outputs):
    train = make_outputs(n=150, classes=30)
    recipe = ClassRanges(2)
    whole = gather(train, [recipe])[recipe]
    both = gather(train[:40], [recipe])[recipe] + gather(train[40:], [recipe])[recipe]
    for field in ("counts", "low", "high", "channels"):
        np.testing.assert_array_equal(getattr(both, field), getattr(whole, field))


def test_a_dead_layer_is_no_trouble():
    train = Outputs(layers={"dead": np.zeros((6, 3)), "live": np.eye(6, 2) + 1}, logits=np.eye(6, 2))
    said = Outputs(layers={"dead": np.ones((1, 3)), "live": np.ones((1, 2))}, logits=[[1.0, 0.0]])
    found = Gram(orders=2).fit(train).score(said)
    assert np.isfinite(found).all()
    assert found[0] > 0


def test_messages(make_outputs):
    score = Gram(orders=1).fit(make_outputs(seed=1))
    with pytest.raises(InputError, match=r"layers\['pool'\] must have 6 channels as in training, got 15"):
        score.score(make_outputs(seed=2, width=30))
    said = make_outputs(seed=2)
    with pytest.raises(InputError, match=r"outputs must have layers\['pool'\] as in training, got conv"):
        score.score(Outputs(layers={"conv": said.layers["conv"]}, logits=said.logits))
    with pytest.raises(InputError, match="outputs must have 4 classes as in training, got 5"):
        score.score(make_outputs(seed=2, classes=5))


@pytest.mark.parametrize("shape", SHAPES)
def test_by_confidence_divides_by_the_largest_softmax(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, shift=0.3, **(shape | {"n": 20}))
    plain, divided = (Gram(orders=ORDERS, by_confidence=flag).fit(train) for flag in (False, True))
    confidence = np.array([np.max(np.exp(z) / np.exp(z).sum()) for z in test.logits - test.logits.max(axis=1)[:, None]])
    np.testing.assert_allclose(divided.score(test), plain.score(test) / confidence, rtol=1e-12)
    np.testing.assert_allclose(divided.class_scores(test), plain.class_scores(test) / confidence[:, None], rtol=1e-12)


def test_by_confidence_needs_probabilities():
    train = Outputs(layers={"only": [[1.0], [2.0], [3.0]]}, logits=[[1.0, 0.0]] * 3)
    alone = Outputs(layers={"only": [[6.0]]}, predictions=[0], confidence=[0.9])
    assert Gram(orders=1).fit(train).score(alone) > 0
    with pytest.raises(InputError, match="prob"):
        Gram(orders=1, by_confidence=True).fit(train).score(alone)
