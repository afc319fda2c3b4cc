"""Log lines: one record, one line, as text or as JSON; nothing that a client sends can begin a line of its own."""

from __future__ import annotations

import datetime
import logging
import re
import sys
from typing import Any, final

import orjson

__all__ = ["JsonLines", "TextLines", "set_up_logs"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def set_up_logs(*, verbose: bool = False, as_json: bool = False) -> None:
    """Log to standard error: problems of the service, and with ``verbose`` every request, never its content."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("caveat.serve").setLevel(logging.INFO if verbose else logging.WARNING)
    # of the server only what goes wrong inside: a line per malformed request would let anybody fill the disk
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


@final
class TextLines(logging.Formatter):
    """Time and message; the lines of a traceback are indented.

    >>> record = logging.makeLogRecord({"msg": "first\\nsecond", "created": 0.0, "levelname": "INFO"})
    >>> TextLines().format(record)
    '1970-01-01T00:00:00.000Z INFO first\\\\x0asecond'
    """

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {_plain(record.getMessage())}"
        if record.exc_info:
            lines = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n  {_plain(part)}" for part in lines)
        return line


@final
class JsonLines(logging.Formatter):
    """One JSON object a line, with the facts of a request as fields.

    >>> JsonLines().format(logging.makeLogRecord({"msg": "stopped", "created": 0.0, "levelname": "INFO"}))
    '{"at":"1970-01-01T00:00:00.000Z","level":"INFO","message":"stopped"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {"at": _time(record), "level": record.levelname, "message": record.getMessage()}
        if isinstance(record.args, dict):
            fields |= record.args
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(fields, default=str).decode()


def _time(record: logging.LogRecord) -> str:
    at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(text: str) -> str:
    """Text with control characters written out."""
    return _CONTROL.sub(lambda sign: f"\\x{ord(sign[0]):02x}", text)
