"""What each score of the study learns from."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, Outputs
from caveat.scores import MSP, TempScale


def drawn(rng, n, labels=True):
    features = rng.normal(size=(n, 4))
    logits = features @ np.eye(4)[:, :3]
    truth = {"labels": rng.integers(3, size=n)} if labels else {}
    return Outputs(features=features, logits=logits, head=Head(np.eye(4)[:3]), **truth)


@pytest.mark.parametrize("name", ["tempscale", "mahalanobis"])
def test_a_temperature_is_fitted_on_held_out_rows_only(study, monkeypatch, name):
    """On test images of the other folds: never on training outputs, never on the fold that is measured."""
    module = study("scores_on_cnn")
    rng = np.random.default_rng(0)
    train, test = drawn(rng, 300), drawn(rng, 200)
    outliers = {"noise": drawn(rng, 100, labels=False)}
    kind = type(module.variants(train, test)[name])
    learned, fit = [], kind.fit

    def seen(self, outputs, *args, **settings):
        learned.append({tuple(row) for row in outputs.logits})
        return fit(self, outputs, *args, **settings)

    monkeypatch.setattr(kind, "fit", seen)
    rows = module.measure(name, train, test, outliers)
    assert len(rows) == module.FOLDS * 2 * 2
    tested, trained = {tuple(row) for row in test.logits}, {tuple(row) for row in train.logits}
    if name != "tempscale":
        assert learned == [trained]
        return
    assert len(learned) == module.FOLDS
    assert all(part < tested for part in learned)
    left_out = [tested - part for part in learned]
    assert set.union(*left_out) == tested  # each fold once: five disjoint parts of 40
    assert [len(part) for part in left_out] == [40] * 5


def test_only_a_temperature_is_held_out():
    assert TempScale().held_out
    assert not MSP().held_out
