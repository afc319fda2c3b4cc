from __future__ import annotations

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import Box, export_network, register_rule  # noqa: E402
from caveat_lab.bounds.rules import MODULE_RULES  # noqa: E402


def test_names_and_settings():
    model = nn.Sequential(nn.Conv2d(1, 2, (3, 2), stride=2, padding=(1, 0)), nn.ReLU(), nn.Dropout(), nn.Flatten(),
                          nn.Linear(8, 3))  # fmt: skip
    arrays = export_network(model)
    assert list(arrays) == ["0.conv.weight", "0.conv.bias", "0.conv.args", "1.relu.args", "2.flatten.args",
                            "3.dense.weight", "3.dense.bias"]  # fmt: skip
    assert arrays["0.conv.args"].tolist() == [2, 2, 1, 0, 1, 1, 1]


def test_arrays_are_copies():
    model = nn.Linear(2, 2)
    arrays = export_network(model)
    model.weight.data.zero_()
    assert (arrays["0.dense.weight"] != 0).all()


def test_functions_in_forward_are_seen():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x):
            return self.b(torch.relu(self.a(torch.flatten(x, 1))))

    assert [key.split(".")[1] for key in export_network(Net())] == [
        "flatten",
        "dense",
        "dense",
        "relu",
        "dense",
        "dense",
    ]


def test_activations_and_their_settings():
    model = nn.Sequential(nn.Linear(3, 3), nn.LeakyReLU(0.2), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(),
                          nn.Sigmoid(), nn.Tanh(), nn.LayerNorm(3, bias=False), nn.Linear(3, 2))  # fmt: skip
    arrays = export_network(model)
    kinds = ["dense", "leaky_relu", "gelu", "gelu", "silu", "sigmoid", "tanh", "layer_norm", "dense"]
    assert list(dict.fromkeys(key.rsplit(".", 1)[0] for key in arrays)) == [f"{i}.{k}" for i, k in enumerate(kinds)]
    assert [arrays[key].tolist() for key in ("1.leaky_relu.args", "2.gelu.args", "3.gelu.args")] == [[0.2], [0], [1]]
    assert arrays["7.layer_norm.bias"].tolist() == [0, 0, 0]


def test_a_parametrized_layer_is_exported_with_its_weights_at_rest():
    torch.manual_seed(0)
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), layer)
    vectors = {name: value.clone() for name, value in model.state_dict().items()}
    arrays = export_network(model)  # in training mode, where a pass would change the vectors
    assert all(torch.equal(vectors[name], value) for name, value in model.state_dict().items())
    assert (arrays["2.dense.weight"] == layer.eval().weight.detach().numpy()).all()


def test_a_subclass_with_a_rule_is_not_exported_as_its_base():
    class Tripled(nn.Linear):
        def forward(self, x):
            return 3 * super().forward(x)

    register_rule(Tripled)(lambda module, box, slack: Box(3 * box.center, 3 * box.radius))
    try:
        with pytest.raises(InputError, match="type Tripled"):
            export_network(nn.Sequential(nn.Linear(2, 2), Tripled(2, 2)))
    finally:
        del MODULE_RULES[Tripled]


@pytest.mark.parametrize(("layer", "what"), [
    (nn.LayerNorm((1, 1)), "layer '1' of type LayerNorm"), (nn.AvgPool2d(2, divisor_override=3), "AvgPool2d"),
    (nn.Softmax(1), "layer '1' of type Softmax"), (nn.MaxPool2d(2, ceil_mode=True), "layer '1' of type MaxPool2d"),
    (nn.AvgPool2d(2, padding=1, count_include_pad=False), "AvgPool2d"), (nn.AdaptiveAvgPool2d(2), "AdaptiveAvgPool2d"),
    (nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), "Conv2d"), (nn.Flatten(2), "Flatten"),
])  # fmt: skip
def test_what_cannot_be_exported_is_named(layer, what):
    with pytest.raises(InputError, match=what):
        export_network(nn.Sequential(nn.Conv2d(1, 1, 1), layer))


def test_a_model_with_hooks_is_compared_with_its_layers_at_inputs():
    def conv():
        return nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 3))

    net, x = conv(), torch.rand(2, 1, 2, 2)
    net.register_forward_hook(lambda module, args, out: None)
    with pytest.raises(InputError, match="needs like"):
        export_network(net)
    assert list(export_network(net, x))[-1] == "3.dense.bias"
    net.register_forward_hook(lambda module, args, out: 4 * out if isinstance(out, torch.Tensor) else out)
    with pytest.raises(InputError, match="graph of layers"):
        export_network(net, x)


def test_half_precision_of_brains_becomes_single():
    assert str(export_network(nn.Linear(2, 2).bfloat16())["0.dense.weight"].dtype) == "float32"


def test_additions_cannot_be_exported(make_net):
    with pytest.raises(InputError, match="joins or branches"):
        export_network(make_net("residual", 0))
