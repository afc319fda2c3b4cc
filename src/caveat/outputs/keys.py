"""Which arrays or columns of a file are which field of ``Outputs``, and which rows are read.

Plans (``keys``, ``rows``), the command line (``--key``, ``--rows``) and ``Outputs.load`` use the same words. A key is
the name of an array or a column; of a table also ``prefix*`` or a list ``a,b,c`` of columns. An empty key leaves a
field out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from caveat._internal.checks import check_known
from caveat.errors import InputError
from caveat.outputs.outputs import LAYER, SAMPLE_AXIS

__all__ = [
    "CLASS_NAMES",
    "FIELDS",
    "VECTORS",
    "as_slice",
    "check_fields",
    "class_columns",
    "columns_of_fields",
    "is_field",
    "named_columns",
]

FIELDS = (*SAMPLE_AXIS, "head_weight", "head_bias")
CLASS_NAMES = "class_names"  # in a file of arrays: a vector of text, not an array of the model
VECTORS = frozenset({"labels", "confidence", "predictions"})  # one number or name per sample
_IN_TABLES = tuple(name for name, axis in SAMPLE_AXIS.items() if axis == 0)  # a row has no room for several passes
_SINGULAR = {name.removesuffix("s"): name for name in _IN_TABLES if name.endswith("s")}
_NUMBERED = re.compile(r"(?P<name>.+?)[._]?(?P<number>\d{1,9})", re.DOTALL)
_SLICE = re.compile(r"\s*(-?\d{0,18})\s*:\s*(-?\d{0,18})\s*(?::\s*(\d{0,18})\s*)?")


def as_slice(text: str, path: str) -> slice:
    """Rows as Python writes a slice.

    >>> as_slice("0:500", "rows"), as_slice("::2", "rows")
    (slice(0, 500, None), slice(None, None, 2))
    """
    match = _SLICE.fullmatch(text)
    if not match or "-" in match.groups() or (match[3] and not int(match[3])):
        raise InputError(f"{path} must be a slice such as '0:5000' or '::2', got {text!r}.")
    start, stop, step = (int(part) if part else None for part in match.groups())
    return slice(start, stop, step)


def is_field(key: str) -> bool:
    """Whether an array of this name is a field: one of ``FIELDS``, or ``layer.<name>``."""
    return key in FIELDS or key == CLASS_NAMES or key.startswith(LAYER)


def check_fields(fields: Iterable[str], where: str) -> None:
    """Raise InputError unless each renamed field exists."""
    for name in fields:
        if not name.startswith(LAYER):
            check_known(name, FIELDS, f"field in {where}")


# -- files of arrays and tables ---------------------------------------------------------------------------------------


def columns_of_fields(
    names: Collection[str],
    keys: Mapping[str, str] | None = None,
    *,
    table: bool,
    where: object = "the file",
    optional: Collection[str] = (),
    lists: Collection[str] = (),
) -> dict[str, tuple[str, ...]]:
    """Field -> the columns it is made of (of a file of arrays: one array), in their order.

    Fields without a key are read under their own names. In a table they may be numbered columns (``logits_0``,
    ``logits_1``, ...) and in the singular (``label``). From a file of arrays that also holds a renamed field under its
    own name, nothing but the renamed fields is read: such a file holds several data sets.

    Parameters
    ----------
    names
        Names in the file.
    keys
        Field -> name in the file, where they differ.
    table
        Whether the names are columns of a table.
    where
        The file, for error messages.
    optional
        Fields whose key may be missing.
    lists
        Columns with several numbers per row: each is a whole field, also where its name ends in a number.

    Examples
    --------
    >>> columns_of_fields(["id", "y", "logits_1", "logits_0"], {"labels": "y"}, table=True)
    {'labels': ('y',), 'logits': ('logits_0', 'logits_1')}
    >>> columns_of_fields(["z", "labels", "z_test"], {"logits": "z_test"}, table=False)
    {'logits': ('z_test',), 'labels': ('labels',)}
    """
    keys = keys or {}
    renamed = {}
    for field, key in keys.items():
        columns = named_columns(key, names, table=table) if key else ()
        if key and not columns and field not in optional:
            raise _missing(key, names, table, where)
        if columns:
            renamed[field] = columns
    if not table and any(field in names for field, key in keys.items() if key not in ("", field)):
        return renamed
    used = {column for columns in renamed.values() for column in columns}
    rest = [name for name in names if name not in used]
    own = _own_columns(rest, lists, where) if table else {name: (name,) for name in rest if is_field(name)}
    return renamed | {field: columns for field, columns in own.items() if field not in keys}


def class_columns(key: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of logits or probabilities without the prefix of their key: names of classes, if labels have such.

    >>> class_columns("p_*", ("p_cat", "p_dog"))
    ('cat', 'dog')
    """
    prefix = key.removesuffix("*") if key.endswith("*") else ""
    return tuple(column.removeprefix(prefix) for column in columns)


