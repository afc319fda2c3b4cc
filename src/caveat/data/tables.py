"""Data that come with scikit-learn: small tables, and 1,797 handwritten digits of 8 x 8 pixels.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_known
from caveat.data.images import Images

__all__ = ["TABLES", "Table", "digits", "table"]

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


def digits() -> Images:
    """The ten digits, in the order of the file, with float64 values from 0 to 1.

    Returns
    -------
    Images
        1797 grey images of 8 x 8 pixels, in the order of the file.

    Examples
    --------
    >>> images = digits()
    >>> images.pixels.shape, images.labels[:5]
    ((1797, 8, 8), array([0, 1, 2, 3, 4]))
    """
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return Images(loaded.images / 16.0, loaded.target.astype(np.intp), tuple("0123456789"))
