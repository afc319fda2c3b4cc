"""Mahalanobis at several layers."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.metrics import auroc
from caveat.scores import Mahalanobis, MDSEnsemble
from caveat.scores._statistics import gather
from caveat.scores.mds_ensemble import LayerMoments

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 40, "width": 100, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def channels(outputs, name):
    """Each channel averaged over its positions, by a loop."""
    return np.array([[np.mean(channel) for channel in sample] for sample in outputs.layers[name]])


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    columns = []
    for name in train.layers:
        single = Mahalanobis(class_rank=0).fit(Outputs(features=channels(train, name), labels=train.labels))
        known = single.score(Outputs(features=channels(train, name)))
        columns.append((single.score(Outputs(features=channels(test, name))) - known.mean()) / known.std())
    found = MDSEnsemble().fit(train).score(test)
    np.testing.assert_allclose(found, np.mean(columns, axis=0), rtol=1e-7, atol=1e-9)


def test_by_hand():
    # One channel, classes at 0 and 10, variance 1 each: training distances are all 1 but spread is needed, so one class
    # has rows 10 - 2, 10, 10 + 2. Scatter 1 + 1 + 4 + 4 = 10 over 5 rows: variance 2. Distances 1/2, 1/2, 2, 0, 2:
    # mean 1, variance (1/4 + 1/4 + 1 + 1 + 1) / 5 = 0.7. x = 4: 16 / 2 = 8, standardized 7 / sqrt 0.7.
    train = Outputs(layers={"one": [[-1.0], [1.0], [8.0], [10.0], [12.0]]}, labels=[0, 0, 1, 1, 1])
    found = MDSEnsemble(ridge=1e-12).fit(train).score(Outputs(layers={"one": [[4.0]]}))
    np.testing.assert_allclose(found, [7 / np.sqrt(0.7)], rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_layer_with_as_many_channels_as_rows_has_no_spread(kind):
    # Ten rows a class in general position: each is 40 (1 - 1 / 10) = 36 from its class mean, but for the ridge.
    rng = np.random.default_rng(0)
    layers = {"narrow": rng.normal(size=(40, 5)).astype(kind), "wide": rng.normal(size=(40, 100)).astype(kind)}
    score = MDSEnsemble().fit(Outputs(layers=layers, labels=np.arange(40) % 4))
    assert score.shift_[1] == pytest.approx(36, rel=1e-5)
    assert score.spread_[0] > 1
    assert score.spread_[1] == 1


def test_weights_learned_from_outliers_lean_on_the_layer_that_tells(make_outputs):
    rng = np.random.default_rng(0)

    def said(n, shift):
        tells = rng.normal(size=(n, 3)) + shift
        return Outputs(layers={"noise": rng.normal(size=(n, 8)), "tells": tells}, labels=np.arange(n) % 2)

    score = MDSEnsemble().fit(said(400, 0))
    inlier, outlier = said(300, 0), said(300, 1.5)
    plain = auroc(inlier=score.score(inlier), outlier=score.score(outlier))
    assert score.fit_weights(inlier=said(300, 0), outlier=said(100, 1.5)) is score
    assert score.weights_[1] > 3 * abs(score.weights_[0])
    assert auroc(inlier=score.score(inlier), outlier=score.score(outlier)) > plain


def test_two_halves_add_up_to_the_whole(train):
    recipe = LayerMoments()
    whole = gather(train, [recipe])[recipe].of
    both = (gather(train[:100], [recipe])[recipe] + gather(train[100:], [recipe])[recipe]).of
    assert list(both) == list(whole) == ["conv", "pool"]
    for name, moments in whole.items():
        np.testing.assert_allclose(both[name].within_scatter, moments.within_scatter, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(both[name].means, moments.means, rtol=1e-12)


def test_messages(train, inlier):
    with pytest.raises(InputError, match=r"layers\['flat'\] must vary within at least one class"):
        MDSEnsemble().fit(Outputs(layers={"flat": np.ones((4, 2))}, labels=[0, 0, 1, 1]))
    with pytest.raises(InputError, match=r"MDSEnsemble needs outputs\.layers, which is None"):
        MDSEnsemble().fit(train).score(Outputs(features=inlier.features))
    with pytest.raises(InputError, match="and MDSEnsemble needs every class"):
        MDSEnsemble().fit(Outputs(layers=dict(train.layers), labels=train.labels + 1))
