from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat.scores import Gram, MDSEnsemble, catalogue, score_all

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import extract, stream  # noqa: E402

LAYERS = ["0", "1", "3"]
ROWS_AT_ONCE = {"knn", "mahalanobis", "nnguide", "tempscale"}  # keep rows, or read them class by class


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 3),
    )  # fmt: skip
    nn.init.constant_(model[-1].bias, 2.0)  # ViM wants logits that are mostly positive
    return model


def batches(seed, sizes=(40, 40, 40, 17)):
    numbers = torch.Generator().manual_seed(seed)
    found = []
    for n in sizes:
        labels = torch.randint(0, 3, (n,), generator=numbers)
        images = torch.rand(n, 1, 8, 8, generator=numbers) + labels.reshape(-1, 1, 1, 1)
        found.append((images, labels))
    return found


def learned(score):
    return {name: value for name, value in vars(score).items() if name.endswith("_") and isinstance(value, np.ndarray)}


@pytest.mark.parametrize("made", [Gram, MDSEnsemble])
def test_collected_while_passing_equals_stored_and_fitted(model, made):
    # In float64, so that the order of the sums (by batch here, by block there) does not show.
    model, train, test = model.double(), *([(x.double(), y) for x, y in batches(seed)] for seed in (1, 2))
    stored = made().fit(extract(model, train, layers=LAYERS))
    passing = made().fit(stream(model, train, layers=LAYERS))
    for name, value in learned(stored).items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(learned(passing)[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
        else:
            np.testing.assert_array_equal(learned(passing)[name], value)
    expected = stored.score(extract(model, test, layers=LAYERS))
    np.testing.assert_allclose(passing.score(stream(model, test, layers=LAYERS)), expected, rtol=1e-9, atol=1e-9)
    assert np.unique(expected).size > 10


@pytest.mark.parametrize("name", [entry.name for entry in catalogue() if entry.name != "confidence"])
def test_every_score_learns_from_a_stream_or_says_that_it_cannot(model, name):
    entry = next(entry for entry in catalogue() if entry.name == name)
    ask = {"layers": LAYERS, "mc": 3}
    if name in ROWS_AT_ONCE:
        with pytest.raises(InputError, match=r"nn.extract"):
            entry.score().fit(stream(model, batches(1), **ask))
        return
    expected = entry.score().fit(extract(model, batches(1), **ask)).score(extract(model, batches(2), **ask))
    found = entry.score().fit(stream(model, batches(1), **ask)).score(stream(model, batches(2), **ask))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.std(expected))


def test_several_scores_share_one_walk(model):
    runs = []
    handle = model.register_forward_hook(lambda *_: runs.append(1))
    said = stream(model, batches(1), layers=LAYERS)
    before = len(runs)
    found = score_all(said, said, ["gram", "mds_ensemble"])
    handle.remove()
    # Four batches: once for both statistics, once for the spread of MDSEnsemble, once for each score.
    assert len(runs) - before == 16
    np.testing.assert_allclose(found["gram"], Gram().fit(said).score(said))


def test_no_row_outlives_its_batch(model):
    walk = stream(model, batches(1, (10, 10)), layers=LAYERS).blocks()
    assert [block.n for block in walk] == [10, 10]


def test_what_a_stream_cannot_do_is_explained(model):
    with pytest.raises(InputError, match="loader must give batches, got a Tensor"):
        stream(model, torch.zeros(2, 1, 8, 8))
    with pytest.raises(InputError, match="more than once: pass a list or a DataLoader"):
        stream(model, iter(batches(1)))
    with pytest.raises(InputError, match="at least one batch"):
        stream(model, [])
    said = stream(model, batches(1))
    with pytest.raises(InputError, match="a stream has no n"):
        said.n  # noqa: B018
    with pytest.raises(InputError, match="all rows of features are needed at once"):
        np.asarray(said.features)
    with pytest.raises(InputError, match="all rows of labels are needed at once"):
        said.labels[:3]


def test_the_model_is_itself_between_batches(model):
    model.train()
    for _ in stream(model, batches(1)).blocks():
        assert model.training
        assert model[6].training
        assert not any(module._forward_hooks for module in model.modules())
