"""Resampling without sorting again: a resample only changes how often each (score, right or wrong) cell occurs.

The scores are sorted once into groups of ties; each resample is a count of cells, and an area is a cumulative sum over
the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**18  # cells held at a time: 2 MiB, so that the passes over them stay in cache

Counts = NDArray[Any]
Area = Callable[[Counts, Counts], NDArray[np.float64]]
"""From counts of right and wrong answers, each (resamples, groups), least strange first, to one area per resample."""


@final
class Cells:
    """Samples numbered by their cell: group of tied scores, right or wrong."""

    def __init__(self, values: NDArray[np.float64], right: NDArray[np.bool_]) -> None:
        levels, group = np.unique(values, return_inverse=True)
        self.groups = levels.size
        self.of_sample: NDArray[np.intp] = group + np.where(right, 0, self.groups)

    def split(self, counts: Counts) -> tuple[Counts, Counts]:
        """Counts of right and of wrong answers by group."""
        return counts[:, : self.groups], counts[:, self.groups :]


def resample(
    cells: Sequence[Cells],
    areas: Sequence[Area],
    *,
    resamples: int,
    rng: np.random.Generator,
    strata: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Areas (resamples, scores, areas) of bootstrap resamples; all scores and areas see the same resamples.

    The scores are of the same samples; each may have its own right and wrong answers. With ``strata`` the two sides of
    the mask are resampled apart, so that their sizes stay.
    """
    n = cells[0].of_sample.size
    sides = [] if strata is None else [np.flatnonzero(strata), np.flatnonzero(~strata)]

    def draw() -> NDArray[np.intp]:
        if strata is None:
            return rng.integers(n, size=n)
        return np.concatenate([side[rng.integers(side.size, size=side.size)] for side in sides if side.size])

    drawn = np.empty((resamples, len(cells), len(areas)))
    for block, counts in _counted(cells, draw, resamples):
        for i, (cell, count) in enumerate(zip(cells, counts, strict=True)):
            split = cell.split(count)
            for j, area in enumerate(areas):
                drawn[block, i, j] = area(*split)
    return drawn


def area_of(cell: Cells, area: Area) -> float:
    """The area of the samples themselves."""
    return float(area(*cell.split(np.bincount(cell.of_sample, minlength=2 * cell.groups)[None]))[0])


def _counted(
    cells: Sequence[Cells], draw: Callable[[], NDArray[np.intp]], resamples: int
) -> Iterator[tuple[slice, list[Counts]]]:
    widths = [2 * cell.groups for cell in cells]
    step = max(1, min(resamples, _BLOCK // max(widths)))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        counts = [np.empty((stop - start, width), dtype=np.intp) for width in widths]
        for row in range(stop - start):
            chosen = draw()
            for cell, width, count in zip(cells, widths, counts, strict=True):
                count[row] = np.bincount(cell.of_sample[chosen], minlength=width)
        yield slice(start, stop), counts


def _augrc(right: Counts, wrong: Counts) -> NDArray[np.float64]:
    accepted = right + wrong
    risk = np.cumsum(wrong, axis=1) * 2 - wrong  # twice the mean of the risk before and after the group
    n = accepted[0].sum()
    return np.asarray(np.einsum("ij,ij->i", risk, accepted) / (2 * n**2))


def _aurc(right: Counts, wrong: Counts) -> NDArray[np.float64]:
    width = right + wrong
    accepted = np.cumsum(width, axis=1)
    risk = np.cumsum(wrong, axis=1) / np.maximum(accepted, 1)
    before = np.empty_like(risk)
    before[:, 1:] = risk[:, :-1]
    before[:, 0] = 0
    # Until the first accepted group there is no risk to start from: the first one is held.
    first = np.argmax(width > 0, axis=1)
    rows = np.arange(len(first))
    before[rows, first] = risk[rows, first]
    return np.asarray(np.einsum("ij,ij->i", risk + before, width) / (2 * accepted[:, -1]))


def _auroc(right: Counts, wrong: Counts) -> NDArray[np.float64]:
    """AUROC of wrong against right answers; NaN where a resample has only one kind."""
    below = np.cumsum(right, axis=1) * 2 - right
    pairs = 2.0 * right.sum(axis=1) * wrong.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.einsum("ij,ij->i", below, wrong) / pairs)


AREAS: dict[str, Area] = {"augrc": _augrc, "aurc": _aurc, "auroc": _auroc}
