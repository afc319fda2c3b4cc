from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.networks import fit_classifier  # noqa: E402
from caveat_lab.networks.training import Batch, Paradigm  # noqa: E402


def test_both_is_one_pass_split_where_the_inliers_end():
    seen = []

    class Net(nn.Module):
        def forward(self, x):
            seen.append(x.shape)
            return 2 * x

    batch = Batch(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]), -torch.ones(5, 2))
    known, strange = batch.both(Net())
    assert seen == [(8, 2)]
    assert torch.equal(known, 2 * batch.inputs)
    assert torch.equal(strange, -2 * torch.ones(5, 2))


@pytest.mark.parametrize("exposed", [False, True])
def test_a_paradigm_gets_rows_outliers_progress_and_chance(exposed):
    class Sees(Paradigm):
        name, needs_outliers = "sees", exposed

        def loss(self, net, batch):
            seen.append((batch, torch.rand((), generator=batch.generator).item()))
            return nn.functional.cross_entropy(net(batch.inputs), batch.labels), {}

    def run():
        seen.clear()
        x, y = torch.arange(40.0).reshape(20, 2) / 40, (torch.arange(20) >= 10).long()
        outliers = {"outliers": torch.full((3, 2), 7.0)} if exposed else {}
        net = nn.Linear(2, 2)  # right from the start, so that nothing is said about a collapse
        net.weight.data, net.bias.data = torch.tensor([[0.0, 0.0], [20.0, 0.0]]), torch.tensor([0.0, -9.5])
        fit_classifier(net, (x, y), Sees(), epochs=2, batch_size=10, learning_rate=1e-6, **outliers)
        return [(batch.inputs[:, 0].tolist(), chance) for batch, chance in seen]

    seen = []
    first = run()
    assert [batch.progress for batch, _ in seen] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    for batch, _ in seen:
        assert batch.inputs.shape == (10, 2)
        assert torch.equal(batch.labels, (batch.inputs[:, 0] >= 0.5).long())  # each row with its own label
        assert torch.equal(batch.outliers, torch.full((10, 2), 7.0)) if exposed else batch.outliers is None
    assert run() == first
