"""The options ``--key``, ``--rows`` and ``--class-names``: how files are read, the same in every command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, final

import typer

from caveat.errors import InputError

if TYPE_CHECKING:
    from caveat.outputs import Head, Outputs
    from caveat.scale import Source

__all__ = ["ClassNames", "HeadKeys", "Keys", "Reading", "Rows", "head_of"]

Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="FIELD=NAME",
        help="Name of a field in the files, where it differs: labels=y; of a table also logits=p_* or logits=a,b,c. "
        "labels= leaves it out. For some files: test:labels=y with the option or the name of the set. May be repeated.",
    ),
]
Rows = Annotated[
    list[str] | None,
    typer.Option(
        "--rows",
        metavar="SLICE",
        help="Rows to read: 0:5000 or ::2. For some files: test=0:5000, as in --key. May be repeated.",
    ),
]
ClassNames = Annotated[
    str | None,
    typer.Option(
        "--class-names",
        metavar="A,B,C",
        help="Names of the classes in the order of the columns, where labels are names and the files do not store it.",
    ),
]
HeadKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--head-key",
        metavar="FIELD=NAME",
        help="Name of head_weight or head_bias in the file of --head, where it differs: head_weight=fc.weight. May be "
        "repeated.",
    ),
]
_UNLABELED = ("outlier", "confirm")  # a key without a role may name labels that these lack


@final
@dataclass(frozen=True)
class Reading:
    """How each file of a command is read. A set's name counts before its role, and its role before all files."""

    keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # role or set, "" for all -> field -> name
    rows: Mapping[str, str] = field(default_factory=dict)
    class_names: tuple[str | float, ...] | None = None

    @classmethod
    def of(
        cls, keys: list[str] | None, rows: list[str] | None, roles: Iterable[str] = (), class_names: str | None = None
    ) -> Reading:
        """From the options; ``roles`` are the roles and the names of the sets that the command got files for."""
        from caveat._internal.checks import check_known
        from caveat.outputs.keys import as_slice, check_fields

        names: dict[str, dict[str, str]] = {}
        for item in keys or ():
            what, equals, name = item.partition("=")
            role, _, field_name = ("", "", what) if what.startswith("layer.") else what.rpartition(":")
            if not equals or not field_name:
                raise InputError(f"--key must be FIELD=NAME, such as labels=y or test:labels=y, got {item!r}.")
            if role:
                check_known(role, roles, "role in --key")
            check_fields([field_name], "--key")
            if field_name in names.setdefault(role, {}):
                raise InputError(f"--key has {what} twice. Give it once.")
            names[role][field_name] = name
        parts: dict[str, str] = {}
        for item in rows or ():
            role, _, part = item.rpartition("=")
            if role:
                check_known(role, roles, "role in --rows")
            as_slice(part, "--rows")
            if role in parts:
                raise InputError(f"--rows has two slices for {role or 'all files'}. Give one.")
            parts[role] = part
        return cls(names, parts, None if class_names is None else _as_names(class_names))

    def of_file(self, role: str = "", name: str = "") -> tuple[dict[str, str], str]:
        """Keys and rows of the file of a role; ``name`` is that of its set."""
        keys = dict(self.keys.get("", {}))
        for place in (role, name):
            keys |= self.keys.get(place, {}) if place else {}
        return keys, self.rows.get(name) or self.rows.get(role) or self.rows.get("", "")

    def load(self, path: Path, role: str = "", name: str = "") -> Outputs:
        """The outputs in a file."""
        check_path(path)
        from caveat.outputs.reading import load_outputs

        keys, rows = self.of_file(role, name)
        unlabeled = role in _UNLABELED and not any("labels" in self.keys.get(place, {}) for place in (role, name))
        return load_outputs(path, keys=keys, rows=rows, optional=("labels",) if unlabeled else (),
                            class_names=self.class_names)  # fmt: skip

    def source(self, path: Path, role: str = "", name: str = "") -> Outputs | Path | Source:
        """What ``caveat.scale`` reads by row ranges: the path, or rows in memory where fields or rows are chosen."""
        check_path(path)
        if any(self.of_file(role, name)):
            return self.load(path, role, name)
        if self.class_names is None:
            return path
        from caveat.scale import open_source

        return open_source(path, class_names=self.class_names)


def check_path(path: Path) -> None:
    """Raise InputError for the empty path, which is the current folder: what lies there was not chosen."""
    if path == Path():
        raise InputError("a path of outputs is empty, or '.', the current folder. Name a file or another folder.")


def _as_names(text: str) -> tuple[str | float, ...]:
    """Names between commas; numbers where all of them are, so that labels 10, 20, 30 are looked up among them."""
    from caveat._internal.classes import as_class_names

    names = tuple(name.strip() for name in text.split(","))
    try:
        values: tuple[str | float, ...] = tuple(map(float, names))
    except ValueError:
        values = names
    as_class_names(values, "--class-names")
    return values


def head_of(path: Path | None, keys: list[str] | None) -> Head | None:
    """The last linear layer in the file of ``--head``; None without one."""
    if path is None:
        if keys:
            raise InputError("--head-key names arrays of a file. Give the file: --head.")
        return None
    from caveat.outputs.reading import load_head

    return load_head(path, Reading.of(keys, None).keys.get("", {}))
