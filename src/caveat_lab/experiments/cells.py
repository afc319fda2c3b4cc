"""A cell: the smallest piece of a study that is computed, stored and looked up on its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from caveat import __version__

__all__ = ["FORMAT", "Cell", "canonical_json"]

FORMAT = 4  # of the stored tables; a change of their meaning computes every cell again


def canonical_json(content: Any) -> str:
    """One text for equal content: sorted keys, no spaces, no NaN.

    >>> canonical_json({"b": 1, "a": [True, "x"]})
    '{"a":[true,"x"],"b":1}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@final
@dataclass(frozen=True, eq=False)
class Cell:
    """What is to be computed, and everything that the answer depends on.

    Parameters
    ----------
    task
        ``score``, ``sets``, ``collapse``, ``proximity`` or ``outputs`` of a score study, or the function of a task
        study, ``file.py:name`` or ``module:name``.
    params
        What the task is told: plain JSON values.
    seed
        Seeds everything random in the cell.
    fingerprints
        Name -> SHA-256 of each file it reads: data, and the Python file of the task.
    paths
        Name -> where that file is now. Not part of the key: data may be moved.
    label
        A short name for a person to read. Not part of the key.
    needs
        Key of the cell that makes the outputs this one reads, or empty.
    version, format
        Of Caveat and of the stored tables.

    Examples
    --------
    >>> one, other = Cell("run.py:one", {"k": 1}), Cell("run.py:one", {"k": 2})
    >>> len(one.key), one.key == Cell("run.py:one", {"k": 1}, label="renamed").key, one.key == other.key
    (32, True, False)
    """

    task: str
    params: Mapping[str, Any]
    seed: int = 0
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    needs: str = ""
    version: str = __version__
    format: int = FORMAT

    @cached_property
    def key(self) -> str:
        """32 hexadecimal digits of the SHA-256 of everything the answer depends on."""
        return hashlib.sha256(canonical_json(self.identity()).encode()).hexdigest()[:32]

    def identity(self) -> dict[str, Any]:
        """What the key is made from."""
        return {
            "task": self.task, "params": dict(self.params), "seed": self.seed,
            "fingerprints": dict(self.fingerprints), "needs": self.needs,
            "version": self.version, "format": self.format,
        }  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The cell as plain JSON values, with its key and label."""
        return {"key": self.key, "label": self.label} | self.identity()
