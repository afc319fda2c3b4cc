"""Weights of a covariate shift: against a known ratio, and coverage on real digits whose shift is known."""

import math

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

from caveat import Outputs
from caveat.conformal import SplitSets, effective_n, shift_weights
from caveat.errors import InputError
from caveat_lab.data import digits

METHODS = ("classifier", "density_ratio")


def total_variation(estimated, true):
    return np.abs(estimated / estimated.mean() - true / true.mean()).mean() / 2


@pytest.mark.parametrize("method", METHODS)
def test_a_known_ratio_is_found(method):
    # Normal(0, 1) against Normal(1/2, 1) in the first of two features: w = exp(x/2 - 1/8)
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(1500, 2)), rng.normal([0.5, 0], size=(1500, 2))
    weights = shift_weights(source=source, target=target, method=method, rng=1)
    new = rng.normal(size=(3000, 2))
    for rows, found in ((source, weights.source), (target, weights.target), (new, weights.at(new))):
        assert total_variation(found, np.exp(rows[:, 0] / 2 - 1 / 8)) < 0.08
    assert weights.source.mean() == pytest.approx(1, abs=0.1)
    # the true effective share is 1 / E[w^2] = exp(-1/4)
    assert weights.effective_n == pytest.approx(1500 * math.exp(-0.25), rel=0.1)
    assert method in str(weights)


@pytest.mark.parametrize("method", METHODS)
def test_without_a_shift_weights_are_near_one(method):
    rng = np.random.default_rng(1)
    weights = shift_weights(source=rng.normal(size=(800, 3)), target=rng.normal(size=(400, 3)), method=method)
    assert total_variation(weights.source, np.ones(800)) < 0.08
    assert weights.promise(0.1).holds


@pytest.mark.parametrize("method", METHODS)
def test_units_of_features_and_constant_ones_do_not_matter(method):
    rng = np.random.default_rng(2)
    source, target = rng.normal(size=(300, 2)), rng.normal(0.5, size=(200, 2))
    plain = shift_weights(source=source, target=target, method=method, rng=3)
    wide = [np.column_stack([1000 * rows[:, 0] - 5, rows[:, 1], np.ones(len(rows))]) for rows in (source, target)]
    found = shift_weights(source=wide[0], target=wide[1], method=method, rng=3)
    np.testing.assert_allclose(found.source, plain.source, rtol=1e-4)
    again = shift_weights(source=source, target=target, method=method, rng=3)
    np.testing.assert_array_equal(again.source, plain.source)


def test_the_weight_of_a_row_comes_from_a_model_that_did_not_see_it():
    # A forest that memorizes its rows is overconfident on them and guesses on others.
    rng = np.random.default_rng(3)
    source, target = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    forest = RandomForestClassifier(30, random_state=0)
    weights = shift_weights(source=source, target=target, classifier=forest)
    assert 0.7 < np.median(weights.source) / np.median(weights.target) < 1.4
    seen = forest.fit(np.vstack([source, target]), np.repeat([0, 1], 300)).predict_proba(source)[:, 1]
    assert np.median(seen / (1 - seen)) < 0.5


def test_data_with_nothing_in_common_promise_nothing():
    rng = np.random.default_rng(4)
    apart = shift_weights(source=rng.normal(size=(200, 2)), target=rng.normal(40, size=(200, 2)))
    assert apart.target.min() > 1000 * apart.source.max()
    far = np.vstack([rng.normal(size=(199, 2)), [[40.0, 40.0]]])
    alone = shift_weights(source=far, target=rng.normal(40, size=(200, 2)))
    assert alone.effective_n < 10
    assert not alone.promise(0.1).holds
    assert "Nothing can be promised" in str(alone.promise(0.1))


def test_other_rows_weigh_no_more_than_those_that_were_seen():
    rng = np.random.default_rng(6)
    weights = shift_weights(source=rng.normal(size=(200, 1)), target=rng.normal(1, size=(200, 1)))
    most = max(weights.source.max(), weights.target.max())
    assert weights.at([[50.0], [1.0]])[0] == most > weights.at([[1.0]])[0]


