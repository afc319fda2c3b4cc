"""Attacks make many tiny passes: threads would only wait for each other."""

import pytest

torch = pytest.importorskip("torch")

torch.set_num_threads(1)
