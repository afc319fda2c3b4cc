import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat import InputError  # noqa: E402
from caveat_lab.bounds import Box, confidence_bounds, joint_log_probabilities, propagate  # noqa: E402
from caveat_lab.networks.training import fit_classifier  # noqa: E402
from caveat_lab.networks.training.joint import Joint, JointModel, NegativeLinear, with_head  # noqa: E402
from caveat_lab.networks.training.paradigm import Batch  # noqa: E402


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture
def joint():
    torch.manual_seed(0)
    return Joint().build(network(), 3)


def test_the_gated_probabilities_by_hand(joint):
    # p(y|x) = s p_in + (1 - s) / K with s = 1 / (1 + e^-g).
    x = torch.rand(5, 4)
    s = torch.sigmoid(joint.detector(x))
    expected = s * joint.classifier(x).softmax(dim=1) + (1 - s) / 3
    torch.testing.assert_close(joint(x).exp(), expected)


def test_the_loss_by_hand():
    # Classifier (2x, 0), detector g = x. Inlier 0: cross-entropy log 2, log(1 + e^0) = log 2.
    # Outlier 0.5 with epsilon 0.25: g is at most 0.75; its logits (1, 0) have log(1 + e) - 1/2 to uniform.
    classifier, detector = nn.Linear(1, 2, bias=False), nn.Linear(1, 1, bias=False)
    classifier.weight.data.copy_(torch.tensor([[2.0], [0.0]]))
    detector.weight.data.fill_(1.0)
    net = JointModel(classifier, detector, 2)
    paradigm = Joint(epsilon=0.25, kappa=0.3, outlier_weight=0.5)
    x, y, out = torch.tensor([[0.0]]), torch.tensor([0]), torch.tensor([[0.5]])
    loss, parts = paradigm.loss(net, Batch(x, y, out))
    uniform, strange = math.log(1 + math.e) - 0.5, math.log(1 + math.exp(0.75))
    assert parts == pytest.approx({"in": math.log(2), "out": uniform, "known": math.log(2), "strange": strange})
    assert loss.item() == pytest.approx(math.log(2) + 0.5 * uniform + math.log(2) + 0.3 * strange)


def test_the_detector_loss_is_not_shifted():
    # log(1 + e^-g) at g = 0 is log 2, not log(1 + e) as with logaddexp(1, -g).
    classifier, detector = nn.Linear(1, 2), nn.Linear(1, 1)
    for layer in (classifier, detector):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    net = JointModel(classifier, detector, 2)
    x = torch.rand(3, 1)
    _, parts = Joint().loss(net, Batch(x, torch.zeros(3).long(), x, progress=0.0))
    assert parts["known"] == pytest.approx(math.log(2))


def test_no_point_of_the_ball_passes_the_bound(joint):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((30, 4))).float()
    bounds = confidence_bounds(joint, x, 0.2)
    corners = rng.choice([-0.2, 0.2], size=(400, 30, 4))
    points = torch.from_numpy(np.clip(x.numpy() + corners, 0, 1)).float()
    with torch.no_grad():
        reached = joint.double()(points.flatten(0, 1).double()).amax(dim=1).view(400, 30).numpy()
    assert (reached <= bounds.upper + 1e-12).all()
    assert (reached >= bounds.lower - 1e-12).all()
    np.testing.assert_allclose(bounds.exact.lower, -math.log(3))
    assert (bounds.upper - bounds.exact.upper < 1e-4).all()


def test_the_bound_by_hand():
    # g = x reaches 0.75 from 0.5: at most 1/2 + 1/2 sigma(0.75).
    classifier, detector = nn.Linear(1, 2), nn.Linear(1, 1, bias=False)
    detector.weight.data.fill_(1.0)
    bounds = confidence_bounds(JointModel(classifier, detector, 2), [[0.5]], 0.25)
    assert math.exp(bounds.exact.upper[0]) == pytest.approx(0.5 + 0.5 / (1 + math.exp(-0.75)))
    assert 0 < bounds.slack[0] < 1e-5  # float32


def test_the_shift_moves_detector_and_bound_alike(joint):
    x = torch.rand(6, 4)
    before, bound = joint.gate(x), confidence_bounds(joint, x, 0.1).upper
    joint.shift += 3.0
    torch.testing.assert_close(joint.gate(x), before + 3)
    assert (confidence_bounds(joint, x, 0.1).upper > bound).all()
    assert Joint(bias_shift=3.0).build(network(), 3).shift == 3.0


