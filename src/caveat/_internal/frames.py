"""Rows as a pandas table, where pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from caveat.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd


def to_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per mapping, columns in the order of the first."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("a pandas table", extra="stats") from None
    return pd.DataFrame(list(rows))
