"""A call of a function stands for the layer that gives the same."""

from __future__ import annotations

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from caveat_lab.bounds.calls import LAYER_CALLS, LAYER_METHODS, layer_of_call  # noqa: E402
from caveat_lab.bounds.rules import has_rule  # noqa: E402

SEQUENCE, IMAGE = torch.randn(2, 4, 7), torch.randn(2, 4, 6, 6)
CALLS = [
    (F.linear, SEQUENCE, (torch.randn(3, 7), torch.randn(3)), {}),
    (F.conv1d, SEQUENCE, (torch.randn(6, 2, 3),), {"stride": 2, "padding": 1, "groups": 2}),
    (torch.conv1d, SEQUENCE, (torch.randn(6, 4, 3), torch.randn(6), 1, 2, 2), {}),
    (F.conv2d, IMAGE, (torch.randn(3, 4, 2, 3), torch.randn(3), (2, 1), (0, 1), 2), {}),
    (torch.conv2d, IMAGE, (torch.randn(3, 4, 3, 3),), {"padding": "same"}),
    (F.layer_norm, SEQUENCE, ((4, 7),), {"bias": torch.randn(4, 7), "eps": 0.5}),
    (F.relu, SEQUENCE, (), {"inplace": False}), (torch.relu, SEQUENCE, (), {}), (torch.relu_, SEQUENCE, (), {}),
    (F.leaky_relu, SEQUENCE, (0.3,), {}), (F.gelu, SEQUENCE, (), {"approximate": "tanh"}), (F.gelu, SEQUENCE, (), {}),
    (F.silu, SEQUENCE, (), {}), (F.sigmoid, SEQUENCE, (), {}), (torch.sigmoid, SEQUENCE, (), {}),
    (torch.sigmoid_, SEQUENCE, (), {}), (F.tanh, SEQUENCE, (), {}), (torch.tanh, SEQUENCE, (), {}),
    (torch.tanh_, SEQUENCE, (), {}), (F.avg_pool1d, SEQUENCE, (3, 2, 1), {}),
    (F.avg_pool2d, IMAGE, (3, 2, 1, True, False, 5), {}), (F.adaptive_avg_pool1d, SEQUENCE, (3,), {}),
    (F.adaptive_avg_pool2d, IMAGE, ((2, 3),), {}), (F.max_pool1d, SEQUENCE, (2, 2, 0, 1, True), {}),
    (F.max_pool2d, IMAGE, (5, 2, 1, 1, True), {}), (torch.flatten, IMAGE, (1,), {}), (torch.flatten, IMAGE, (), {}),
    ("relu", SEQUENCE, (), {}), ("relu_", SEQUENCE, (), {}), ("sigmoid", SEQUENCE, (), {}),
    ("sigmoid_", SEQUENCE, (), {}), ("tanh", SEQUENCE, (), {}), ("tanh_", SEQUENCE, (), {}),
    ("flatten", IMAGE, (2,), {"end_dim": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("target", "x", "args", "kwargs"), CALLS)
def test_the_layer_gives_what_the_call_gives(target, x, args, kwargs):
    layer = layer_of_call(target, args, kwargs)
    call = getattr(torch.Tensor, target) if isinstance(target, str) else target
    assert has_rule(layer)
    torch.testing.assert_close(layer(x.clone()), call(x.clone(), *args, **kwargs))


def test_every_call_is_compared():
    assert {call[0] for call in CALLS} == {*LAYER_CALLS, *LAYER_METHODS}


def test_gradients_flow_through_the_weights():
    weight = torch.randn(3, 7, requires_grad=True)
    layer_of_call(F.linear, (weight * 2,), {})(SEQUENCE).sum().backward()
    assert weight.grad.abs().sum() > 0


def test_another_call_stands_for_no_layer():
    assert layer_of_call(torch.exp, (), {}) is None
    assert layer_of_call("exp", (), {}) is None


def test_weights_must_be_tensors():
    with pytest.raises(InputError, match="weight depends on the input"):
        layer_of_call(F.conv2d, ("a node",), {})
    with pytest.raises(InputError, match="bias depends on the input"):
        layer_of_call(F.linear, (torch.ones(2, 2), "a node"), {})


def test_a_layer_is_not_registered_twice():
    assert list(layer_of_call(F.linear, (torch.ones(2, 2),), {}).parameters()) == []
    assert isinstance(layer_of_call(F.linear, (torch.ones(2, 2),), {}), nn.Linear)
