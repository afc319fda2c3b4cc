from __future__ import annotations

import warnings

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs
from caveat.metrics import accuracy


def guesses(n, classes):
    rng = np.random.default_rng(0)
    return Outputs(logits=rng.normal(size=(n, classes)), labels=rng.integers(classes, size=n))


def test_labels_that_start_at_one_are_suspected():
    # the top class is absent, so that every label is a valid class number
    rng = np.random.default_rng(0)
    classes = rng.integers(9, size=500)
    logits = rng.normal(size=(500, 10)) + 9 * np.eye(10)[classes]
    assert accuracy(Outputs(logits=logits, labels=classes)).value > 0.9
    with pytest.warns(CaveatWarning, match=r"accuracy on test is .* Do labels start at 1"):
        found = accuracy(Outputs(logits=logits, labels=classes + 1), name="test")
    assert found.value < 0.1


def test_a_model_that_guesses_is_not_suspected():
    for classes in (2, 10, 100):
        accuracy(guesses(300, classes))
    wrong = Outputs(logits=[[1.0, 0.0]] * 3, labels=[1, 1, 1])  # three errors of three are no evidence
    assert accuracy(wrong).value == 0


def test_a_guess_is_suspected_in_at_most_one_of_a_thousand_sets():
    rng, trials = np.random.default_rng(1), 2000
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", CaveatWarning)
        for _ in range(trials):
            accuracy(Outputs(logits=rng.normal(size=(60, 3)), labels=rng.integers(3, size=60), check=False))
    assert len(seen) <= trials / 1000 + 4 * np.sqrt(trials / 1000)


def test_without_labels_there_is_none():
    with pytest.raises(InputError, match="accuracy needs outputs.labels"):
        accuracy(Outputs(logits=[[1.0, 0.0]]))
