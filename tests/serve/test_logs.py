"""Log lines: nothing in a message can begin a line of its own."""

from __future__ import annotations

import json
import logging
import sys

from hypothesis import given
from hypothesis import strategies as st

from caveat.serve.logs import JsonLines, TextLines, set_up_logs


def record(text, *args, error=None):
    return logging.LogRecord("caveat.serve", logging.ERROR, "", 0, text, args or None, error)


def caught(text):
    try:
        raise ValueError(text)
    except ValueError:
        return sys.exc_info()


@given(st.text())
def test_a_message_is_one_line(text):
    assert len(TextLines().format(record("%s", text)).splitlines()) == 1
    assert json.loads(JsonLines().format(record("%s", text.encode("utf-8", "ignore").decode())))["level"] == "ERROR"


@given(st.text())
def test_a_traceback_cannot_forge_a_line(text):
    first, *rest = TextLines().format(record("failed", error=caught(text))).split("\n")
    assert first.endswith("ERROR failed")
    assert any("ValueError" in line for line in rest)
    assert all(line.startswith("  ") for line in rest)


def test_json_has_the_facts_and_the_traceback():
    line = JsonLines().format(record("%(method)s %(status)d", {"method": "GET", "status": 200}, error=caught("a\nb")))
    content = json.loads(line)
    assert (content["message"], content["method"], content["status"]) == ("GET 200", "GET", 200)
    assert "ValueError: a\nb" in content["traceback"]
    assert "\n" not in line


def test_only_problems_are_logged_unless_requests_are_asked_for(capsys):
    root, service, server = (logging.getLogger(name) for name in ("", "caveat.serve", "uvicorn.error"))
    before = (root.handlers[:], [logger.level for logger in (root, service, server)])
    try:
        for verbose in (False, True):
            set_up_logs(verbose=verbose)
            service.info("asked")
            server.warning("Invalid HTTP request received.")
            server.error("broken")
            lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
            assert lines == ["INFO asked"] * verbose + ["ERROR broken"]
    finally:
        root.handlers[:] = before[0]
        for logger, level in zip((root, service, server), before[1], strict=True):
            logger.setLevel(level)
