"""Every network: its size against a count by hand, both image sizes, dropout where it belongs, a head that is found."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn import extract  # noqa: E402
from caveat_lab.networks.architectures import ARCHITECTURES, make  # noqa: E402

QUICK = ("small_cnn", "small_vit", "xs", "resnet20")


def conv(channels, width, size=3, *, bias=True):
    return width * (channels * size * size + bias)


def linear(features, width):
    return width * (features + 1)


def norm(width):
    return 2 * width


def count(name, in_shape, classes):
    """Parameters by hand, layer by layer as the papers list them."""
    c, h, w = in_shape
    if name == "small_cnn":
        return conv(c, 16) + conv(16, 32) + linear(32 * (h // 4) * (w // 4), 128) + linear(128, classes)
    if name == "xs":
        return conv(c, 16, 4) + conv(16, 32, 4) + linear(32 * (h // 4) * (w // 4), 100) + linear(100, classes)
    if name == "l":
        body = conv(c, 64) + conv(64, 64) + conv(64, 128) + 2 * conv(128, 128)
        return body + linear(128 * (h // 2) * (w // 2), 512) + linear(512, classes)
    if name == "xl":
        body = conv(c, 128) + conv(128, 128) + conv(128, 256) + 2 * conv(256, 256)
        return body + linear(256 * (h // 2) * (w // 2), 512) + linear(512, 512) + linear(512, classes)
    if name == "vgg13":
        widths = [c, 64, 64, 128, 128, 256, 256, 512, 512, 512, 512]
        body = sum(conv(a, b, bias=False) + norm(b) for a, b in itertools.pairwise(widths))
        return body + 2 * linear(512, 512) + linear(512, classes)  # five halvings leave one pixel
    if name == "resnet18":
        total, before = conv(c, 64, bias=False) + norm(64), 64
        for width in (64, 128, 256, 512):
            total += conv(before, width, bias=False) + 3 * conv(width, width, bias=False) + 4 * norm(width)
            total += 0 if before == width else conv(before, width, 1, bias=False) + norm(width)
            before = width
        return total + linear(512, classes)
    if name == "resnet20":
        total, before = conv(c, 16, bias=False) + norm(16), 16
        for width in (16, 32, 64):
            total += conv(before, width, bias=False) + 5 * conv(width, width, bias=False) + 6 * norm(width)
            before = width
        return total + linear(64, classes)
    assert name == "small_vit"
    block = norm(64) + linear(64, 192) + linear(64, 64) + norm(64) + linear(64, 128) + linear(128, 64)
    return conv(c, 64, 4) + 64 * (h // 4) * (w // 4) + 4 * block + norm(64) + linear(64, classes)


@pytest.mark.parametrize("in_shape", [(1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_parameters_as_counted_by_hand(name, in_shape):
    with torch.device("meta"):  # sizes without memory
        model = make(name, in_shape, 7)
    assert sum(parameter.numel() for parameter in model.parameters()) == count(name, in_shape, 7)
    assert isinstance(model[-1], nn.Linear)


def test_published_sizes():
    # He et al., Table 6: 0.27 M for 20 layers; 11.2 M is usual for ResNet-18 on CIFAR-10.
    assert round(count("resnet20", (3, 32, 32), 10) / 1e6, 2) == 0.27
    assert round(count("resnet18", (3, 32, 32), 10) / 1e6, 1) == 11.2


@pytest.mark.parametrize("in_shape", [(1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - {"xl"}))
def test_a_forward_pass_and_the_head(name, in_shape):
    model = make(name, in_shape, 5, seed=0)
    said = extract(model, [torch.rand(2, *in_shape)])
    assert said.logits.shape == (2, 5)
    np.testing.assert_allclose(said.head.logits(said.features), said.logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_dropout_only_where_wanted_and_never_after_the_head(name):
    with torch.device("meta"):
        without, with_it = make(name), make(name, dropout=0.3)
    assert not [m for m in without.modules() if isinstance(m, nn.Dropout)]
    found = [m for m in with_it.modules() if isinstance(m, nn.Dropout)]
    assert found
    assert all(layer.p == 0.3 for layer in found)
    assert isinstance(with_it[-1], nn.Linear)


@pytest.mark.parametrize("name", QUICK)
def test_every_parameter_gets_a_gradient(name):
    model = make(name, seed=0)
    model(torch.rand(4, 1, 28, 28)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", QUICK)
def test_the_same_seed_gives_the_same_weights(name):
    before = torch.get_rng_state()
    one, two, other = make(name, seed=1), make(name, seed=1), make(name, seed=2)
    assert torch.equal(before, torch.get_rng_state())
    x = torch.rand(2, 1, 28, 28)
    assert torch.equal(one.eval()(x), two.eval()(x))
    assert not torch.equal(one(x), other.eval()(x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "resnet21"}, "unknown architecture 'resnet21'. Did you mean 'resnet20'"),
        ({"widht": 3}, "unknown option of small_cnn 'widht'. Did you mean 'width'"),
        ({"in_shape": (28, 28)}, "in_shape must be channels, height, width"),
        ({"in_shape": (1, 4, 4)}, "at least 8 x 8 pixels"),
        ({"classes": 1}, "classes must be a whole number, at least 2, got 1"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"name": "small_vit", "patch": 5}, "must be a whole number of patches of 5"),
        ({"name": "small_vit", "heads": 5}, "width must be a multiple of heads, got 64 and 5"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    with pytest.raises(InputError, match=message):
        make(**{"name": "small_cnn", **change})
