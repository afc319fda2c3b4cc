"""Small tables that come with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_known

__all__ = ["TABLES", "Table", "table"]

TABLES = {
    "breast_cancer": "Wisconsin diagnostic breast cancer, UCI 1993",
    "iris": "Iris flowers, Fisher 1936",
    "wine": "Wine cultivars, UCI 1991",
}


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers with their classes.

    Parameters
    ----------
    rows
        Shape (n, d).
    labels
        Classes 0, 1, ..., shape (n,).
    columns
        Names of the d columns.
    classes
        Names of the classes.

    Examples
    --------
    >>> iris = table("iris")
    >>> len(iris), iris.classes
    (150, ('setosa', 'versicolor', 'virginica'))
    """

    rows: NDArray[np.float64]
    labels: NDArray[np.intp]
    columns: tuple[str, ...]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.labels.size)


def table(name: str) -> Table:
    """A small table by name: ``"breast_cancer"``, ``"iris"`` or ``"wine"``.

    Parameters
    ----------
    name
        Name of the table.

    Returns
    -------
    Table
        ``rows``, ``labels``, ``columns`` and ``classes``.

    Examples
    --------
    >>> wine = table("wine")
    >>> wine.rows.shape, wine.columns[0]
    ((178, 13), 'alcohol')
    """
    check_known(name, TABLES, "table")
    from sklearn import datasets

    loaded: Any = getattr(datasets, f"load_{name}")()
    return Table(
        np.asarray(loaded.data, dtype=np.float64),
        loaded.target.astype(np.intp),
        tuple(map(str, loaded.feature_names)),
        tuple(map(str, loaded.target_names)),
    )
