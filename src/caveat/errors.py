"""What goes wrong, by name. Every message says what must hold, what came, and the remedy."""

from __future__ import annotations

__all__ = [
    "CaveatError",
    "CaveatWarning",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "StoreError",
    "TrainingError",
]


class CaveatError(Exception):
    """Base of every error that Caveat raises on purpose.

    Examples
    --------
    >>> from caveat.conformal import quantile
    >>> try:
    ...     quantile([1.0, 2.0], alpha=1.5)
    ... except CaveatError as error:
    ...     print(error)
    alpha must be strictly between 0 and 1, got 1.5.
    """


class InputError(CaveatError, ValueError):
    """A value, an array or a file is not what the call needs.

    Examples
    --------
    >>> from caveat.conformal import quantile
    >>> quantile([1.0, 2.0], alpha=1.5)
    Traceback (most recent call last):
    caveat.errors.InputError: alpha must be strictly between 0 and 1, got 1.5.
    """


class NotFittedError(CaveatError, AttributeError):
    """Something was asked to score or predict before it saw the data it learns from.

    Examples
    --------
    >>> from caveat import Outputs
    >>> from caveat.scores import KNN
    >>> KNN().score(Outputs(features=[[1.0, 0.0]]))
    Traceback (most recent call last):
    caveat.errors.NotFittedError: KNN has not seen training data. Call fit(train) before score(...).
    """


class TrainingError(CaveatError, ArithmeticError):
    """Training cannot go on: the loss is no longer a number.

    Examples
    --------
    >>> raise TrainingError("the loss is NaN in epoch 3.")
    Traceback (most recent call last):
    caveat.errors.TrainingError: the loss is NaN in epoch 3.
    """


class MissingExtraError(CaveatError, ImportError):
    """A feature needs a package that the core does not install.

    Parameters
    ----------
    feature
        What needs the package.
    extra
        Name of the extra that installs it.

    Examples
    --------
    >>> raise MissingExtraError("nn.extract", extra="torch")
    Traceback (most recent call last):
    caveat.errors.MissingExtraError: nn.extract needs the extra 'torch'. Install it with: pip install 'caveat[torch]'.
    """

    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(f"{feature} needs the extra '{extra}'. Install it with: pip install 'caveat[{extra}]'.")


class StoreError(CaveatError, OSError):
    """The folder of a study or an audit trail cannot be written: a full disk, a read-only folder, a lost connection.

    Examples
    --------
    >>> issubclass(StoreError, OSError)
    True
    """


class CaveatWarning(UserWarning):
    """A result is right but weaker than it looks; the sentence says why.

    Examples
    --------
    >>> import warnings
    >>> from caveat.conformal import quantile
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     quantile([1.0, 2.0], alpha=0.1)
    inf
    >>> caught[0].category is CaveatWarning
    True
    """
