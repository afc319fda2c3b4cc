"""The client in Python on docs/serving.md asks a running service and gets its verdict."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("tritonclient.http")

from tests.serve.conftest import serving

from caveat import Guard, Outputs
from caveat.cli import main

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


def test_the_commands_that_ask_the_demos_guard_get_verdicts(tmp_path, monkeypatch):
    """The page's shell lines between Ask and Errors, as printed but for the address."""
    section = PAGE.read_text(encoding="utf-8").partition("## Ask")[2].partition("### Errors")[0]
    lines = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["python", "curl", "curl"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("caveat_lab.cli.demo.demo_certificates", lambda *_: None)  # a minute of training
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--out", "caveat-demo"])
    assert not stopped.value.code
    with serving(tmp_path / "caveat-demo" / "guard", tmp_path / "audit.sqlite") as service:
        for line in lines:
            command = line.replace("http://127.0.0.1:8080", service.address).replace(
                "python -c", f"{sys.executable} -c"
            )
            done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
            if line.startswith("curl"):
                assert json.loads(done.stdout)["verdicts"][0]["kind"] in ("accept", "abstain", "outlier"), done.stdout
