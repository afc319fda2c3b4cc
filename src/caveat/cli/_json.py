"""JSON for machines, as commands write it."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(content: Any) -> str:
    """Indented JSON that every reader takes: a number that is not finite becomes null.

    >>> print(json_text({"threshold": math.inf, "n": (1, 2)}), end="")
    {
      "threshold": null,
      "n": [
        1,
        2
      ]
    }
    """
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
