"""No generated certificate is beaten by an attack in the type in which the network is deployed."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError

torch = pytest.importorskip("torch")

from tests.nn.bounds.generated import TYPES, make_network, one_of, strongest  # noqa: E402

from caveat_lab.bounds import confidence_bounds  # noqa: E402

ROWS = 20
RADII = (0.0, 1e-6, 1e-4, 0.01, 0.1)


def attacked_certificates(seeds):
    """How many certificates there are, how many are beaten, and how many inputs pass the bound in real numbers."""
    certified = beaten = beyond_real = 0
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        net = make_network(generator)
        dtype = TYPES[one_of(generator, "float32", "float32", "float32", "bfloat16", "float16", "float64")]
        x = torch.rand((ROWS, 1, 2, 2), generator=generator)
        x = (0.5 + 1e-3 * x if one_of(generator, True, False, False) else x).to(dtype)  # some images are nearly flat
        net, epsilon = net.to(dtype), RADII[seed % len(RADII)]
        try:
            bounds = confidence_bounds(net, x, epsilon, batch_size=5)
        except InputError:  # weights beyond the largest float16
            continue
        reached = strongest(net, x, epsilon, dtype, generator)
        certified += int(np.isfinite(bounds.upper).sum())
        beaten += int((reached > bounds.upper).sum())
        beyond_real += int((reached > bounds.exact.upper).sum())
    return certified, beaten, beyond_real


def test_no_certificate_of_some_hundreds_is_beaten():
    certified, beaten, beyond_real = attacked_certificates(range(40))
    assert certified > 400
    assert beaten == 0
    assert beyond_real > 10  # the attack finds what rounding does: without room for it, certificates would be beaten


@pytest.mark.slow
def test_no_certificate_of_ten_thousand_is_beaten():
    certified, beaten, beyond_real = attacked_certificates(range(1000, 1900))
    assert certified >= 10_000
    assert beaten == 0
    assert beyond_real > 500
