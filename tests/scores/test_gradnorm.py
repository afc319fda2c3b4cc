from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from caveat import Outputs
from caveat.scores import GradNorm

SHAPES = [(200, 12, 4), (40, 70, 4), (120, 9, 2), (400, 16, 100)]  # n, D, C: D < N, D > N, two and many classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def test_by_hand():
    # p = (3/4, 1/4): |p - 1/2| sums to 1/2; C = 2; ||h||_1 = |3| + |-1| = 4: -2 * 1/2 * 4
    said = Outputs(logits=[[np.log(3.0), 0.0]], features=[[3.0, -1.0]])
    assert GradNorm().score(said) == pytest.approx([-4.0])


@shapes
def test_is_the_norm_of_the_outer_product(n, width, classes, make_outputs):
    test = make_outputs(n=30, width=width, classes=classes, seed=2)
    expected = [
        -sum(abs((classes * p_c - 1) * h_j) for p_c in softmax(z) for h_j in h)
        for z, h in zip(test.logits, test.features, strict=True)
    ]
    np.testing.assert_allclose(GradNorm().score(test), expected, rtol=1e-10)


@pytest.mark.parametrize("classes", [2, 10])
def test_equals_autograd(classes, make_outputs):
    torch = pytest.importorskip("torch")
    test = make_outputs(n=25, classes=classes, seed=2)
    expected = []
    for h in test.features:
        layer = torch.nn.Linear(test.head.n_features, classes).double()
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(np.array(test.head.weight)))
            layer.bias.copy_(torch.tensor(np.array(test.head.bias)))
        loss = torch.sum(
            -torch.log_softmax(layer(torch.tensor(np.array(h))), dim=0)
        )  # every class a target, weight one
        loss.backward()
        expected.append(-layer.weight.grad.abs().sum().item())
    np.testing.assert_allclose(GradNorm().score(test), expected, rtol=1e-6)


def test_given_probabilities_do_as_well_as_logits(inlier):
    given = Outputs(probs=softmax(inlier.logits, axis=1), features=inlier.features)
    np.testing.assert_allclose(GradNorm().score(given), GradNorm().score(inlier), rtol=1e-12)
