"""The snippet that needs torch and a user's model runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"


def test_the_snippet_with_a_network_runs():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (snippet,) = [block for block in blocks if ">>>" not in block]
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    names = {
        "np": np, "model": model, "outliers": torch.rand(5, 6), "train_images": torch.rand(20, 6),
        "threshold": np.log(0.9),
    }  # fmt: skip
    exec(snippet, names)
    assert (names["bounds"].value <= names["attacked"].log_confidence).all()
    assert (names["attacked"].log_confidence <= names["bounds"].upper).all()
    assert names["radius"].shape == (5,)
