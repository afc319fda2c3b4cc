from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs, plots
from caveat.metrics import ece, proportion_interval


@pytest.fixture(scope="module")
def said():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=500)
    return probs, np.where(rng.random(500) < 0.7, probs.argmax(axis=1), 0)


def test_points_and_intervals_by_hand(legend):
    # confidences 0.9 and 0.8 share the upper of two bins with 0.6: 2 of 3 are right
    ax = plots.reliability([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], [0, 1, 1], bins=2)
    (points,) = ax.containers
    np.testing.assert_allclose(points.lines[0].get_xydata(), [[2.3 / 3, 2 / 3]])
    (whisker,) = points.lines[2][0].get_segments()
    exact = proportion_interval(2, 3)
    np.testing.assert_allclose(whisker[:, 1], [exact.lower, exact.upper])
    assert [text.get_text() for text in ax.texts] == ["3", "n ="]
    assert legend(ax) == ["ECE 0.100 (2 bins, n = 3)"]


def test_outputs_and_their_probabilities_give_the_same_picture(said, legend):
    probs, labels = said
    drawn = [plots.reliability(Outputs(probs=probs, labels=labels)), plots.reliability(probs, labels)]
    a, b = (ax.containers[0].lines[0].get_xydata() for ax in drawn)
    np.testing.assert_array_equal(a, b)
    assert legend(drawn[0])[0] == f"ECE {ece(probs=probs, labels=labels):.3f} (15 bins, n = 500)"


def test_counts_add_up_and_do_not_overlap(said):
    ax = plots.reliability(*said)
    ax.figure.draw_without_rendering()
    counts = [text for text in ax.texts if text.get_text() != "n ="]
    assert sum(int(text.get_text()) for text in counts) == 500
    boxes = [*(text.get_window_extent() for text in counts), ax.get_legend().get_window_extent()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_many_bins_have_no_counts(said):
    assert not plots.reliability(*said, bins=50).texts


def test_labels_are_needed_once(said):
    probs, labels = said
    with pytest.raises(InputError, match="reliability needs labels"):
        plots.reliability(Outputs(probs=probs))
    with pytest.raises(InputError, match="labels must be left out"):
        plots.reliability(Outputs(probs=probs, labels=labels), labels)


def test_a_confidence_alone_draws_the_same_diagram(legend):
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), size=200), rng.integers(3, size=200)
    whole = Outputs(probs=probs, labels=labels)
    alone = Outputs(predictions=whole.predictions, confidence=probs.max(axis=1), labels=labels)
    assert legend(plots.reliability(alone)) == legend(plots.reliability(whole))
    with pytest.raises(InputError, match="reliability needs outputs.confidence"):
        plots.reliability(Outputs(predictions=whole.predictions, labels=labels))
