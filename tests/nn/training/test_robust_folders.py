"""Paradigms that wrap the model are saved to a folder and loaded with their bounds."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from caveat_lab.bounds import confidence_bounds  # noqa: E402
from caveat_lab.networks import architectures, fit_classifier, load_model  # noqa: E402
from caveat_lab.networks.training import CCU, GOOD, Joint, OutlierMix, save_model  # noqa: E402


@pytest.mark.parametrize("paradigm", [GOOD(kappa=0.01), Joint(bias_shift=0.5), Joint(negative_last_layer=True),
                                      CCU(components=3, rows=100)], ids=lambda p: p.name)  # fmt: skip
def test_a_saved_network_makes_the_same_promises(paradigm, tmp_path):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) % 2
    x = (0.1 + 0.8 * y[:, None, None, None] * torch.ones(1, 8, 8)) + 0.05 * torch.randn(
        120, 1, 8, 8, generator=generator
    )
    x = x.clamp(0, 1)
    how = {"name": "xs", "in_shape": [1, 8, 8], "classes": 2}
    net = architectures.make(**how, seed=0)
    draw = OutlierMix(x, ["uniform"])
    trained = fit_classifier(net, (x, y), paradigm, outliers=draw, epochs=6, batch_size=20, learning_rate=3e-3)
    save_model(trained, tmp_path, architecture=how)
    read = load_model(tmp_path)
    assert (read.paradigm.name, read.paradigm.kappa) == (paradigm.name, paradigm.kappa)
    assert torch.equal(read.model(x[:5]), trained.model(x[:5]))
    before, after = (confidence_bounds(model, x[:5], 0.1) for model in (trained.model, read.model))
    np.testing.assert_array_equal(before.upper, after.upper)
    said = read.outputs((x, y))
    assert said.logits.shape == (120, 2)
    if paradigm.name != "good":
        np.testing.assert_allclose(said.confidence, read.model(x).exp().amax(dim=1).detach(), rtol=1e-5)
