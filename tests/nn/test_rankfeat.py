from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import RankFeat  # noqa: E402
from caveat.nn.rankfeat import last_map, without_rank_one  # noqa: E402


@pytest.fixture
def cnn():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (1, 4), (4, 1), (6, 6)])
def test_the_rest_is_that_of_the_svd(shape):
    rng = np.random.default_rng(0)
    # Singular values 4, 1, 1/2, ...: the power iteration gains a factor of 16 a step.
    u, _ = np.linalg.qr(rng.normal(size=(20, shape[0], min(shape))))
    v, _ = np.linalg.qr(rng.normal(size=(20, shape[1], min(shape))))
    values = np.array([4.0, 1, 0.5, 0.25, 0.125, 0.1])[: min(shape)]
    maps = torch.from_numpy(u * values @ v.transpose(0, 2, 1))
    expected = torch.from_numpy(u[:, :, 1:] * values[1:] @ v[:, :, 1:].transpose(0, 2, 1))
    torch.testing.assert_close(without_rank_one(maps, None), expected, atol=1e-10, rtol=0)
    torch.testing.assert_close(without_rank_one(maps, 20), expected, atol=1e-10, rtol=0)


def test_rectified_maps_need_few_steps():
    maps = torch.relu(torch.randn(50, 32, 49, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(without_rank_one(maps, 20), without_rank_one(maps, None), atol=1e-4, rtol=0)


def test_a_rank_one_map_and_a_zero_map_leave_nothing():
    column, row = torch.rand(3, 4, 1), torch.rand(3, 1, 6)
    assert without_rank_one(column @ row).abs().max() < 1e-6
    assert without_rank_one(torch.zeros(2, 4, 6)).abs().max() == 0
    for scale in (1e-18, 1e18):
        assert without_rank_one(scale * column @ row).abs().max() < 1e-6 * scale


def test_the_energy_by_hand():
    # The map [[3, 0], [0, 1]] loses its 3: the channel means are 0 and 1/2, and so are the logits.
    model = nn.Sequential(nn.Unflatten(1, (2, 1, 2)), nn.AvgPool2d((1, 2)), nn.Flatten(), nn.Linear(2, 2, bias=False))
    nn.init.eye_(model[3].weight)
    found = RankFeat(model, layer="0").score(torch.tensor([[3.0, 0.0, 0.0, 1.0]]))
    assert found[0] == pytest.approx(-np.log(1 + np.exp(0.5)), rel=1e-5)


def test_the_rest_of_the_network_runs_on_the_reduced_map(cnn):
    x = torch.randn(9, 1, 8, 8)
    cnn.eval()
    with torch.no_grad():
        reduced = cnn[:3](x)
        u, s, v = torch.linalg.svd(reduced.flatten(2), full_matrices=False)
        s[:, 0] = 0
        logits = cnn[3:]((u * s[:, None] @ v).reshape(reduced.shape))
    expected = -torch.logsumexp(logits, dim=1).numpy()
    np.testing.assert_allclose(RankFeat(cnn, layer="2", iterations=None).score(x), expected, rtol=1e-5)
    np.testing.assert_allclose(RankFeat(cnn, layer="2", iterations=200).score(x), expected, rtol=1e-4)


def test_two_layers_average_their_logits(cnn):
    """As the released code of the authors: one map changed at a time, and the energy of the mean of both logits."""
    x = torch.randn(9, 1, 8, 8)
    cnn.eval()
    logits = []
    with torch.no_grad():
        for cut in (3, 4):
            reduced = cnn[:cut](x)
            u, s, v = torch.linalg.svd(reduced.flatten(2), full_matrices=False)
            s[:, 0] = 0
            logits.append(cnn[cut:]((u * s[:, None] @ v).reshape(reduced.shape)))
    expected = -torch.logsumexp((logits[0] + logits[1]) / 2, dim=1).numpy()
    np.testing.assert_allclose(RankFeat(cnn, layer=("2", "3"), iterations=None).score(x), expected, rtol=1e-5)
    np.testing.assert_allclose(RankFeat(cnn, layer=["3"]).score(x), RankFeat(cnn, layer="3").score(x), rtol=1e-6)
    with pytest.raises(InputError, match="unknown layer 'conv'"):
        RankFeat(cnn, layer=("2", "conv"))


def test_a_sample_does_not_depend_on_its_batch_and_the_model_is_left_alone(cnn):
    cnn.train()
    x = torch.randn(12, 1, 8, 8)
    score = RankFeat(cnn)
    whole = score.score(x)
    np.testing.assert_allclose(score.score(x.split(5)), whole, rtol=1e-5)
    np.testing.assert_allclose([score.score(x[i : i + 1])[0] for i in range(12)], whole, rtol=1e-5)
    assert cnn.training
    assert all(module.training for module in cnn)
    assert not any(module._forward_hooks for module in cnn.modules())
    assert np.unique(whole).size == 12


def test_the_last_map_is_found(cnn):
    assert last_map(cnn, torch.zeros(1, 1, 8, 8)) == "3"  # not the pooled one of a single position

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.act = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 3, 3), nn.ReLU()

        def forward(self, x):
            return self.act(self.second(self.act(self.first(x))))

    model = nn.Sequential(Block(), nn.Flatten(), nn.Linear(48, 2))
    assert last_map(model, torch.zeros(1, 1, 8, 8)) == "0"  # the rectifier runs twice, the block once


def test_wrong_layers_are_explained(cnn):
    with pytest.raises(InputError, match="unknown layer 'conv'"):
        RankFeat(cnn, layer="conv")
    with pytest.raises(InputError, match=r"layer '6' must give maps .* got \(2, 3\)"):
        RankFeat(cnn, layer="6").score(torch.zeros(2, 1, 8, 8))
    with pytest.raises(InputError, match=r"gives images of more than one position. Pass layer="):
        RankFeat(nn.Sequential(nn.Linear(3, 2))).score(torch.zeros(2, 3))
    with pytest.raises(InputError, match="iterations must be a whole number"):
        RankFeat(cnn, iterations=0)
    with pytest.raises(InputError, match="inputs .*at least one"):
        RankFeat(cnn).score([])
    with pytest.raises(InputError, match="is NaN, first at row 1"):
        RankFeat(cnn).score(torch.stack([torch.zeros(1, 8, 8), torch.full((1, 8, 8), float("nan"))]))


def test_narrow_floats_have_room_for_small_maps_and_the_exact_decomposition():
    small = torch.tensor([[[3.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=torch.float16) * 2**-14
    for iterations in (20, None):
        rest = without_rank_one(small, iterations)
        assert rest.dtype == torch.float16
        assert (rest * 2**14).tolist() == [[[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]


def test_a_model_that_writes_into_its_input_hears_every_image_whole():
    class Scribbling(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = nn.Conv2d(1, 3, 3), nn.Linear(12, 2)

        def forward(self, x):
            return self.fc(self.conv(x.mul_(0.5)).flatten(1))

    torch.manual_seed(0)
    model, images = Scribbling(), torch.rand(1, 1, 4, 4).repeat(2, 1, 1, 1)
    found = RankFeat(model).score(images)  # finding the map runs the first image alone
    assert found[0] == pytest.approx(found[1], abs=1e-6)