@pytest.fixture(scope="module")
def shifted_digits():
    """Digits of a weak model; a row goes to the target with odds exp(d), d a known direction towards hard rows.

    Every row is real and used once. The likelihood ratio of target to source is proportional to exp(d).
    """
    images = digits()
    pixels, labels = images.pixels.reshape(len(images.labels), -1), images.labels
    order = np.random.default_rng(0).permutation(labels.size)
    train, rest = order[:300], order[300:]
    model = LogisticRegression(C=0.1, max_iter=300).fit(pixels[train], labels[train])
    logits, true = model.decision_function(pixels[rest]), labels[rest]
    outputs = Outputs(logits=logits, labels=true)
    hard = LinearRegression().fit(logits, 1 - outputs.probs[np.arange(true.size), true]).predict(logits)
    return outputs, logits, np.exp(1.5 * (hard - hard.mean()) / hard.std())


def coverages(outputs, features, ratio, rng, trials, methods):
    """Coverage of one threshold, with the true weights and with estimated ones; and mean effective n."""
    hits, sizes = {name: [] for name in ("none", "true", *methods)}, []
    for _ in range(trials):
        shifted = rng.random(outputs.n) < ratio / (1 + ratio)
        source, target = (rng.permutation(np.flatnonzero(part)) for part in (~shifted, shifted))
        estimate, rows, test = (source[:300], target[:300]), source[300:], target[300:]
        calibration, asked = outputs[rows], outputs[test]
        plain = SplitSets(alpha=0.1).calibrate(calibration).predict(asked)
        hits["none"].append(plain.coverage(asked.labels))
        for name in ("true", *methods):
            if name == "true":
                weights = ratio[rows], ratio[test]
            else:
                known = shift_weights(
                    source=features[estimate[0]], target=features[estimate[1]], method=name, folds=2, rng=rng
                )
                weights = known.at(features[rows]), known.at(features[test])
            sets = SplitSets(alpha=0.1).calibrate(calibration, weights=weights[0]).predict(asked, weights=weights[1])
            hits[name].append(sets.coverage(asked.labels))
        sizes.append(effective_n(ratio[rows]))
    return {name: np.array(found) for name, found in hits.items()}, float(np.mean(sizes))


@pytest.mark.parametrize(("trials", "methods"), [
    (12, METHODS), pytest.param(200, METHODS, marks=pytest.mark.slow),
])  # fmt: skip
def test_weights_restore_coverage_of_real_digits_under_a_known_shift(shifted_digits, trials, methods):
    hits, effective = coverages(*shifted_digits, np.random.default_rng(5), trials, methods)
    spread = {name: found.std() / math.sqrt(trials) for name, found in hits.items()}
    assert hits["none"].mean() < 0.9 - 4 * spread["none"]
    # true weights: at least .9, and above it by no more than the weight of one test point in the effective sample
    assert hits["true"].mean() > 0.9 - 4 * spread["true"]
    assert hits["true"].mean() < 0.9 + 3 / effective + 4 * spread["true"]
    for name in methods:  # what estimation may cost here; without weights it is eight per cent
        assert abs(hits[name].mean() - 0.9) < 0.02 + 4 * spread[name]
        assert hits[name].mean() > hits["none"].mean() + 0.04


def test_clear_errors():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(InputError, match="unknown method"):
        shift_weights(source=rows, target=rows, method="kernel")
    with pytest.raises(InputError, match="same width, got 2 and 1"):
        shift_weights(source=rows, target=rows[:, :1])
    with pytest.raises(InputError, match=r"two rows per fold \(10\), got 30 and 4"):
        shift_weights(source=rows, target=rows[:4])
    with pytest.raises(InputError, match="classifier must have fit and predict_proba"):
        shift_weights(source=rows, target=rows, classifier=LinearRegression())
    with pytest.raises(InputError, match="method='classifier' only"):
        shift_weights(source=rows, target=rows, classifier=LogisticRegression(), method="density_ratio")
    with pytest.raises(InputError, match="features must have 2 columns"):
        shift_weights(source=rows, target=rows).at(rows[:, :1])
