"""Warnings as notes: kept for the record of what they belong to, and still shown."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from caveat.errors import CaveatWarning

__all__ = ["kept_warnings"]


@contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """The sentences of the warnings of Caveat within, each once; all warnings are issued when it ends.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with kept_warnings() as notes:
    ...         warnings.warn("Two rows are equal.", CaveatWarning)
    >>> notes
    ['Two rows are equal.']
    """
    notes: list[str] = []
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CaveatWarning)
            yield notes
    finally:
        own = [str(w.message) for w in caught if issubclass(w.category, CaveatWarning)]
        notes += dict.fromkeys(own)
        for w in caught:
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno, source=w.source)
