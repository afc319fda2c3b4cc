"""The client in Python on docs/serving.md asks a running service and gets its verdict."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("tritonclient.http")

from tests.serve.conftest import serving

from caveat import Guard, Outputs

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_client_in_python_gets_a_verdict(tmp_path, capsys):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    outputs = Outputs(logits=3 * np.eye(3)[labels] + rng.normal(size=(400, 3)), labels=labels)
    Guard("energy").calibrate(outputs).save(tmp_path / "guard")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with serving(tmp_path / "guard", tmp_path / "audit.sqlite") as service:
        exec(block.replace("127.0.0.1:8080", service.address.removeprefix("http://")), {})
    assert re.fullmatch(r"\[b?'accept'\] \[0\.\d+\]\n", capsys.readouterr().out)
