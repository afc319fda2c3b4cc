"""Which software made a number."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from types import MappingProxyType

from caveat import __version__

__all__ = ["versions"]


@cache
def versions() -> Mapping[str, str]:
    """Name -> version of Caveat, Python and the packages that do the arithmetic.

    >>> list(versions())
    ['caveat', 'python', 'numpy', 'scipy', 'scikit-learn']
    """
    found = {"caveat": __version__, "python": platform.python_version()}
    return MappingProxyType(found | {name: version(name) for name in ("numpy", "scipy", "scikit-learn")})
