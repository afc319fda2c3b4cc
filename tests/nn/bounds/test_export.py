from __future__ import annotations

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn.bounds import export_network  # noqa: E402


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


@pytest.mark.parametrize(("layer", "what"), [
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
