"""Which software made a number."""

from __future__ import annotations

import platform
from importlib.metadata import version

from caveat import __version__

__all__ = ["versions"]


def versions() -> dict[str, str]:
    """Name -> version of Caveat, Python and the packages that do the arithmetic."""
    found = {"caveat": __version__, "python": platform.python_version()}
    return found | {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
