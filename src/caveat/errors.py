"""What goes wrong, by name. Every message says what must hold, what came, and the remedy."""

from __future__ import annotations

__all__ = [
    "CaveatDeprecationWarning",
    "CaveatError",
    "CaveatWarning",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "StoreError",
    "TrainingError",
]


class CaveatError(Exception):
    """Base of every error that Caveat raises on purpose."""


class InputError(CaveatError, ValueError):
    """A value, an array or a file is not what the call needs."""


class NotFittedError(CaveatError, AttributeError):
    """Something was asked to score or predict before it saw the data it learns from."""


class TrainingError(CaveatError, ArithmeticError):
    """Training cannot go on: the loss is no longer a number."""


class MissingExtraError(CaveatError, ImportError):
    """A feature needs a package that the core does not install.

    Examples
    --------
    >>> raise MissingExtraError("nn.extract", extra="torch")
    Traceback (most recent call last):
    caveat.errors.MissingExtraError: nn.extract needs the extra 'torch'. Install it with: pip install 'caveat[torch]'.
    """

    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}'. Install it with: pip install 'caveat[{extra}]'.")


class StoreError(CaveatError, OSError):
    """The folder of a study or an audit trail cannot be written: a full disk, a read-only folder, a lost connection."""


class CaveatWarning(UserWarning):
    """A result is right but weaker than it looks; the sentence says why."""


class CaveatDeprecationWarning(CaveatWarning, DeprecationWarning):
    """A name still works and will be removed; the sentence says in which release, and what to use instead."""
