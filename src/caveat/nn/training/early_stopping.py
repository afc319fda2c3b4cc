"""Stop when the validation set no longer gets better, and go back to the best epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from caveat._internal.params import check_params, choice, count, number

__all__ = ["MONITORS", "EarlyStopping"]

MONITORS = {"loss": 1, "augrc": 1, "accuracy": -1}  # sign: 1 where lower is better


@final
@dataclass(frozen=True)
class EarlyStopping:
    """Ends a phase after ``patience`` epochs without a better value, and restores the weights of the best one.

    Parameters
    ----------
    monitor
        Of the validation set: ``"loss"`` (cross-entropy), ``"augrc"`` (of the network's own confidence where it has
        one, else of its largest probability) or ``"accuracy"``.
    patience
        Epochs to wait for a better value.
    least
        By how much a value must be better to count.

    Examples
    --------
    >>> EarlyStopping("augrc", patience=3).better(0.04, than=0.05)
    True
    """

    monitor: str = choice("loss", MONITORS)
    patience: int = count(5)
    least: float = number(0.0, least=0)

    def __post_init__(self) -> None:
        check_params(self)

    def better(self, value: float, *, than: float | None, monitor: str | None = None) -> bool:
        """Whether ``value`` beats the best so far; anything beats None."""
        if than is None:
            return True
        sign = MONITORS[monitor or self.monitor]
        return sign * (than - value) > self.least
