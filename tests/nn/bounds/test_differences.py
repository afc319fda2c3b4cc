from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat.nn.bounds import difference_bounds, differences, largest_difference  # noqa: E402


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), epsilon=st.floats(0, 0.6), kind=st.sampled_from(["dense", "conv", "residual"]))
def test_sound_and_never_looser_than_without_elision(make_net, everywhere, seed, epsilon, kind):
    net = make_net(kind, seed)
    x = torch.rand(1, 1, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        logits = net(everywhere(x[0], epsilon))
        found = (logits[:, :, None] - logits[:, None, :]).amax(dim=0)
        elided = difference_bounds(net, x, epsilon, slack=True)[0]
        apart = difference_bounds(net, x, epsilon, elide=False, slack=True)[0]
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
    centre, radius = first(x), torch.full_like(x, 0.1) @ first.weight.abs().T
    up, lo = (centre + radius).relu(), (centre - radius).relu()
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
    found = difference_bounds(head, torch.rand(3, 500, dtype=torch.float64), 0.1, slack=True)
    assert (found[:, 0, 1] > 0).all()
    assert (found[:, 0, 1] < 1e-5).all()
