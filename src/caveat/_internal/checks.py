"""Every input is checked here, once, and a bad one gets one sentence: what must hold, what came, where, the remedy."""

from __future__ import annotations

import difflib
import operator
import reprlib
import sys
from collections.abc import Callable, Collection, Iterable, Sized
from fractions import Fraction
from functools import lru_cache
from typing import Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.blocks import row_blocks
from caveat.errors import InputError

PROBS_SLACK = 1e-2  # how far a row of probabilities may be from summing to one (float16 needs this much)

Rng = np.random.Generator | int  # what every function with a random step takes: a generator, or the seed of a new one

T = TypeVar("T")
_MOST_CLASSES = 2**20  # where only the labels say how many there are: a larger class number is the key of a table
_LARGEST, _SMALLEST = 1e150, 1e-150  # of a parameter: its square and its inverse are numbers too
_TELLING_ROWS = 20  # that sum to 1: fewer may be chance
_LEAST_LEVEL = 1e-300  # a tenth of a level must not vanish


def as_real_array(value: ArrayLike, name: str) -> NDArray[Any]:
    """A float array of any shape in native byte order: float16/32/64 stay, other real types become float64."""
    array = as_array(value, name)
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}.")
    if array.dtype.itemsize > 8:  # wider than any number that the library computes with
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def as_array(value: ArrayLike, name: str) -> NDArray[Any]:
    """A plain or memory-mapped array: none whose products or missing values follow rules of their own."""
    if isinstance(value, np.memmap):
        return value
    if isinstance(value, np.ndarray) and np.any(mask := getattr(value, "mask", False)):
        row = int(np.argwhere(np.atleast_1d(mask))[0][0])
        raise InputError(f"{name} has masked values, first at row {row}. Drop or impute it before scoring.")
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths; tensors that numpy cannot read
        hint = " Use Outputs.from_torch, or tensor.detach().cpu().float()." if hasattr(value, "detach") else ""
        raise InputError(f"{name} must be an array of numbers, got a {type(value).__name__} that numpy cannot read "
                         f"({str(error).rstrip('.')}).{hint}") from None  # fmt: skip


def check_finite(array: NDArray[Any], name: str, *, allow_infinite: bool = False) -> None:
    """Raise InputError naming the first row with NaN or an infinity. Reads memory-mapped arrays block by block."""
    if array.dtype.kind != "f" or array.size == 0:
        return
    rows = array.reshape(array.shape[0], -1) if array.ndim else array.reshape(1, 1)
    for block in row_blocks(rows.shape[0], row_bytes=rows.shape[1] * rows.itemsize):
        if not allow_infinite and np.isfinite(rows[block]).all():
            continue
        wrong = np.isnan(rows[block]) if allow_infinite else ~np.isfinite(rows[block])
        if wrong.any():
            row = int(np.argmax(wrong.any(axis=1)))
            what = "NaN" if np.isnan(rows[block][row][wrong[row]][0]) else "an infinite value"
            raise InputError(f"{name} has {what}, first at row {block.start + row}. Drop or impute it before scoring.")


def check_shape(array: NDArray[Any], name: str, axes: int, what: str) -> None:
    """Raise InputError for an empty array, or one with another number of axes."""
    if array.ndim != axes or array.size == 0:
        raise InputError(f"{name} must be a non-empty {what}, got shape {array.shape}.")


def check_each(array: NDArray[Any], holds: NDArray[np.bool_], name: str, what: str, *, hint: str = "") -> None:
    """Raise InputError naming the first value for which the condition does not hold, and its row.

    >>> weights = np.array([1.0, -2.0])
    >>> check_each(weights, weights >= 0, "weights", "be 0 or larger")
    Traceback (most recent call last):
    caveat.errors.InputError: weights must be 0 or larger, got -2 at row 1.
    """
    if not holds.all():
        place = np.unravel_index(int(np.argmin(holds)), holds.shape)
        value, where = np.asarray(array[place]).item(), f" at row {int(place[0])}" if place else ""
        shown = f"{value:g}" if isinstance(value, float) else reprlib.repr(value)
        raise InputError(f"{name} must {what}, got {shown}{where}.{hint and ' '}{hint}")


