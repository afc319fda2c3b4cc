from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs, scores
from caveat.scores.together import fit_all


def test_all_together_equals_one_by_one(train, inlier):
    together = scores.score_all(train, inlier)
    assert set(together) == {entry.name for entry in scores.catalogue()}
    for name, values in together.items():
        np.testing.assert_array_equal(values, scores.make(name).fit(train).score(inlier))


def test_statistics_are_gathered_in_one_walk(train, monkeypatch):
    walks = []
    monkeypatch.setattr("caveat.scores.together.gather", lambda *a: walks.append(a) or gather(*a))
    from caveat.scores._statistics import gather

    fit_all([scores.Mahalanobis(), scores.Mahalanobis(normalize=True), scores.KNN(), scores.Energy()], train)
    assert [bool(wanted) for _, wanted in walks] == [True, False]  # nothing depends on the first walk


def test_every_score_together_walks_over_the_rows_twice(train, inlier, monkeypatch):
    """Once, and once for what depends on that; NNGuide looks at the rows it draws."""
    whole, walked = Outputs.blocks, []

    def blocks(self, *args, **kwargs):
        if self is train:
            walked.append(args)
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(Outputs, "blocks", blocks)
    # With held-out data: a temperature is searched for, which takes as many walks as steps.
    scores.score_all(train, inlier, names=[e.name for e in scores.catalogue() if e.fits_on], validation=inlier)
    assert len(walked) == 2


def test_only_named_scores(train, inlier):
    assert list(scores.score_all(train, inlier, names=["knn"])) == ["knn"]


def test_one_name_will_do(inlier):
    assert list(scores.score_all(None, inlier, "msp")) == ["msp"]


def test_without_training_data_the_learners_are_left_out(inlier):
    found = scores.score_all(None, inlier)
    assert "msp" in found
    assert not {"mahalanobis", "knn"} & set(found)


def test_a_named_score_that_cannot_be_fitted_is_an_error(inlier):
    with pytest.raises(InputError, match=r"Mahalanobis learns from train\.labels"):
        scores.score_all(Outputs(features=inlier.features), inlier, names=["mahalanobis"])


def test_a_temperature_is_learned_from_held_out_data_where_there_is_some(train, make_outputs, inlier):
    validation = make_outputs(seed=5, shift=1.0)
    found = scores.score_all(train, inlier, names=["tempscale", "msp"], validation=validation)
    np.testing.assert_array_equal(found["tempscale"], scores.TempScale().fit(validation).score(inlier))
    unlabeled = Outputs(logits=validation.logits)
    found = scores.score_all(train, inlier, names=["tempscale"], validation=unlabeled)
    np.testing.assert_array_equal(found["tempscale"], scores.TempScale().fit(train).score(inlier))


@pytest.mark.parametrize("change", [{"validation": 10}, {"train": np.zeros((3, 2))}, {"outputs": None}])
def test_what_are_no_outputs_is_named(change):
    outputs = Outputs(logits=np.eye(4)[[0, 1, 2, 3] * 5], labels=[0, 1, 2, 3] * 5)
    parts = {"train": outputs, "outputs": outputs, "validation": outputs} | change
    (name,) = change
    with pytest.raises(InputError, match=f"{name} must be caveat.Outputs"):
        scores.score_all(parts["train"], parts["outputs"], validation=parts["validation"])