def test_negative_weights_lower_the_gate_along_a_ray():
    torch.manual_seed(1)
    net = Joint(negative_last_layer=True).build(network(), 3)
    assert (net.detector[2].weight < 0).all()
    assert net.detector[2].bias.item() == 3.0
    x = torch.rand(20, 4)
    near, far = net(x).amax(dim=1).exp(), net(1e6 * x).amax(dim=1).exp()
    active = net.detector[:2](1e6 * x).amax(dim=1) > 0
    assert active.any()
    assert (near > 0.35).any()
    torch.testing.assert_close(far[active], torch.full_like(far[active], 1 / 3))


def test_the_rule_of_the_negative_layer_encloses_it():
    torch.manual_seed(0)
    layer = NegativeLinear(3)
    box = propagate(nn.Sequential(layer), Box(torch.zeros(1, 3), torch.ones(1, 3)))
    ends = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)
    values = layer(ends)
    assert box.upper.item() == pytest.approx(values.max().item())
    assert box.lower.item() == pytest.approx(values.min().item())


def test_the_detector_starts_on_its_own():
    torch.manual_seed(0)
    net = Joint(interval_init=False).build(network(), 3)
    assert not torch.equal(net.classifier[0].weight, net.detector[0].weight)
    assert with_head(network())[2].out_features == 1
    with pytest.raises(InputError, match="must contain a linear layer"):
        with_head(nn.Linear(3, 2))


def test_wrong_parameters():
    with pytest.raises(InputError, match="outlier_weight must be a finite number, at least 0"):
        Joint(outlier_weight=-1)


def test_a_sure_answer_does_not_pass_its_bound_by_rounding():
    # Detector and classifier are so sure that what is missing to confidence 1 is near the unit roundoff.
    classifier, detector = nn.Linear(1, 10), nn.Linear(1, 1)
    classifier.weight.data.zero_()
    classifier.bias.data.copy_(60.0 * torch.eye(10)[0])
    detector.weight.data.fill_(60.0)
    detector.bias.data.zero_()
    bounds = confidence_bounds(JointModel(classifier, detector, 10), torch.linspace(0, 1, 1001)[:, None], 0.0).exact
    assert (bounds.value <= bounds.upper).all()
    assert (bounds.upper < 0).all()  # and the bound still says how much is missing


def test_a_classifier_that_writes_into_its_input_does_not_move_the_gate():
    class Scribbling(nn.Linear):
        def forward(self, x):
            return super().forward(x.mul_(0))

    net, x = JointModel(Scribbling(4, 3), nn.Linear(4, 1), 3), torch.rand(5, 4)
    gate = net.detector(x).squeeze(1)
    expected = joint_log_probabilities(net.classifier.bias.expand(5, 3), gate)
    torch.testing.assert_close(net(x.clone()), expected)


def test_the_last_epochs_train_the_classifier_alone():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 2
    x = (
        0.2 + 0.6 * y[:, None, None, None] * torch.eye(4) + 0.05 * torch.randn(200, 1, 4, 4, generator=generator)
    ).clamp(0, 1)

    def noise(n, generator):
        return torch.rand(n, 1, 4, 4, generator=generator)

    def trained(epochs, **how):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))
        return fit_classifier(
            net, (x, y), Joint(epsilon=0.05, **how), outliers=noise, epochs=epochs, batch_size=50, learning_rate=0.01,
            threads=1,
        )  # fmt: skip

    short = trained(2, kappa_ramp=(0.0, 0.0), epsilon_ramp=(0.0, 0.0))
    longer = trained(5, kappa_ramp=(0.0, 0.0), epsilon_ramp=(0.0, 0.0), classifier_share=0.6)
    assert [epoch.phase for epoch in longer.history] == ["both"] * 2 + ["classifier"] * 3
    for one, other in zip(short.model.detector.parameters(), longer.model.detector.parameters(), strict=True):
        assert torch.equal(one, other)
    moved = [
        not torch.equal(one, other)
        for one, other in zip(short.model.classifier.parameters(), longer.model.classifier.parameters(), strict=True)
    ]
    assert all(moved)
