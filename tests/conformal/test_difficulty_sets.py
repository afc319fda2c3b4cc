"""Sets per difficulty bin: coverage within bins, and the choice of binning data made explicit."""

import math

import numpy as np
import pytest

from caveat import Outputs
from caveat.conformal import DifficultySets, SplitSets
from caveat.errors import CaveatWarning, InputError, NotFittedError


def draw(n, rng, classes=5):
    """Rows from hopeless to clear; the ease is the sharpness itself."""
    sharp = rng.uniform(0.2, 8, n)
    logits = sharp[:, None] * rng.normal(size=(n, classes))
    labels = np.argmax(logits + rng.gumbel(size=(n, classes)), axis=1)
    return Outputs(logits=logits, labels=labels), sharp


@pytest.mark.parametrize("score", ["lac", "saps"])
def test_every_bin_is_covered_where_other_data_cut_the_bins(score):
    rng, trials, alpha = np.random.default_rng(0), 60, 0.2
    hits = {b: [] for b in range(4)}
    for _ in range(trials):
        (cal, easy), (test, test_easy), (_, other) = draw(400, rng), draw(400, rng), draw(200, rng)
        sets = DifficultySets(score, alpha=alpha, bins=4).calibrate(cal, rng, binning=other, ease=easy)
        found = sets.predict(test, rng, ease=test_easy)
        covered, number = found.covers(test.labels), sets.bins_.assign(test_easy)
        for b in range(4):
            hits[b].append(covered[number == b].mean())
        assert found.caveat == ""
    for b in range(4):
        # k / (n + 1) lies between .8 and .8 + 1 / (n + 1), n about 100
        assert abs(np.mean(hits[b]) - 0.8) < 0.01 + 4 * np.std(hits[b]) / math.sqrt(trials)


def test_sets_grow_with_difficulty_more_than_with_one_threshold():
    rng = np.random.default_rng(3)
    (cal, easy), (test, test_easy) = draw(4000, rng), draw(4000, rng)
    by_bin = DifficultySets("lac", alpha=0.1, bins=10).calibrate(cal, binning="calibration", ease=easy)
    found = by_bin.predict(test, ease=test_easy)
    plain = SplitSets("lac", alpha=0.1).calibrate(cal).predict(test)
    hard = test_easy < 1
    assert found.sizes[hard].mean() > plain.sizes[hard].mean()
    assert abs(found.covers(test.labels)[hard].mean() - 0.9) < abs(plain.covers(test.labels)[hard].mean() - 0.9)
    assert found.caveat == ""
    np.testing.assert_array_equal(found.member, by_bin.p_values(test, ease=test_easy) > 0.1)


def test_ease_is_read_from_outputs():
    rng = np.random.default_rng(4)
    probs, copies = rng.dirichlet(np.ones(3), size=300), rng.dirichlet(np.ones(3), size=(4, 300))
    outputs = Outputs(probs=probs, ease_probs=copies, labels=rng.integers(0, 3, 300))
    sets = DifficultySets(bins=3).calibrate(outputs[:150], binning=outputs[150:200])
    from caveat.conformal.difficulty import ease_of

    same = DifficultySets(bins=3).calibrate(
        outputs[:150], binning=ease_of(outputs[150:200]), ease=ease_of(outputs[:150])
    )
    np.testing.assert_array_equal(sets.predict(outputs[200:]).member, same.predict(outputs[200:]).member)


def test_a_bin_without_calibration_samples_leaves_every_label_possible():
    rng = np.random.default_rng(5)
    (cal, easy), (test, test_easy) = draw(300, rng), draw(100, rng)
    seen = easy > 2
    with pytest.warns(CaveatWarning, match="3 of 4 difficulty bins hold no calibration sample"):
        sets = DifficultySets(bins=4).calibrate(cal[seen], binning=np.array([0.5, 1.0, 1.5, 2.0]), ease=easy[seen])
    found = sets.predict(test, ease=test_easy)
    assert "hold no calibration sample" in found.caveat
    assert (found.sizes[test_easy < 1] == 5).all()


def test_clear_errors():
    rng = np.random.default_rng(0)
    cal, easy = draw(100, rng)
    with pytest.raises(TypeError, match="binning"):
        DifficultySets().calibrate(cal)
    with pytest.raises(InputError, match="unknown binning 'same'"):
        DifficultySets().calibrate(cal, binning="same", ease=easy)
    with pytest.raises(InputError, match="outputs and ease must have the same length, got 100 and 3"):
        DifficultySets().calibrate(cal, binning="calibration", ease=[1, 2, 3])
    with pytest.raises(InputError, match="ease of the calibration samples themselves"):
        DifficultySets().calibrate(cal, binning=easy[::-1], ease=easy)
    with pytest.raises(NotFittedError, match="Call calibrate"):
        DifficultySets().predict(cal, ease=easy)
    with pytest.raises(InputError, match="unknown nonconformity score"):
        DifficultySets("nope")


def test_p_values_before_calibration_say_what_to_call():
    with pytest.raises(NotFittedError, match="Call calibrate"):
        DifficultySets().p_values(Outputs(logits=np.zeros((2, 3))))
