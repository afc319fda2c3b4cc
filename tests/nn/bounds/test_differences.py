from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import (  # noqa: E402
    Box,
    difference_bounds,
    differences,
    input_box,
    largest_difference,
    largest_difference_bound,
    log_probability_lower,
    log_probability_upper,
    register_rule,
)
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402
from caveat_lab.bounds.rules import MODULE_RULES, linear  # noqa: E402


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), epsilon=st.floats(0, 0.6), kind=st.sampled_from(["dense", "conv", "residual"]))
def test_sound_and_never_looser_than_without_elision(make_net, everywhere, seed, epsilon, kind):
    net = make_net(kind, seed)
    x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        logits = net(everywhere(x[0], epsilon))
        found = (logits[:, :, None] - logits[:, None, :]).amax(dim=0)
        elided = difference_bounds(net, x, epsilon, slack=REAL)[0]
        apart = difference_bounds(net, x, epsilon, elide=False, slack=REAL)[0]
    assert (found <= elided).all()
    assert (elided <= apart + 1e-9).all()
    assert (elided.diagonal() == 0).all()
    assert (apart.diagonal() == 0).all()


def test_the_formula_of_the_paper():
    # max(W_k - W_l, 0) . up + min(W_k - W_l, 0) . lo + b_k - b_l, entry by entry
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).double()
    x = torch.rand(5, 3, dtype=torch.float64)
    first, head = net[0], net[2]
    center, radius = first(x), torch.full_like(x, 0.1) @ first.weight.abs().T
    up, lo = (center + radius).relu(), (center - radius).relu()
    found = difference_bounds(net, x, 0.1, clip=None)
    for k in range(3):
        for m in range(3):
            row = head.weight[k] - head.weight[m]
            want = up @ row.clamp(min=0) + lo @ row.clamp(max=0) + head.bias[k] - head.bias[m]
            torch.testing.assert_close(found[:, k, m], want)


def test_at_radius_zero_the_largest_is_the_spread_of_logits(make_net):
    net, x = make_net("dense", 0), torch.rand(6, 1, 2, 2, dtype=torch.float64)
    logits = net(x)
    torch.testing.assert_close(largest_difference(difference_bounds(net, x, 0.0)), logits.amax(1) - logits.amin(1))


def test_many_classes_go_in_blocks(make_net, monkeypatch):
    net, x = make_net("conv", 0), torch.rand(6, 1, 2, 2, dtype=torch.float64)
    whole = difference_bounds(net, x, 0.2)
    monkeypatch.setattr(differences, "_BLOCK", 1)
    torch.testing.assert_close(difference_bounds(net, x, 0.2), whole)


def test_bounds_of_probabilities_never_hold_all_pairs_of_classes(monkeypatch, largest_tensor):
    torch.manual_seed(0)
    n, classes = 16, 300
    net, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, classes)).double(), torch.rand(n, 4).double()
    whole = difference_bounds(net, x, 0.1, slack=REAL)
    monkeypatch.setattr(differences, "_BLOCK", 2**14)
    with largest_tensor() as largest, torch.no_grad():
        lower, upper = differences.log_probability_bounds(net, input_box(x, 0.1))
        apart = differences.log_probability_bounds(net, input_box(x, 0.1), elide=False)
    assert largest.entries <= 2**14 < n * classes * classes / 50
    torch.testing.assert_close(lower, log_probability_lower(whole))
    torch.testing.assert_close(upper, log_probability_upper(whole))
    torch.testing.assert_close(apart[1], log_probability_upper(difference_bounds(net, x, 0.1, elide=False, slack=REAL)))


