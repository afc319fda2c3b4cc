import pytest

torch = pytest.importorskip("torch")

from caveat import InputError  # noqa: E402
from caveat_lab.networks.training.schedule import Ramp  # noqa: E402


def test_a_ramp_by_hand():
    # A line from (0.1, 0) to (0.6, 0.3): half way at 0.35.
    ramp = Ramp(0.3, start=0.1, stop=0.6)
    assert [ramp(p) for p in (0.0, 0.1, 0.35, 0.6, 0.9, 1.0)] == pytest.approx([0, 0, 0.15, 0.3, 0.3, 0.3])


def test_a_step_and_a_constant():
    assert [Ramp(1.0, start=0.2, stop=0.2)(p) for p in (0.0, 0.19, 0.2, 1.0)] == [0, 0, 1, 1]
    assert Ramp(0.3)(0.0) == 0.3


def test_a_virtual_start_has_risen_already():
    # From -2 to 298 epochs of 900, as the appendix has it for CIFAR-10: at epoch 0 it is 2 / 300.
    assert Ramp(1.0, start=-2 / 900, stop=298 / 900)(0.0) == pytest.approx(2 / 300)


@pytest.mark.parametrize(("start", "stop"), [(0.5, 0.4), (0.0, 1.1), (-2.0, 0.0), (float("nan"), 1.0)])
def test_a_ramp_that_cannot_be(start, stop):
    with pytest.raises(InputError, match="the ramp of value must start at -1 or later, before it stops"):
        Ramp(1.0, start, stop)


def test_a_ramp_to_nowhere():
    with pytest.raises(InputError, match="value must be a finite number, at least 0, got -1"):
        Ramp(-1)