def named_columns(key: str, names: Collection[str], *, table: bool = True) -> tuple[str, ...]:
    """The columns that a key means; none where one of them does not exist."""
    if key in names:
        return (key,)
    if not table:
        return ()
    if key.endswith("*"):
        return _in_order([name for name in names if name.startswith(key[:-1]) and name != key[:-1]], len(key) - 1, key)
    columns = tuple(part.strip() for part in key.split(","))
    if len(set(columns)) < len(columns):
        raise InputError(f"the key '{key}' names a column twice.")
    return columns if all(column in names for column in columns) else ()


def _missing(key: str, names: Collection[str], table: bool, where: object) -> InputError:
    what = "column" if table else "array"
    lacking = next((part for part in map(str.strip, key.split(",")) if part not in names), key) if table else key
    return InputError(f"{where} has no {what} '{lacking}'. It has {_listed(sorted(names)) or 'none'}.")


def _listed(names: list[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _own_columns(names: Collection[str], lists: Collection[str], where: object) -> dict[str, tuple[str, ...]]:
    """Fields under their own names in a table: one column, or numbered ones."""
    fields: dict[str, tuple[str, ...]] = {}
    numbered: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        match = None if name in lists else _NUMBERED.fullmatch(name)
        if (field := _field(name)) and not (match and name.startswith(LAYER)):
            if field in fields:
                raise InputError(f"{where} has two columns for {field}, '{fields[field][0]}' and '{name}'. Choose one: "
                                 f"{field}={name}.")  # fmt: skip
            fields[field] = (name,)
        elif match and (field := _field(match["name"].rstrip("._"))) and field not in VECTORS:
            numbered.setdefault(field, []).append((int(match["number"]), name))
    for field, columns in numbered.items():
        if field in fields:
            raise InputError(f"{where} has a column '{fields[field][0]}' and numbered ones for {field}. Choose with "
                             f"{field}=NAME.")  # fmt: skip
        fields[field] = _without_gaps(columns, f"{where}: columns of {field}")
    return fields


def _field(name: str) -> str:
    name = _SINGULAR.get(name, name)
    return name if name in _IN_TABLES or (name.startswith(LAYER) and name != LAYER) else ""


def _in_order(columns: list[str], skip: int, key: str) -> tuple[str, ...]:
    """Numbered columns by number; those with names in the order of the file."""
    numbers = [re.fullmatch(r"\D*?(\d{1,9})", column[skip:]) for column in columns]
    if columns and all(numbers):
        return _without_gaps([(int(match[1]), name) for match, name in zip(numbers, columns, strict=True) if match],
                             f"columns {key}")  # fmt: skip
    if any(numbers):
        plain = next(name for match, name in zip(numbers, columns, strict=True) if not match)
        raise InputError(f"columns {key} must all end in a number or none of them, got '{plain}' among them. "
                         "Name them one by one: a,b,c.")  # fmt: skip
    return tuple(columns)


def _without_gaps(columns: list[tuple[int, str]], what: str) -> tuple[str, ...]:
    columns.sort()
    numbers = [number for number, _ in columns]
    first = 1 if numbers[0] == 1 else 0
    for expected, (number, name) in enumerate(columns, start=first):
        if number < expected:
            raise InputError(f"{what} must have different numbers, got {number} twice (column '{name}').")
        if number > expected:
            raise InputError(f"{what} must be numbered from 0 or 1 without gaps, got '{name}' but no number "
                             f"{expected}. Name them one by one: a,b,c.")  # fmt: skip
    return tuple(name for _, name in columns)
