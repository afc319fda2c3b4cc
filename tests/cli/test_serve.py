"""``caveat serve``: options, warnings and exit codes."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest
from tests.serve.conftest import draw, serving

from caveat import Guard, Head, Outputs
from caveat.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("guard") / "guard"
    Guard("energy", sets=None).calibrate(draw(300, seed=1), date="2026-11-18").save(path)
    return path


@pytest.fixture(autouse=True)
def _log(monkeypatch):
    """The command sets up the log of the process; this process is that of the tests."""
    monkeypatch.setattr("caveat.serve.logs.set_up_logs", lambda **_: None)


def fails(capsys, *args):
    """The sentence with which ``caveat serve`` ends, with exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        main(["serve", *map(str, args)])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_no_option_takes_a_key(capsys):
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    text = capsys.readouterr().out
    assert "--key-file" in text
    assert "--key " not in text


def test_a_port_in_use_is_said_before_anything_is_written(folder, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert "in use" in fails(capsys, folder, "--port", port, "--audit", tmp_path / "audit.sqlite")
    assert os.listdir(tmp_path) == []


def test_bad_settings_are_one_sentence(folder, tmp_path, capsys, monkeypatch):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef")
    key.chmod(0o644)
    assert "chmod 600" in fails(capsys, folder, "--key-file", key)
    monkeypatch.setenv("CAVEAT_SERVE_KEY", "short")
    assert "the key must have" in fails(capsys, folder, "--port", 0)
    monkeypatch.delenv("CAVEAT_SERVE_KEY")
    assert "not a folder with a saved guard" in fails(capsys, tmp_path / "nothing")
    assert "cannot be used" in fails(capsys, folder, "--host", "192.0.2.1", "--audit", tmp_path / "a.sqlite")
    assert "Traceback" not in fails(capsys, folder, "--port", 0, "--audit", key)


def test_a_guard_whose_score_reads_the_head_does_not_start_without_it(tmp_path, capsys):
    rng = np.random.default_rng(0)
    head, features = Head(rng.normal(size=(3, 5)), np.zeros(3)), rng.normal(size=(300, 5))
    rows = Outputs(features=features, head=head, labels=rng.integers(3, size=300))
    Guard("ash", sets=None).calibrate(rows, date="2026-11-18").save(tmp_path / "guard")
    rows.save(tmp_path / "rows.npz")
    audit = tmp_path / "audit.sqlite"
    message = fails(capsys, tmp_path / "guard", "--port", 0, "--audit", audit)
    assert "ash" in message
    assert "--head FILE" in message
    assert not audit.exists()
    with serving(tmp_path / "guard", audit, "--head", str(tmp_path / "rows.npz")) as service:
        answer = service.client.post(f"{service.address}/v1/verdicts", json={"features": features[:3].tolist()})
    assert answer.status_code == 200
    capsys.readouterr()


def test_a_guard_whose_score_reads_the_head_is_exported_with_it(tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    head = Head(rng.normal(size=(3, 5)), np.zeros(3))
    rows = Outputs(features=rng.normal(size=(300, 5)), head=head, labels=rng.integers(3, size=300))
    Guard("scale", sets=None).calibrate(rows, date="2026-11-18").save(tmp_path / "guard")
    rows.save(tmp_path / "rows.npz")
    for options, code in (([], 2), (["--head", str(tmp_path / "rows.npz")], 0)):
        with pytest.raises(SystemExit) as stopped:
            main(["guard", "export", str(tmp_path / "guard"), str(tmp_path / "g.onnx"), *options])
        assert (stopped.value.code or 0, (tmp_path / "g.onnx").exists()) == (code, code == 0)
        assert code == 0 or "--head FILE" in capsys.readouterr().err


def test_beyond_this_machine_a_missing_key_is_warned_about(folder, tmp_path):
    with serving(folder, tmp_path / "audit.sqlite", "--host", "0.0.0.0") as service:
        assert "Anybody who reaches this address" in service.printed
        address = service.address.replace("0.0.0.0", "127.0.0.1")
        assert service.client.get(f"{address}/v1/guard", headers={"Host": "any.example"}).status_code == 200
