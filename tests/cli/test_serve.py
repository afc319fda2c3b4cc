"""``caveat serve``: options, warnings and exit codes."""

from __future__ import annotations

import os
import socket

import pytest
from tests.serve.conftest import draw, serving

from caveat import Guard
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


def test_beyond_this_machine_a_missing_key_is_warned_about(folder, tmp_path):
    with serving(folder, tmp_path / "audit.sqlite", "--host", "0.0.0.0") as service:
        assert "Anybody who reaches this address" in service.printed
        address = service.address.replace("0.0.0.0", "127.0.0.1")
        assert service.client.get(f"{address}/v1/guard", headers={"Host": "any.example"}).status_code == 200