@pytest.mark.parametrize("elide", [True, False])
@pytest.mark.parametrize("block", [2**20, 1])  # all classes at once, and one at a time
@pytest.mark.parametrize("kind", ["dense", "conv", "residual"])
def test_the_largest_bound_and_its_gradient_are_those_of_all_pairs(make_net, monkeypatch, kind, block, elide):
    monkeypatch.setattr(differences, "_BLOCK", block)
    pairs = set()
    for seed in range(6):
        net, x = make_net(kind, seed), torch.rand(7, 1, 2, 2, dtype=torch.float64)
        weights, share = list(net.parameters()), torch.arange(1.0, 8).double()
        largest, every = (call(net, x, 0.2, elide=elide) for call in (largest_difference_bound, difference_bounds))
        pairs |= set(every.flatten(1).argmax(dim=1).tolist())
        torch.testing.assert_close(largest, largest_difference(every))
        for got, want in zip(
            torch.autograd.grad(largest @ share, weights, allow_unused=True),
            torch.autograd.grad(largest_difference(every) @ share, weights, allow_unused=True), strict=True,
        ):  # fmt: skip
            torch.testing.assert_close(got, want)
    assert len(pairs) >= 3  # else a search that looks at one class only would pass


def test_a_network_without_differences_has_a_largest_of_zero():
    net = nn.Linear(2, 3, bias=False)
    net.weight.data.zero_()
    largest = largest_difference_bound(net, torch.rand(4, 2), 0.1)
    assert largest.tolist() == [0.0] * 4
    largest.sum().backward()
    assert net.weight.grad.isfinite().all()


@pytest.mark.parametrize("norm", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm])
def test_a_parametrized_head_is_elided_with_the_weights_that_it_gives(norm):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), norm(nn.Linear(6, 3))).double().eval()
    plain = nn.Sequential(net[0], net[1], nn.Linear(6, 3)).double().eval()
    plain[2].weight.data, plain[2].bias.data = net[2].weight.detach().clone(), net[2].bias.detach().clone()
    x = torch.rand(5, 4, dtype=torch.float64)
    torch.testing.assert_close(difference_bounds(net, x, 0.2), difference_bounds(plain, x, 0.2))


def test_a_head_with_weights_from_the_input_is_not_elided():
    class Net(nn.Module):
        def forward(self, x):
            return nn.functional.linear(x, x)

    with pytest.raises(InputError, match="weight depends on the input"):
        difference_bounds(Net(), torch.rand(2, 2), 0.1)


def test_a_subclass_of_linear_with_a_rule_is_not_taken_for_linear():
    class Tripled(nn.Linear):
        def forward(self, x):
            return 3 * super().forward(x)

    @register_rule(Tripled)
    def tripled(module, box, slack):
        box = linear(box, module.weight, module.bias, slack)
        return Box(3 * box.center, 3 * box.radius)

    head, x = Tripled(2, 2, bias=False).double(), torch.rand(3, 2).double()
    try:
        found = difference_bounds(head, x, 0.1)
    finally:
        del MODULE_RULES[Tripled]
    logits = head(x)
    assert (found[:, 0, 1] >= logits[:, 0] - logits[:, 1]).all()
    assert (found[:, 1, 0] >= logits[:, 1] - logits[:, 0]).all()


@pytest.mark.parametrize("epsilon", [0.2, torch.linspace(0, 0.5, 7, dtype=torch.float64)])
def test_large_batches_go_in_parts(make_net, monkeypatch, epsilon):
    net, x = make_net("residual", 0), torch.rand(7, 1, 2, 2, dtype=torch.float64)
    whole = difference_bounds(net, x, epsilon)
    monkeypatch.setattr(differences, "_ROWS", 3)
    torch.testing.assert_close(difference_bounds(net, x, epsilon), whole)


def test_an_epsilon_per_sample_must_have_one_for_each(make_net, monkeypatch):
    monkeypatch.setattr(differences, "_ROWS", 3)
    with pytest.raises(InputError, match="one per sample"):
        difference_bounds(make_net("dense", 0), torch.rand(7, 1, 2, 2).double(), torch.zeros(6).double())


def test_slack_covers_two_rows_that_are_alike():
    # two equal rows: the difference is exactly 0 for every input, but two rounded logits need not agree
    torch.manual_seed(0)
    head = nn.Linear(500, 2).double()
    head.weight.data[1] = head.weight.data[0]
    head.bias.data[:] = 1e6
    found = difference_bounds(head, torch.rand(3, 500, dtype=torch.float64), 0.1, slack=REAL)
    assert (found[:, 0, 1] > 0).all()
    assert (found[:, 0, 1] < 1e-5).all()
