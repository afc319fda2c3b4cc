"""One rule for data that come in several roles (train, calibration, inlier, outlier): no rows in two of them.

The same rows in the same order, or more than half of the smaller set's rows, in two roles is an error. Fewer are a
warning with their number, because real data have duplicates.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat.errors import CaveatWarning, InputError
from caveat.outputs import Outputs

__all__ = ["SharedRows", "check_roles", "shared_rows"]

Keys = NDArray[np.uint64]
KeptKeys = dict[tuple[int, str, str], tuple[Keys, Keys]]  # by identity of the set, field and float type

# Fields that identify a row, by group; the first group that two sets have in common decides. Labels say too little,
# and stochastic passes differ between two passes over the same input.
_IDENTITY = (
    ("features", "embeddings", "logits", "probs"), ("layers",), ("confidence", "predictions"),
    ("mc_logits", "ease_probs"),
)  # fmt: skip
_GLANCE = 32  # columns of the narrowest field that are compared first; only rows that agree there are read whole


@final
@dataclass(frozen=True)
class SharedRows:
    """How many rows of the smaller of two sets the other one holds too.

    Parameters
    ----------
    count
        Rows with a value that the other set holds, without values that both sets repeat: those identify no sample,
        as with the answer 1, 0, 0 of an overconfident network.
    certain
        Those whose value stands once in each set. A forest of 100 trees has 101 binary answers, and every one of them
        is in a large training set.
    n
        Rows of the smaller set.
    same
        Whether the sets are the same rows in the same order.
    fields
        What was compared.
    """

    count: int
    certain: int
    n: int
    same: bool
    fields: tuple[str, ...]


def check_roles(
    roles: Mapping[str, Outputs | None],
    outliers: Mapping[str, Outputs] | None = None,
    confirm: Mapping[str, Outputs] | None = None,
    *,
    warn: bool = True,
) -> None:
    """Raise InputError where two roles are the same rows or share more than half of them; warn where they share fewer.

    Outlier sets are compared with the other roles, not with each other: they have one role. So have the sets of
    ``confirm``; outliers that chose the score confirm nothing.

    Examples
    --------
    >>> said = Outputs(logits=np.random.default_rng(0).normal(size=(9, 3)))
    >>> check_roles({"calibration": said[:4], "inlier": said[4:]})
    >>> check_roles({"calibration": said[:6], "inlier": said[1:]})
    Traceback (most recent call last):
    caveat.errors.InputError: calibration and inlier share 5 of 6 rows (equal logits). Give each role data of its own.
    """
    own = {name: outputs for name, outputs in roles.items() if outputs is not None and outputs.n}
    others = {f"outlier set '{name}'": outputs for name, outputs in (outliers or {}).items() if outputs.n}
    confirming = {f"confirm set '{name}'": outputs for name, outputs in (confirm or {}).items() if outputs.n}
    pairs = [*itertools.combinations(own, 2), *itertools.product(own, others | confirming),
             *itertools.product(others, confirming)]  # fmt: skip
    sets, keys = own | others | confirming, KeptKeys()
    for first, second in pairs:
        shared = shared_rows(sets[first], sets[second], keys)
        if not shared.count and not shared.same:
            continue
        equal = f"(equal {' and '.join(shared.fields)})"
        if shared.same or shared.certain > shared.n / 2:
            how = "are the same" if shared.same else f"share {shared.count} of"
            raise InputError(f"{first} and {second} {how} {shared.n} rows {equal}. Give each role data of its own.")
        if warn and not set(shared.fields) <= {"confidence", "predictions"}:  # rounded, it is the same for many samples
            warnings.warn(f"{first} and {second} share {shared.count} of {shared.n} rows {equal}. Remove them from one "
                          "of the two, unless they are different samples.", CaveatWarning, stacklevel=3)  # fmt: skip


def shared_rows(first: Outputs, second: Outputs, keys: KeptKeys | None = None) -> SharedRows:
    """How many rows of the smaller set the other one holds too, by the fields that both have.

    Numbers are compared in the narrower of the two float types, so that a copy in half precision is found. Arrays are
    read in row blocks, and whole rows only where the first look found equal ones.

    Examples
    --------
    >>> said = Outputs(logits=np.random.default_rng(0).normal(size=(9, 3)))
    >>> shared_rows(said[:6], said[4:]).count
    2
    """
    keys = {} if keys is None else keys
    small, large = sorted((first, second), key=len)
    fields = _common_fields(small, large)
    if not fields:
        return SharedRows(0, 0, small.n, False, ())
    glance = min(fields, key=lambda name: _width(_array(small, name)))
    types = [
        min(_array(small, name).dtype, _array(large, name).dtype, key=lambda kind: kind.itemsize) for name in fields
    ]
    looks = [_first_look(outputs, glance, types[fields.index(glance)], keys) for outputs in (small, large)]
    names = tuple(dict.fromkeys("layers" if name.startswith("layer.") else name for name in fields))
    (few, few_ascending), (many, many_ascending) = looks
    place = np.searchsorted(many_ascending, few_ascending).clip(max=large.n - 1)
    if not (many_ascending[place] == few_ascending).any():  # as good as always
        return SharedRows(0, 0, small.n, False, names)
    alike = [np.flatnonzero(np.isin(look, other)) for look, other in ((few, many), (many, few))]
    whole = [_row_keys(outputs, fields, types, rows) for outputs, rows in zip((small, large), alike, strict=True)]
    same = alike[0].size == small.n == large.n == alike[1].size and bool((whole[0] == whole[1]).all())
    return SharedRows(*_counts(*whole), small.n, same, names)


def _first_look(outputs: Outputs, field: str, dtype: np.dtype[Any], kept: KeptKeys) -> tuple[Keys, Keys]:
    """Keys from a few columns of each row, by row and ascending, once for a set that is compared several times."""
    what = (id(outputs), field, dtype.str)
    if what not in kept:
        keys = _row_keys(outputs, [field], [dtype], None, most=_GLANCE)
        kept[what] = keys, np.sort(keys)
    return kept[what]


def _counts(small: Keys, large: Keys) -> tuple[int, int]:
    values, counts = np.unique(small, return_counts=True)
    other_values, other_counts = np.unique(large, return_counts=True)
    _, at, other_at = np.intersect1d(values, other_values, assume_unique=True, return_indices=True)
    mine, theirs = counts[at], other_counts[other_at]
    return int(mine[(mine == 1) | (theirs == 1)].sum()), int(((mine == 1) & (theirs == 1)).sum())


def _common_fields(first: Outputs, second: Outputs) -> list[str]:
    """Fields that both sets store in one shape per row, from the first group that identifies a row."""
    shapes = [{name: shape for name, (shape, _) in outputs.stored().items()} for outputs in (first, second)]
    for group in _IDENTITY:
        names = [name for name in shapes[0] if name in group or ("layers" in group and name.startswith("layer."))]
        both = [name for name in names if name in shapes[1]]
        if fields := [name for name in both if _array(first, name).shape[1:] == _array(second, name).shape[1:]]:
            return fields
    return []


def _array(outputs: Outputs, field: str) -> NDArray[Any]:
    """A stored field with samples as its first axis: a view."""
    if field.startswith("layer."):
        return outputs.layers[field.removeprefix("layer.")]
    array: NDArray[Any] = getattr(outputs, field)
    return array.swapaxes(0, 1) if field in ("mc_logits", "ease_probs") else array


def _width(array: NDArray[Any]) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64))


def _row_keys(
    outputs: Outputs,
    fields: Sequence[str],
    types: Sequence[np.dtype[Any]],
    rows: NDArray[np.intp] | None,
    *,
    most: int | None = None,
) -> Keys:
    """A 64-bit key of each of the chosen rows (default all): a sum of the bits of its numbers times random odd numbers.

    Two different rows share a key with a probability near 2**-64.
    """
    n = outputs.n if rows is None else rows.size
    keys = np.zeros(n, dtype=np.uint64)
    rng = np.random.default_rng(0)
    for field, dtype in zip(fields, types, strict=True):
        array = _array(outputs, field)
        step = 1 if most is None else -(-_width(array) // most)
        factors = rng.integers(2**64, size=-(-_width(array) // step), dtype=np.uint64) | np.uint64(1)
        for block in row_blocks(n, row_bytes=8 * factors.size + array.itemsize * _width(array)):
            part = array[block if rows is None else rows[block]]
            with np.errstate(over="ignore"):  # too large for the narrower type: infinite in both
                narrow = part.reshape(part.shape[0], -1)[:, ::step].astype(dtype)
            bits = np.ascontiguousarray(narrow + 0.0, dtype=np.float64).view(np.uint64)  # -0.0 counts as 0.0
            bits ^= bits >> np.uint64(42)  # a narrow float leaves the low bits empty
            keys[block] += bits @ factors
    return keys
