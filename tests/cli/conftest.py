"""The command line as a user runs it: same entry point, exit code and streams."""

from __future__ import annotations

import pytest

from caveat import Outputs
from caveat.cli import main


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args):
        with pytest.raises(SystemExit) as stop:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return call


@pytest.fixture
def files(tmp_path, train, inlier, outlier):
    for name, outputs in {"train": train, "test": inlier, "far": outlier}.items():
        Outputs(
            logits=outputs.logits, features=outputs.features, head=outputs.head,
            labels=None if name == "far" else outputs.labels,
        ).save(tmp_path / f"{name}.npz")  # fmt: skip
    return tmp_path
