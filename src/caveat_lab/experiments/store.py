"""Where a study keeps its cells: a folder of small Arrow files that are never half written.

::

    runs/x/plan.toml            the plan as it was read
    runs/x/plan.json            the same, resolved, with the cells in order
    runs/x/cells/KEY.arrow      one table per finished cell
    runs/x/failures/KEY.json    why a cell failed; gone once it succeeds
    runs/x/models/KEY/          networks that a matrix trained
    runs/x/outputs/KEY/         outputs that a task or a network of a matrix made
    runs/x/active/              which runs are at work

A cell's file is written under another name and renamed, so that a run may be killed at any moment. Nothing is locked:
two runs on one store compute what neither has finished, and a cell that both finish has the same content twice.

A cell is an Arrow stream and, behind its end, the SHA-256 of its bytes: damage is found before anything is parsed.
Parquet takes many times longer to read: a cell has about a hundred nested columns and few rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from caveat._internal.files import from_json, is_folder, is_temporary, read_json, replacing_file, write_json
from caveat.errors import CaveatError, InputError, MissingExtraError, StoreError
from caveat.evaluation.records import Record
from caveat_lab.experiments.cells import Cell
from caveat_lab.experiments.plan import Plan
from caveat_lab.experiments.records_table import Row, is_record_table, records_in, records_table

__all__ = ["Failure", "Store", "StoredCell"]

_META = b"caveat"
_DIGEST = hashlib.sha256().digest_size
_PARTS = ("cells", "failures", "models", "outputs", "active")
_LONG_AGO = 7 * 24 * 3600.0  # seconds
_PREPARING = 60.0  # seconds that writing a plan takes at most


@final
@dataclass(frozen=True)
class Failure:
    """A cell that failed, and why.

    Parameters
    ----------
    key, label
        Key of the cell, and what it is in words.
    error, message
        Type of the error and its message.
    traceback
        Where it was raised.

    Examples
    --------
    >>> Failure("1f2e", "msp on a, seed 0", "InputError", "labels are missing.", "").error
    'InputError'
    """

    key: str
    label: str
    error: str
    message: str
    traceback: str


@final
@dataclass(frozen=True, eq=False)
class StoredCell:
    """The table of one cell as a ``pyarrow.Table``, and what is known of how it came about."""

    table: Any
    facts: Mapping[str, Any]

    def records(self, kinds: Sequence[type[Any]] | None = None) -> Iterator[Record]:
        """The records of the wanted kinds; none where a task wrote rows of its own."""
        return records_in(self.table, kinds) if is_record_table(self.table.schema) else iter(())


@final
class Store:
    """The folder of one study.

    Parameters
    ----------
    folder
        Made by :meth:`prepare` where it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Store(folder).has("1f2e")
    False
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if find_spec("pyarrow") is None:
            raise MissingExtraError("a study's store", extra="stats")
        self.folder = Path(folder)

    # -- the plan -----------------------------------------------------------------------------------------------------

    def prepare(self, plan: Plan, cells: Sequence[Cell], notes: Sequence[str] = ()) -> None:
        """Make the folder and write the plan into it. What is there already is left alone.

        Parameters
        ----------
        plan
            The plan.
        cells
            Its cells, in order.
        notes
            What the plan left out, in sentences.
        """
        with self.writing():
            if self.folder.exists() and not self.folder.is_dir():
                raise StoreError(f"{self.folder} is a file. Choose a folder for the study.")
            foreign: list[str] = []
            if self.folder.is_dir() and not (self.folder / "plan.json").exists():
                # Another run may write plan.json between these lines.
                own = {*_PARTS, "plan.toml", "plan.json"}
                foreign = [p.name for p in self.folder.iterdir() if p.name not in own and not is_temporary(p.name)]
            elif self.folder.is_dir() and not self._is_ours():
                foreign = ["a plan.json that is not ours"]
            if foreign:
                raise StoreError(f"{self.folder} is not a study (it holds {foreign[0]}). Choose another folder.")
            for part in _PARTS:
                if (self.folder / part).is_symlink():
                    raise StoreError(f"{self.folder / part} is a link, and a study deletes nothing behind links. "
                                     "Link the whole folder of the study instead.")  # fmt: skip
            content = {
                "format": 1, "title": plan.title, "folder": str(plan.folder), "plan": dict(plan.content),
                "notes": list(notes), "cells": [cell.to_json() for cell in cells],
                "toml": self._own_plan_texts(plan.text),
            }  # fmt: skip
            for part in ("cells", "failures", "active"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            if _text(self.folder / "plan.json") != json.dumps(content, indent=2) + "\n":
                write_json(self.folder / "plan.json", content)
            if plan.text and _text(self.folder / "plan.toml") != plan.text:
                with replacing_file(self.folder / "plan.toml") as temporary:
                    temporary.write_text(plan.text, encoding="utf-8")
            elif not plan.text:  # that of an earlier plan, if any
                (self.folder / "plan.toml").unlink(missing_ok=True)

    def _own_plan_texts(self, text: str) -> list[str]:
        """SHA-256 of every ``plan.toml`` that was written here, and of the one to write. Another one is left alone."""
        there = _text(self.folder / "plan.toml")
        try:
            before = read_json(self.folder / "plan.json").get("toml") if (self.folder / "plan.json").exists() else []
        except InputError:
            before = None
        digest = None if there is None else hashlib.sha256(there.encode()).hexdigest()
        if before is None:  # damaged, or written before this was kept
            before = [digest] if digest else []
        if digest is None or digest in before or there == text:
            mine = {hashlib.sha256(text.encode()).hexdigest()} if text and there != text else set()
            return sorted({*before, *mine})
        raise StoreError(f"{self.folder} holds a plan.toml that no study wrote. Choose another folder.")

    def plan(self) -> dict[str, Any]:
        """What ``plan.json`` holds."""
        reason = "there is no such folder"
        if is_folder(self.folder):
            there = (self.folder / "plan.json").exists()
            ours = there and self._is_ours()
            reason = "" if ours else "its plan.json is not ours" if there else "it has no plan.json"
        if reason:
            raise InputError(f"{self.folder} is not a study: {reason}. Give the folder that caveat study wrote.")
        return read_json(self.folder / "plan.json")

    def _is_ours(self) -> bool:
        """Whether a study wrote the plan; a damaged plan counts if there are cells in the folder."""
        if not (self.folder / "plan.json").exists():
            return True
        try:
            return set(read_json(self.folder / "plan.json")) >= {"format", "title", "folder", "plan", "notes", "cells"}
        except InputError:
            return (self.folder / "cells").is_dir()

    # -- cells --------------------------------------------------------------------------------------------------------

    def path(self, key: str) -> Path:
        """The file of a cell.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        Path
            Whether it exists or not.
        """
        return self.folder / "cells" / f"{key}.arrow"

    def outputs(self, key: str) -> Path:
        """The folder of the outputs that a cell made.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        Path
            Whether it exists or not.
        """
        return self.folder / "outputs" / key

    def model(self, key: str) -> Path:
        """The folder of the network that a cell trained.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        Path
            Whether it exists or not.
        """
        return self.folder / "models" / key

    def has(self, key: str) -> bool:
        """Whether the cell is finished, going by its name alone.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        bool
            True where its file exists.
        """
        return self.path(key).exists()

    def write(
        self, cell: Cell, content: Sequence[Record] | Sequence[Row], facts: Mapping[str, Any] | None = None
    ) -> None:
        """Write the table of a cell under its final name in one step; forget that it ever failed.

        Parameters
        ----------
        cell
            The cell.
        content
            Its records, or rows of a task.
        facts
            How it came about: seconds, versions, warnings.
        """
        import pyarrow as pa

        rows = bool(content) and isinstance(content[0], dict)
        table = _rows_table(pa, content) if rows else records_table(content)  # type: ignore[arg-type]
        description = json.dumps(
            cell.to_json() | {"rows": table.num_rows} | dict(facts or {}), ensure_ascii=False
        ).encode()
        sink = pa.BufferOutputStream()
        table = table.replace_schema_metadata({_META: description})
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        content_bytes = sink.getvalue().to_pybytes()
        with self.writing():
            with replacing_file(self.path(cell.key)) as temporary:
                temporary.write_bytes(content_bytes + hashlib.sha256(content_bytes).digest())
            (self.folder / "failures" / f"{cell.key}.json").unlink(missing_ok=True)

    def records(self, key: str, kinds: Sequence[type[Any]] | None = None) -> Iterator[Record]:
        """The records of a finished cell, of the wanted kinds; none where a task wrote rows of its own.

        Parameters
        ----------
        key
            Key of the cell.
        kinds
            Classes of ``caveat.evaluation.records``; None: all.

        Returns
        -------
        iterator of Record
            In the order in which they were written.
        """
        yield from self.read(key).records(kinds)

    def read(self, key: str) -> StoredCell:
        """The table of a finished cell. A damaged file is an InputError.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        StoredCell
            ``table`` and ``facts``.
        """
        import pyarrow as pa

        with self._reading(key):
            raw = self.path(key).read_bytes()
            if hashlib.sha256(memoryview(raw)[:-_DIGEST]).digest() != raw[-_DIGEST:]:
                raise ValueError("its bytes are not those that were written")
            table = pa.ipc.open_stream(raw).read_all()
            facts = _facts(table.schema.metadata)
            if facts.get("key") != key or facts.get("rows") != table.num_rows:
                raise InputError(f"the cell {self.path(key)} is not what its name says. Run the study again.")
            is_record_table(table.schema)
        return StoredCell(table, facts)

    def facts(self, key: str) -> Mapping[str, Any]:
        """What is known of a finished cell besides its table.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        dict
            ``seconds``, ``versions`` and ``caveats``, where they were written.
        """
        import pyarrow as pa

        with self._reading(key), pa.OSFile(str(self.path(key))) as file:
            return _facts(pa.ipc.open_stream(file).schema.metadata)

    @contextlib.contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        """Turn whatever a damaged file makes pyarrow raise into an InputError."""
        try:
            yield
        except InputError:
            raise
        except FileNotFoundError:
            raise InputError(f"the cell {key} is not in {self.folder}. Run the study again.") from None
        except Exception as error:  # ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError
            reason = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise InputError(f"the cell {self.path(key)} is damaged ({reason}). Run the study again.") from None

    def is_sound(self, key: str) -> bool:
        """Whether the cell is finished and its file holds the names, values and facts that were written.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        bool
            False where the file is missing or damaged.
        """
        if not self.has(key):
            return False
        try:
            self.read(key)
        except InputError:
            return False
        return True

    def forget(self, key: str) -> None:
        """Remove a cell that cannot be used.

        Parameters
        ----------
        key
            Key of the cell.
        """
        with self.writing():
            self.path(key).unlink(missing_ok=True)

    # -- failures -----------------------------------------------------------------------------------------------------

    def write_failure(self, failure: Failure) -> None:
        """Keep why a cell failed.

        Parameters
        ----------
        failure
            The failure, with the key of its cell.
        """
        with self.writing():
            write_json(self.folder / "failures" / f"{failure.key}.json", dict(vars(failure)))

    def failure(self, key: str) -> Failure | None:
        """Why a cell failed; None if it did not, or has succeeded since.

        Parameters
        ----------
        key
            Key of the cell.

        Returns
        -------
        Failure or None
            The last failure.
        """
        path = self.folder / "failures" / f"{key}.json"
        if not path.exists() or self.has(key):
            return None
        try:
            return Failure(**{name: str(value) for name, value in read_json(path).items()})
        except (InputError, TypeError):
            return Failure(key, key, "unknown", "its record cannot be read", "")

    # -- runs at work -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def at_work(self) -> Iterator[int]:
        """While inside, this run counts as active. Gives how many began before it; alone, it clears away leftovers."""
        mine = self.folder / "active" / f"{socket.gethostname()}-{os.getpid()}"
        with self.writing():
            mine.parent.mkdir(parents=True, exist_ok=True)
            mine.touch()  # before looking around: of two runs that begin at once, one at least sees the other
            others = [note for note in mine.parent.iterdir() if note != mine and _alive(note)]
            begun = _changed(mine)
            # What is newer than this run may belong to one that began a moment later.
            self._clear_leftovers(before=begun - (_LONG_AGO if others else 0.0))
            earlier = sum(_changed(note) <= begun for note in others)
        try:
            yield earlier
        finally:
            mine.unlink(missing_ok=True)

    def _clear_leftovers(self, before: float) -> None:
        """Remove what killed runs left half written. What is newer may belong to a run that is still at work."""
        for part in (".", "cells", "failures", "outputs"):
            folder = self.folder / part
            if folder.is_symlink() or not folder.is_dir():
                continue
            spared = _PREPARING if part == "." else 0.0  # a run writes its plan before it says that it is at work
            for leftover in folder.iterdir():
                if not is_temporary(leftover.name) or leftover.is_symlink() or _changed(leftover) >= before - spared:
                    continue
                if leftover.is_dir():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink(missing_ok=True)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Turn trouble of the operating system into a StoreError that says what to do."""
        try:
            yield
        except OSError as error:
            if isinstance(error, CaveatError):
                raise
            reason = error.strerror or str(error)
            raise StoreError(
                f"{self.folder} cannot be written ({reason}). Finished cells are kept. Fix this and run again."
            ) from None


def _facts(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What a cell's file says of itself."""
    return from_json((metadata or {}).get(_META, b"{}"), "its description")


def _rows_table(pa: Any, rows: Sequence[Row]) -> Any:
    try:
        return pa.Table.from_pydict({name: [row[name] for row in rows] for name in rows[0]})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"each column of a task's rows must hold one type ({error}).") from None


def _alive(note: Path) -> bool:
    """Whether the run that left this note is still there; one on another machine is believed for a while."""
    host, _, pid = note.name.rpartition("-")
    if host != socket.gethostname() or not pid.isdigit():
        return time.time() - _changed(note) < _LONG_AGO
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        note.unlink(missing_ok=True)
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True


def _changed(path: Path) -> float:
    """When a file was last changed; what is gone by now counts as new."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
