from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")

from caveat.nn.attacks import STARTS, Ball, make_start  # noqa: E402


def start(name, x, epsilon=0.3, objective=lambda z: z.flatten(1).sum(dim=1), **options):
    ball = Ball(torch.as_tensor(x, dtype=torch.float64), epsilon)
    return make_start(name, ball, objective, np.random.default_rng(0), **options)


@pytest.mark.parametrize("name", [*STARTS, "toward_id"])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0])
def test_every_start_is_inside_ball_and_range(name, epsilon):
    x = torch.rand(20, 1, 3, 3, dtype=torch.float64)
    z = start(name, x, epsilon, candidates=torch.rand(10, 1, 3, 3, dtype=torch.float64), tries=4)
    assert z.shape == x.shape
    assert ((z - x).abs() <= epsilon + 1e-15).all()
    assert ((z >= 0) & (z <= 1)).all()


def test_contrast_by_hand():
    # epsilon 0.3: above 0.7 becomes white, the rest darker by 0.3
    assert start("contrast", [[0.71, 0.7, 0.5, 0.1]]).tolist() == [[1.0, pytest.approx(0.4), pytest.approx(0.2), 0.0]]


def test_decontrast_by_hand():
    # mean 0.5: 0.1 may go to 0.4, 0.9 to 0.6, 0.5 stays
    assert start("decontrast", [[0.1, 0.5, 0.9]]).tolist() == [
        [pytest.approx(0.4), pytest.approx(0.5), pytest.approx(0.6)]
    ]


def test_the_largest_change_of_a_full_start_is_epsilon():
    x = torch.full((5, 30), 0.5, dtype=torch.float64)
    assert (start("full", x, 0.2) - x).abs().amax(dim=1).tolist() == [pytest.approx(0.2)] * 5


def test_toward_takes_the_best_candidate_of_each_sample():
    # the objective likes bright images: of the candidates, 0.9 projected to x + 0.3
    candidates = torch.tensor([[0.2, 0.2], [0.9, 0.9], [0.4, 0.4]], dtype=torch.float64)
    z = start("toward_id", [[0.1, 0.1], [0.8, 0.8]], candidates=candidates)
    torch.testing.assert_close(z, torch.tensor([[0.4, 0.4], [0.9, 0.9]], dtype=torch.float64))


def test_toward_stays_if_no_candidate_is_better():
    z = start("toward_id", [[0.9, 0.9]], candidates=torch.zeros(3, 2, dtype=torch.float64))
    assert z.tolist() == [[0.9, 0.9]]


def test_toward_in_small_batches_is_the_same():
    x, candidates = torch.rand(7, 4, dtype=torch.float64), torch.rand(9, 4, dtype=torch.float64)
    torch.testing.assert_close(
        start("toward_id", x, candidates=candidates), start("toward_id", x, candidates=candidates, batch_size=2)
    )


def test_toward_needs_candidates():
    with pytest.raises(InputError, match="needs candidates"):
        start("toward_id", [[0.5]])


def test_an_unknown_start_is_named():
    with pytest.raises(InputError, match="Did you mean 'contrast'"):
        start("contrst", [[0.5]])
