"""Near, mid, far: data sets grouped by how far they lie from the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count, as_kind, as_list, check_same
from caveat.errors import InputError
from caveat_lab.geometry.proximity import Proximity

__all__ = ["buckets"]


def buckets(
    table: Mapping[str, Proximity | Mapping[str, float] | Sequence[float]],
    *,
    names: Sequence[str] = ("near", "mid", "far"),
    seed: int = 0,
) -> dict[str, str]:
    """Group data sets by their distances: z-scores, KMeans with a fixed seed, groups ordered by mean distance.

    Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", appendix B. The groups
    are relative: "near" is near among these data sets. A distance that is the same for all of them says nothing and
    counts as 0; one that is missing for any of them is left out for all.

    Parameters
    ----------
    table
        Name of a data set -> its :class:`Proximity`, or its distances by name or in a fixed order; lower is closer.
    names
        Names of the groups, from closest to furthest.
    seed
        Seed of KMeans.

    Returns
    -------
    dict
        Data set -> name of its group.

    Examples
    --------
    >>> buckets({"cifar100": [0.16, 0.81], "svhn": [0.70, 0.86], "lsun": [0.72, 0.84], "places": [1.5, 1.15]})
    {'cifar100': 'near', 'svhn': 'mid', 'lsun': 'mid', 'places': 'far'}
    """
    from sklearn.cluster import KMeans

    sets, names = as_list(as_kind(table, Mapping, "table"), "table"), [str(name) for name in as_list(names, "names")]
    distances = _distances(table)
    spread = distances.std(axis=0)
    z = (distances - distances.mean(axis=0)) / np.where(spread > 0, spread, 1)
    if (different := len(np.unique(z, axis=0))) < len(names):
        raise InputError(f"{len(names)} buckets need at least as many different data sets, got {different}.")
    seed = as_count(seed, "seed", least=0, most=2**32 - 1)
    group = KMeans(n_clusters=len(names), n_init=20, random_state=seed).fit_predict(z)
    order = np.argsort([z[group == g].mean() for g in range(len(names))])
    called = {int(g): names[place] for place, g in enumerate(order)}
    return {name: called[int(g)] for name, g in zip(sets, group, strict=True)}


def _distances(table: Mapping[str, Any]) -> NDArray[np.float64]:
    rows = []
    first = next(iter(table.values()))
    for name, entry in table.items():
        row = entry
        if isinstance(entry, Proximity):
            row = [entry.frechet, entry.mmd, entry.centroid, entry.text]
        elif isinstance(entry, Mapping):
            if set(entry) != set(first):
                raise InputError(f"every data set must have the same distances, but '{name}' has {sorted(entry)}.")
            row = [entry[key] for key in first]
        try:
            rows.append([np.nan if value is None else float(value) for value in row])
        except (TypeError, ValueError):
            raise InputError(f"every data set must have a list of distances, but '{name}' has {entry!r}.") from None
    check_same("number of distances", **{str(name): len(row) for name, row in zip(table, rows, strict=True)})
    array = np.asarray(rows)
    array = array[:, ~np.isnan(array).any(axis=0)]
    if array.size == 0 or not np.isfinite(array).all():
        raise InputError("table must have at least one distance that is finite for every data set.")
    return array
