"""The page on security states the limits and headers that the service has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from caveat.cli.serve import serve
from caveat.serve.gate import OPEN, SECURITY_HEADERS
from caveat.serve.keys import ADMIN_VARIABLE, KEY_VARIABLE, LABELS_VARIABLE
from caveat.serve.protocol import _SPARE
from caveat.serve.settings import Limits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_table_of_limits_has_the_defaults_of_the_command():
    rows = re.findall(r"^\|[^|]+\| `--([\w-]+)` \| (\d+) \|", PAGE, flags=re.MULTILINE)
    defaults = {name: parameter.default for name, parameter in inspect.signature(serve).parameters.items()}
    assert len(rows) == 9
    for option, default in rows:
        assert defaults[option.replace("-", "_")] == float(default), option
    assert f"on {_SPARE} more" in PAGE


def test_the_defaults_of_the_command_are_those_of_the_library():
    defaults = {name: parameter.default for name, parameter in inspect.signature(serve).parameters.items()}
    limits = Limits()
    for name in ("rows", "connections", "body_seconds", "header_seconds", "answer_seconds"):
        assert defaults[name] == getattr(limits, name)
    for option, name in (("body_mb", "body_bytes"), ("json_mb", "json_bytes"), ("bodies_mb", "reading_bytes")):
        assert defaults[option] * 2**20 == getattr(limits, name)


def test_every_kind_of_key_is_on_the_page_with_its_option_and_variable():
    options = inspect.signature(serve).parameters
    kinds = {"key_file": KEY_VARIABLE, "labels_key_file": LABELS_VARIABLE, "admin_key_file": ADMIN_VARIABLE}
    for name, variable in kinds.items():
        assert name in options
        assert f"| `--{name.replace('_', '-')}` | `{variable}` |" in PAGE


def test_every_security_header_is_on_the_page():
    text = PAGE.lower()
    for name, value in SECURITY_HEADERS:
        assert name.decode() in text
        assert value.decode().split(";")[0] in text
    for path in ("/healthz", "/readyz"):
        assert path in OPEN
        assert path in PAGE