def check_probabilities(array: NDArray[Any], name: str) -> None:
    """Raise InputError naming the first row (along the last axis) that is not made of probabilities with sum 1."""
    rows = array.reshape(-1, array.shape[-1])
    for block in row_blocks(rows.shape[0], row_bytes=rows.shape[1] * 8):
        total, wrong = _probability_sums(rows[block])
        if wrong.any():
            row = int(np.argmax(wrong))
            what = "a negative value" if np.isnan(total[row]) else f"the sum {total[row]:.4g}"
            raise InputError(f"{name} must be rows of probabilities that sum to 1, got {what} at row "
                             f"{block.start + row}. Pass unnormalized values as logits.")  # fmt: skip


def probability_rows(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows are made of probabilities with sum 1.

    >>> probability_rows(np.array([[0.5, 0.5], [50.0, 50.0]]))
    array([ True, False])
    """
    blocks = row_blocks(array.shape[0], row_bytes=array.shape[1] * 8)
    return np.concatenate([~_probability_sums(array[block])[1] for block in blocks])


def are_probabilities(array: NDArray[Any]) -> bool:
    """Whether every row is made of probabilities with sum 1. Logits fail in the first rows, which are looked at first.

    A few rows say nothing: logits of 0.5 and 0.5 happen.

    >>> are_probabilities(np.array([[0.5, 0.5], [0.25, 0.75]] * 10)), are_probabilities(np.array([[0.5, 2.0]] * 20))
    (True, False)
    """
    rows, between = array.reshape(-1, array.shape[-1]), False
    if rows.shape[0] < _TELLING_ROWS:
        return False
    for block in (slice(0, 64), *row_blocks(rows.shape[0], row_bytes=rows.shape[1] * 8)):
        if _probability_sums(rows[block])[1].any():
            return False
        between = between or bool((rows[block] % 1).any())
    return between  # zeros and ones alone are a toy or a vote


def _probability_sums(rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The sum of each row, NaN where a value is negative, and whether it is too far from 1."""
    part = rows.astype(np.float64)
    with np.errstate(over="ignore"):
        total = np.where((part < 0).any(axis=1), np.nan, part.sum(axis=1))
    return total, ~(np.abs(total - 1) <= PROBS_SLACK)


def as_vector(value: ArrayLike, name: str, *, allow_infinite: bool = False) -> NDArray[np.float64]:
    """A non-empty float64 vector without NaN."""
    array = np.asarray(as_real_array(value, name), dtype=np.float64)
    check_shape(array, name, 1, "vector")
    check_finite(array, name, allow_infinite=allow_infinite)
    return array


def as_comparable(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """A float64 array of any shape, empty too, without NaN; infinities can be compared."""
    array = np.asarray(as_real_array(value, name), dtype=np.float64)
    check_finite(array, name, allow_infinite=True)
    return array


def as_shares(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """A float64 vector, possibly empty, with values between 0 and 1."""
    array = as_comparable(value, name)
    if array.ndim != 1:
        raise InputError(f"{name} must be a vector, got shape {array.shape}.")
    check_each(array, (array >= 0) & (array <= 1), name, "lie between 0 and 1")
    return array


def as_boundary(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """A non-empty vector 0 <= b_1 <= ... <= b_n <= 1."""
    array = as_shares(as_vector(value, name), name)
    check_each(array, np.append(True, array[1:] >= array[:-1]), name, "not decrease",
               hint="numpy.minimum.accumulate(b[::-1])[::-1] has the same violation probability.")  # fmt: skip
    return array


def as_matrix(value: ArrayLike, name: str, *, width: int | None = None, check: bool = True) -> NDArray[Any]:
    """A non-empty finite (n, m) array that keeps its float type; ``width``: how many columns training had."""
    array = as_real_array(value, name)
    check_shape(array, name, 2, "matrix (rows are samples)")
    if width is not None and array.shape[1] != width:
        raise InputError(f"{name} must have {width} columns as in training, got {array.shape[1]}.")
    if check:
        check_finite(array, name)
    return array


def as_labels(value: ArrayLike, name: str, *, n_classes: int | None = None, check: bool = True) -> NDArray[np.intp]:
    """A non-empty vector of class numbers 0..C-1."""
    array = as_array(value, name)
    check_shape(array, name, 1, "vector of class numbers")
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be whole class numbers, got dtype {array.dtype}. Encode class names as 0..C-1.")
    if check:  # before the cast, which would turn a huge number into another one
        check_finite(array, name)
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array  # float16 has no room for most counts
        check_each(array, wide == np.round(wide), name, "be whole class numbers")
        most, hint = n_classes or _MOST_CLASSES, "Outliers carry no label: leave it out."
        if n_classes is None:
            hint += " Number the classes without gaps: numpy.unique(labels, return_inverse=True)[1]."
        check_each(array, (wide >= 0) & (wide < most), name, f"be between 0 and {most - 1}", hint=hint)
    return array.astype(np.intp, copy=False)


def as_mask(value: ArrayLike, name: str) -> NDArray[np.bool_]:
    """A non-empty boolean vector; zeros and ones count as booleans."""
    array = as_array(value, name)
    check_shape(array, name, 1, "vector of booleans")
    if array.dtype.kind != "b" and (array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all()):
        raise InputError(f"{name} must hold booleans (or 0 and 1), got dtype {array.dtype}.")
    return array.astype(np.bool_)


def as_rows(rows: Any, n: int, name: str) -> slice | NDArray[Any]:
    """What chooses among n rows: a slice (of a single number, one row), whole numbers inside, or a mask of length n."""
    if isinstance(rows, slice):
        return rows
    chosen = as_array(rows, "rows")
    if chosen.size == 0 and chosen.ndim == 1:
        return np.zeros(0, dtype=np.intp)
    single = chosen.ndim == 0 and chosen.dtype.kind in "iu"
    if not (single or chosen.ndim == 1) or chosen.dtype.kind not in "biu" or isinstance(rows, tuple):
        raise InputError(f"rows of {name} must be chosen by a slice, a vector of whole numbers or a mask, got a "
                         f"{type(rows).__name__} ({chosen.dtype}, shape {chosen.shape}).")  # fmt: skip
    if chosen.dtype.kind == "b":
        check_same("length", **{"a mask": chosen.size, name: n})
    elif (outside := (chosen < -n) | (chosen >= n)).any():
        raise InputError(f"row {chosen[outside][0]} is outside {name} with n = {n}.")
    return slice(int(chosen), int(chosen) + 1 or None) if single else chosen


def as_level(value: float, name: str, *, top: float = 1) -> float:
    """A number strictly between 0 and ``top``."""
    return _number_where(value, name, f"strictly between 0 and {top}", lambda x: _LEAST_LEVEL <= x < top)


def exact_level(value: float, name: str) -> Fraction:
    """A number strictly between 0 and 1 as the fraction that was meant: the last bit of a level can move an exact rank.

    ``1 - 0.9`` is 0.09999999999999998 and means one tenth. The fraction returned is within 1e-12 of ``value``: one with
    a small denominator, else a decimal, else the digits that ``value`` prints.

    >>> exact_level(1 - 0.9, "alpha"), exact_level(1 - 2 / 3, "alpha"), exact_level(0.12345, "alpha")
    (Fraction(1, 10), Fraction(1, 3), Fraction(2469, 20000))
    """
    as_level(value, name)
    return _meant(float(str(value)))  # of np.float32(0.7), too, the digits that it prints


@lru_cache(maxsize=256)  # asked once per group and candidate with one and the same level
def _meant(level: float) -> Fraction:
    slack = min(1e-12, 1e-6 * level, 1e-6 * (1 - level))  # a level of 3e-12 has digits that 1e-12 would swallow
    digits = Fraction(str(level))
    for meant in (digits.limit_denominator(1000), Fraction(str(round(level, 12)))):
        if abs(meant - digits) <= slack:
            return meant
    return digits


def as_share(value: float, name: str) -> float:
    """A number above 0 and at most 1."""
    return _number_where(value, name, "above 0 and at most 1", lambda x: 0 < x <= 1)


def as_rate(value: float, name: str) -> float:
    """A number from 0 to below 1, such as a rate of dropout."""
    return _number_where(value, name, "at least 0 and below 1", lambda x: 0 <= x < 1)


def as_positive(value: float, name: str) -> float:
    """A number above 0 whose square and inverse are numbers too."""
    number = _number_where(value, name, "a positive number", lambda x: 0 < x < np.inf)
    return _number_where(number, name, "between 1e-150 and 1e150", lambda x: _SMALLEST <= x <= _LARGEST)


def as_number(value: float, name: str, *, least: float = -_LARGEST, most: float = _LARGEST) -> float:
    """A number from ``least`` to ``most``, both allowed, whose square is a number too."""
    ends = [f"at least {least:g}"] * (least > -_LARGEST) + [f"at most {most:g}"] * (most < _LARGEST)
    what = ", ".join(["a finite number", *([" and ".join(ends)] if ends else [])])
    return _number_where(value, name, what, lambda x: least <= x <= most)


def _number_where(value: Any, name: str, what: str, holds: Callable[[float], bool]) -> float:
    """``value`` as a float if it is one real number, not a boolean or text, for which the condition holds."""
    number = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    try:
        if number and holds(float(value)):
            return float(value)
    except OverflowError:  # an int that no float can hold
        pass
    raise InputError(f"{name} must be {what}, got {reprlib.repr(value)}.")


def as_count(value: SupportsIndex, name: str, *, least: int = 1, most: int = sys.maxsize) -> int:
    """A whole number, at least ``least`` and, where that is given, at most ``most``."""
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if isinstance(value, (bool, np.bool_)) or not least <= count <= most:
        ends = f"at least {least}" + (f" and at most {most}" if most < sys.maxsize else "")
        raise InputError(f"{name} must be a whole number, {ends}, got {reprlib.repr(value)}.")
    return count


def as_flag(value: bool, name: str) -> bool:
    """True or False."""
    return bool(as_kind(value, (bool, np.bool_), name, what="True or False"))


def as_kind(value: T, kind: type[Any] | tuple[type[Any], ...], name: str, *, what: str = "", hint: str = "") -> T:
    """``value`` if it is an instance of ``kind``.

    >>> as_kind([1, 2], dict, "table")
    Traceback (most recent call last):
    caveat.errors.InputError: table must be of type dict, got [1, 2].
    """
    if isinstance(value, kind):
        return value
    what = what or f"of type {kind.__name__ if isinstance(kind, type) else ' or '.join(k.__name__ for k in kind)}"
    raise InputError(f"{name} must be {what}, got {_short(value)}.{hint and ' '}{hint}")


def as_able(value: T, methods: tuple[str, ...], name: str, *, hint: str = "") -> T:
    """``value`` if it has these methods.

    >>> as_able([], ("fit", "predict"), "model")
    Traceback (most recent call last):
    caveat.errors.InputError: model must have fit and predict, got [].
    """
    if all(hasattr(value, method) for method in methods):
        return value
    raise InputError(f"{name} must have {' and '.join(methods)}, got {_short(value)}.{hint and ' '}{hint}")


def as_list(value: Iterable[T], name: str) -> list[T]:
    """What a loop over ``value`` gives, at least one thing; text is one thing, not its letters.

    >>> as_list("msp", "scores"), as_list(("msp", "knn"), "scores")
    (['msp'], ['msp', 'knn'])
    """
    try:
        items: list[Any] = [value] if isinstance(value, (str, bytes)) else list(value)
    except TypeError:
        items = []
    if not items:
        raise InputError(f"{name} must be a list with at least one entry, got {_short(value)}.")
    return items


def as_pair(value: Iterable[T], name: str) -> tuple[T, T]:
    """Two things."""
    items = as_list(value, name)
    if len(items) != 2:
        raise InputError(f"{name} must hold two values, got {_short(value)}.")
    return items[0], items[1]


def _short(value: object) -> str:
    """A value as a message shows it: what it is if it is small, else its type."""
    return reprlib.repr(value) if isinstance(value, (str, int, float, list, tuple, dict, type(None))) else (
        f"{'an' if type(value).__name__[0] in 'aeiouAEIOU' else 'a'} {type(value).__name__}")  # fmt: skip


def as_rng(value: Rng, name: str = "rng") -> np.random.Generator:
    """A random generator: the one given, or a new one from an int seed.

    >>> float(as_rng(0).random()) == float(np.random.default_rng(0).random())
    True
    """
    return value if isinstance(value, np.random.Generator) else np.random.default_rng(as_whole_seed(value, name))


def as_whole_seed(value: int, name: str = "rng") -> int:
    """A seed that is not a generator, without making one: that takes longer than a score on a few hundred rows.

    >>> as_whole_seed(3)
    3
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise InputError(f"{name} must be a numpy.random.Generator or a whole number >= 0, got {reprlib.repr(value)}.")


def same_length(**arrays: Sized) -> int:
    """The common length of arrays that have one entry per sample, else an InputError that names each with its length.

    >>> same_length(score=[1, 2], correct=[True])
    Traceback (most recent call last):
    caveat.errors.InputError: score and correct must have the same length, got 2 and 1.
    """
    return check_same("length", **{name: len(array) for name, array in arrays.items()})


def check_same(what: str, /, **values_by_name: T) -> T:
    """The common value, else an InputError that names each.

    >>> check_same("width", train=3, test=4)
    Traceback (most recent call last):
    caveat.errors.InputError: train and test must have the same width, got 3 and 4.
    """
    *names, last_name = values_by_name
    *values, last = values_by_name.values()
    if any(value != last for value in values):
        raise InputError(f"{', '.join(names)} and {last_name} must have the same {what}, got "
                         f"{', '.join(map(str, values))} and {last}.")  # fmt: skip
    return last


def check_inside(array: NDArray[Any], clip: tuple[float, float] | None, name: str) -> None:
    """Raise InputError unless all values lie in ``clip``, which may be None: anywhere."""
    if clip is None:
        return
    low, high = (as_number(end, "clip") for end in as_pair(clip, "clip"))
    if not low < high:
        raise InputError(f"clip must be (smallest, largest), got {clip!r}.")
    check_each(array, (array >= low) & (array <= high), name, f"lie between {low:g} and {high:g}",
               hint="Scale the inputs, or pass clip=None.")  # fmt: skip


def check_result(values: ArrayLike, what: str) -> NDArray[Any]:
    """A computed array if it is finite. Where the input was checked, what is not finite has overflowed.

    >>> check_result(np.array([1.0, np.inf]), "the score")
    Traceback (most recent call last):
    caveat.errors.InputError: the score is infinite, first at row 1. Rescale the numbers that it is computed from.
    """
    array = np.asarray(values)
    if not (finite := np.isfinite(array)).all():
        place = np.unravel_index(int(np.argmin(finite)), array.shape)
        where = f", first at row {int(place[0])}" if array.ndim else ""
        what_came = "NaN" if np.isnan(array[place]) else "infinite"
        raise InputError(f"{what} is {what_came}{where}. Rescale the numbers that it is computed from.")
    return array


def check_known(value: str, known: Iterable[str], what: str) -> str:
    """``value`` if it is one of ``known``; otherwise an InputError that suggests the nearest.

    >>> check_known("enrgy", ["energy", "msp"], "score")
    Traceback (most recent call last):
    caveat.errors.InputError: unknown score 'enrgy'. Did you mean 'energy'? Known: energy, msp.
    """
    known = known if isinstance(known, Collection) else list(known)
    if isinstance(value, str) and value in known:
        return value
    names = [name for name in sorted(known) if name]  # the empty one is what a default may be
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    shown = f"'{value}'" if isinstance(value, str) else _short(value)
    raise InputError(f"unknown {what} {shown}.{hint} Known: {', '.join(names)}.")
